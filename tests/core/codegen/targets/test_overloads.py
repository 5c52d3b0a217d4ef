"""The stubs of ``tp.ops``: a type checker reads them as the schemas are, and nothing at run time does."""

from __future__ import annotations

import inspect
import keyword
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.targets import overloads
from tensorplay_core.dispatch.registry import REGISTRY

ROOT = Path(__file__).parents[4]

USER = """
from typing import assert_type
import tensorplay as tp

x = tp.ones(2, 2)
assert_type(tp.ops.tp.max.dim(x, 0), tuple[tp.Tensor, tp.Tensor])
assert_type(tp.ops.tp.max.default(x), tp.Tensor)
assert_type(tp.ops.tp.max(x, 0, keepdim=True), tuple[tp.Tensor, tp.Tensor])
assert_type(tp.ops.tp.max(x), tp.Tensor)
assert_type(tp.ops.tp.add.default(x, 2.0, alpha=2), tp.Tensor)
assert_type(tp.ops.tp.add_(x, x), tp.Tensor)
assert_type(tp.ops.tp.cat([x, x], dim=1), tp.Tensor)
assert_type(tp.ops.tp.add.default.has_kernel("CPU"), bool)
reveal_type(tp.ops.tp.sum)
reveal_type(tp.ops.mine.anything)
tp.ops.tp.add.default(x, "y")
tp.ops.tp.max.dim(x)
tp.ops.tp.softmax(x, 0, axis=1)
tp.ops.tp.max.dims(x, 0).nothing
"""


def checked(folder: Path, *arguments: str, **files: str) -> str:
    """What mypy says of files, with our sources beside them."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *arguments]
    command += ["--follow-imports=silent", *(f"{name}.py" for name in files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_a_type_checker_knows_every_signature(tmp_path: Path) -> None:
    said = checked(tmp_path, user=USER)
    lines = {
        int(line.split(":")[1]): line for line in said.splitlines() if re.match(r"user.py:\d+: (error|note: Rev)", line)
    }
    where = {text: number for number, text in enumerate(USER.splitlines(), 1)}
    assert "dim: int | Sequence[int] | None =, keepdim: bool =, *, dtype: DType | None =" in _short(
        lines[where["reveal_type(tp.ops.tp.sum)"]]
    )
    assert 'type is "tensorplay_core.ops.packets.OpPacket"' in lines[where["reveal_type(tp.ops.mine.anything)"]]
    errors = {number: line for number, line in lines.items() if ": error:" in line}
    assert sorted(errors) == [
        where['tp.ops.tp.add.default(x, "y")'],
        where["tp.ops.tp.max.dim(x)"],
        where["tp.ops.tp.softmax(x, 0, axis=1)"],
    ], said
    assert 'incompatible type "str"' in errors[where['tp.ops.tp.add.default(x, "y")']]
    assert 'Missing positional argument "dim"' in errors[where["tp.ops.tp.max.dim(x)"]]
    assert 'keyword argument "axis"' in errors[where["tp.ops.tp.softmax(x, 0, axis=1)"]]


def _short(text: str) -> str:
    for module in ("typing.", "collections.abc.", "tensorplay_core.types.dtype.", "builtins."):
        text = text.replace(module, "")
    return text


def test_every_operator_has_a_stub_with_the_parameters_that_it_takes(ours: CodegenContext) -> None:
    packets: dict[str, object] = {}
    for name, text in overloads.generate(ours):
        if name != "_generated_overloads.py":
            packets |= executed(text)
    for op in REGISTRY.operators.values():
        if op.namespace != "tp":
            continue
        found = packets[op.name]
        if isinstance(found, type):
            if keyword.iskeyword(op.overload):  # getattr alone reaches it
                assert op.overload not in vars(found)
                continue
            found = vars(found)[op.overload or "default"]
        parameters = inspect.signature(found).parameters  # type: ignore[arg-type]
        expected = [
            (a.name + "_" * keyword.iskeyword(a.name), a.default is not None, a.kwarg_only) for a in op.schema.arguments
        ]
        assert [
            (p.name, p.default is not p.empty, p.kind is p.KEYWORD_ONLY) for p in parameters.values()
        ] == expected, op


def executed(text: str) -> dict[str, object]:
    """The members of the one class in a generated file: functions, and classes of functions."""
    text = text.replace("if TYPE_CHECKING:", "if True:").replace("    from tensorplay_core.ops.overload_types", "    #")
    namespace: dict[str, object] = dict.fromkeys(("one", "packet"), lambda f: f.__func__) | {"__name__": "generated"}
    exec(text, namespace)
    (made,) = (v for k, v in namespace.items() if k.endswith("Overloads") and isinstance(v, type))
    members = dict(vars(made))
    return {name: members.get(f"_{name}_overloads", value) for name, value in members.items()} | {
        name: members[f"_{name}_overloads"] for name in made.__annotations__
    }


AWKWARD = """
- func: softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
- func: softmax.str(Tensor self, str dim) -> (Tensor, Tensor)
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  inplace: true
- func: add.Scalar(Tensor self, Scalar other) -> Tensor
- func: float(Tensor self, float x, bool y=False) -> Tensor
- func: one(Tensor self) -> Tensor
- func: random(Tensor self, int start, int? end=None, *, Tensor[]? more=None) -> ()
- func: random_.from(Tensor(a!) self, int start) -> Tensor(a!)
- func: bool(Tensor self) -> Tensor
- func: only.dim(Tensor self, int dim) -> Tensor
- func: more(Tensor self, float p=inf, ScalarType dtype=float, int[2] size=[1, 2], str how="a", float e=1e-5) -> Tensor
- func: put_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)
- func: put(Tensor self, Scalar value) -> Tensor
  inplace: true
