"""examples/custom_op: a package of somebody else's with its own contract, kernels, gradients and fakes."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_op"
PACKAGE = EXAMPLE / "src" / "fused_ops"


def run(*command: str | Path, cwd: Path = EXAMPLE, source: Path = EXAMPLE / "src") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(source), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd, env=env, timeout=120)


def python(program: str, **where: Path) -> str:
    done = run(sys.executable, "-c", textwrap.dedent(program), **where)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.strip()


def test_both_operators_pass_and_both_mistakes_are_named() -> None:
    done = run(sys.executable, "check.py")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    checks, first, second = done.stdout.strip().split("\n\n")
    tests = ["test_schema", "test_autograd_registration", "test_gradient", "test_fake", "test_fast_path"]
    assert checks.splitlines() == [f"{op}: {test}: SUCCESS" for op in ("bias_silu", "polynomial") for test in tests]
    assert re.match(r"opcheck: test_schema failed: wrong::add_one: .*check.py:\d+\) wrote to its argument x", first)
    assert "\nfix: declare it, with mutates_args={'x'} or Tensor(a!) x" in first
    assert re.match(r"opcheck: test_schema failed: wrong::clip: .*check.py:\d+\) .* is the argument x itself", second)
    assert "\nfix: return a clone() of it" in second


def test_the_readme_says_what_happens(tmp_path: Path) -> None:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 45
    blocks = re.findall(r"```(\w+)\n(.*?)```\n", text, re.S)
    assert [language for language, _ in blocks] == ["console", "pycon"]
    command, _, output = blocks[0][1].removeprefix("$ ").partition("\n")
    assert run(*command.split()).stdout == output
    (tmp_path / "session.txt").write_text(blocks[1][1], encoding="utf-8")
    code = f"import doctest; assert not doctest.testfile('session.txt', False, optionflags={doctest.ELLIPSIS}).failed"
    assert run(sys.executable, "-c", code, cwd=tmp_path).returncode == 0
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (EXAMPLE / target).exists(), target


def test_generated_files_are_what_the_contract_says() -> None:
    command = ["tensorplay", "codegen", "--check", "--contract", PACKAGE / "native_functions.yaml", "--out", PACKAGE]
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_are_made_anew_from_the_contract_alone(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "fused_ops"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    made = sorted(path.name for path in copy.glob("_generated_*"))
    for name in made:
        (copy / name).unlink()
    done = run("tensorplay", "codegen", "--contract", copy / "native_functions.yaml", "--out", copy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in made:
        assert (copy / name).read_text(encoding="utf-8") == (PACKAGE / name).read_text(encoding="utf-8"), name


def test_values_and_gradients_are_those_of_closed_forms() -> None:
    program = """
    import math, numpy as np, tensorplay as tp, fused_ops
    z = np.linspace(-90, 90, 181)
    x = tp.tensor(z, requires_grad=True)
    y = fused_ops.bias_silu(x, tp.tensor(0.0, dtype=tp.float64))
    s = np.array([1 / (1 + math.exp(-v)) if v > -700 else 0.0 for v in z])
    np.testing.assert_allclose(y.detach().numpy(), z * s, rtol=1e-14, atol=0)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), s * (1 + z * (1 - s)), rtol=1e-12, atol=1e-300)
    for device in ("cpu", "loopback"):
        big = fused_ops.bias_silu(tp.tensor([-1e4, 1e4], device=device), tp.tensor([0.0, 0.0], device=device))
        assert big.tolist() == [0.0, 1e4], big
    p = np.polynomial.Polynomial([1.0, -2.0, 0.0, 0.5])
    x = tp.tensor(z, requires_grad=True)
    y = fused_ops.polynomial(x, [1.0, -2.0, 0.0, 0.5])
    np.testing.assert_allclose(y.detach().numpy(), p(z), rtol=1e-13)
    (g,) = tp.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = tp.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(g.detach().numpy(), p.deriv()(z), rtol=1e-13)
    np.testing.assert_allclose(h.numpy(), p.deriv(2)(z), rtol=1e-13)
    assert fused_ops.polynomial(tp.tensor([math.inf]), [1.0, 1.0]).item() == math.inf
    print("right")
    """
    assert python(program) == "right"


def test_overloads_and_redispatch_reach_the_kernels() -> None:
    program = """
    import tensorplay as tp, fused_ops
    from tensorplay_core.dispatch.key_set import KeySet
    from tensorplay_core.dispatch.keys import DispatchKey
    op = tp.ops.fused.bias_silu.default
    x = tp.ones(2, requires_grad=True)
    below = op.redispatch(KeySet.of(DispatchKey.CPU), x, x)
    above = op.redispatch(KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU), x, x)
    print(op.name(), op.has_kernel("CPU"), op.has_kernel("CUDA"), below.requires_grad, above.grad_fn.name)
    print(tp.explain(op, x, x).text if hasattr(tp.explain(op, x, x), "text") else tp.explain(op, x, x))
    """
    first, _, road = python(program).partition("\n")
    assert first == "fused::bias_silu True False False BiasSiluBackward"
    assert "bias_silu_cpu" in road and "fused_ops/kernels.py:" in road and "BiasSiluBackward" in road


@pytest.mark.parametrize("times", [2, 3])
def test_the_file_works_as_a_notebook_cell_that_is_run_again(times: int) -> None:
    program = f"""
    import pathlib, types
    import tensorplay as tp
    source = pathlib.Path({str(PACKAGE / "polynomial.py")!r}).read_text()
    notebook = types.ModuleType("__main__")
    for _ in range({times}):
        exec(compile(source, "<cell>", "exec"), notebook.__dict__)
        x = tp.tensor([2.0], requires_grad=True)
        notebook.polynomial(x, [0.0, 0.0, 1.0]).sum().backward()
        assert x.grad.tolist() == [4.0]
    op = tp.ops.fused.polynomial.default._op
    print(*(len(stack) for stack in op.table.values()))
    """
    assert set(python(program).split()) <= {"1", "2"}  # 2: the gradient above the placeholder that raises


def test_its_metadata_names_the_package() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"].replace("-", "_") == PACKAGE.name and project["readme"] == "README.md"