"""
AWKWARD_USER = """
from typing import assert_type, Any
import tensorplay as tp
from _generated_overloads_small import SmallOverloads

ops: SmallOverloads = tp.ops.mine  # type: ignore[assignment]
x = tp.ones(2)
assert_type(ops.softmax.int(x, 0, dtype=None), tp.Tensor)
assert_type(ops.softmax.str(x, "n"), tuple[tp.Tensor, tp.Tensor])
assert_type(ops.softmax(x, 0), tp.Tensor)
assert_type(ops.softmax(x, "n"), tuple[tp.Tensor, tp.Tensor])
assert_type(ops.add.Tensor(x, x, alpha=2), tp.Tensor)
assert_type(ops.add.Scalar(x, 2), tp.Tensor)
assert_type(ops.add_.Tensor(x, x), tp.Tensor)
assert_type(ops.float(x, 1.0, y=True), tp.Tensor)
assert_type(ops.bool(x), tp.Tensor)
assert_type(ops.random(x, 1, end=1, more=[x]), None)
assert_type(ops.only.dim(x, 0), tp.Tensor)
assert_type(ops.only(x, 0), tp.Tensor)
assert_type(ops.more(x, 1.0, tp.float64, 3, e=2.0), tp.Tensor)
assert_type(ops.put_.Tensor(x, x), tp.Tensor)
assert_type(ops.put_.default(x, 2), tp.Tensor)
"""


def test_names_that_hide_types_and_names_that_python_cannot_spell(
    small: Callable[..., CodegenContext], tmp_path: Path
) -> None:
    files = dict(overloads.generate(small(AWKWARD.lstrip())))
    text = files["_generated_overloads_small.py"]
    assert "def from" not in text and "def one" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert 'size: int | Sequence[int] = (1, 2), how: str = "a", e: _float = 1e-05' in " ".join(text.split())
    said = checked(tmp_path, _generated_overloads_small=text, user=AWKWARD_USER)
    assert "Success" in said, said


def test_they_cost_an_import_nothing() -> None:
    code = "import tensorplay as tp, sys; tp.ops.tp.add.default; print([m for m in sys.modules if m.startswith(START)])"
    code = code.replace("START", "('tensorplay_core.ops._generated_overloads', 'tensorplay_core.ops.overload_types')")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    assert tp.ops.tp.max.dim(tp.tensor([[1.0, 3.0]]), 1)[1].tolist() == [1]
