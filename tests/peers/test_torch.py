"""Every shared operator against PyTorch: values over dtypes, gradients and gradients of gradients, on the samples.

Skipped, visibly, where torch is not installed. What differs on purpose is in ``DIFFERENT`` with its reason; the
tables of each family are in ``torch_tables/``.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.sample_features import in_domain
from tensorplay_core.testing.samples import samples

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = pytest.mark.peers

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DTYPES = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
COUNTS: Counter[str] = Counter()
CREATED = {"empty"} | {name for name, op in OPERATORS.items() if "random" in op.tags}
"""Contents that are not comparable."""


def _gathered(name: str) -> dict[Any, Any]:
    """Returns a table of all families; none says something that another says otherwise."""
    found: dict[Any, Any] = {}
    for module in MODULES:
        table = getattr(module, name, {})
        assert not found.keys() & table.keys(), f"{module.__name__}: {name} repeats {found.keys() & table.keys()}"
        found |= table
    return found


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"torch_tables_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = [_module(path) for path in sorted(Path(__file__).parent.glob("torch_tables/*.py"))]
REFERENCES: dict[str, Any] = _gathered("REFERENCES")
"""Operators to what computes the same in PyTorch, where a function of the operator's name does not."""
WITHOUT_GRADIENT: dict[str, str] = _gathered("WITHOUT_GRADIENT")
"""Operators to the reason why their gradients are not compared."""
DIFFERENT_DTYPES: dict[tuple[str, str], str] = _gathered("DIFFERENT_DTYPES")
"""(operator, dtype) to the reason why it is not compared."""
DIFFERENT: dict[tuple[str, str], str] = _gathered("DIFFERENT")
DIFFERENT |= {(f"{name}_", sample): reason for (name, sample), reason in DIFFERENT.items() if f"{name}_" in OPERATORS}
"""(operator, sample) to the reason why its values or gradients are not PyTorch's.

Complex infinities and NaN are left out for every operator: PyTorch multiplies by alpha, or by a conjugate, where
nothing has to be multiplied, and inf * 0j is NaN.
"""


def reference(name: str) -> Any:
    op = OPERATORS[name]
    if op.functional is None:
        base = name.partition(".")[0]
        return REFERENCES.get(name) or getattr(torch, base, None) or getattr(torch.nn.functional, base)
    name = name.partition(".")[0]
    if hasattr(torch.Tensor, name):
        return lambda x, *args, **kwargs: getattr(x.clone(), name)(*args, **kwargs)
    function = getattr(torch.nn.functional, op.functional.name)
    return lambda x, *args, **kwargs: x.clone().copy_(function(x, *args, **kwargs))


def to_torch(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([to_torch(v) for v in value])
    if isinstance(value, tp.dtype):
        return getattr(torch, value.name)
    if not isinstance(value, tp.Tensor):
        return value
    if value.dtype is tp.bfloat16:
        return torch.tensor(value.tolist(), dtype=torch.bfloat16).reshape(value.shape)
    return torch.from_numpy(np.array(value.detach().numpy()))


def tensors_of(values: Any, kind: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value, kind)
        elif isinstance(value, kind):
            yield value


def inexact(tensors: Iterator[Any]) -> list[Any]:
    return [t for t in tensors if t.is_floating_point() or t.is_complex()]


def as_list(tensor: Any) -> Any:
    tensor = tensor.detach()
    if isinstance(tensor, torch.Tensor):
        tensor = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor.resolve_conj().resolve_neg()
    return tensor.tolist()


def close(ours: Any, theirs: Any, place: str, what: str) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape), f"{place}: {what}: shape {ours.shape}, torch {tuple(theirs.shape)}"
    name = str(theirs.dtype).removeprefix("torch.")
    assert ours.dtype.name == name, f"{place}: {what}: dtype {ours.dtype.name}, torch {name}"
    rtol, atol = {
        "float16": (2e-3, 1e-3),
        "bfloat16": (2e-2, 2e-2),
        "float32": (2e-6, 1e-5),
        "complex64": (2e-6, 1e-5),
    }.get(name, (1e-9, 1e-9))
    try:
        tp.testing.assert_close(as_list(ours), as_list(theirs), rtol=rtol, atol=atol)
    except AssertionError as error:
        raise AssertionError(f"{place}: {what}: ours {as_list(ours)}, torch {as_list(theirs)}: {error}") from None
    COUNTS[what] += 1


def cotangents(results: list[Any]) -> list[tp.Tensor]:
    made = []
    for y in results:
        values = np.cos(np.arange(1.0, y.numel() + 1)).reshape(y.shape)
        values = values * (1 - 0.5j) if y.is_complex() else values
        made.append(
            tp.tensor(values.tolist() if values.size else 0, dtype=y.dtype)
            if values.size
            else y.detach().new_zeros(y.shape)
        )
    return made


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in CREATED])
def test_values_and_gradients(name):
    op = OPERATORS[name]
    theirs = reference(name)
    seen = 0
    for dtype in DTYPES:
        if (name, dtype) in DIFFERENT_DTYPES:
            continue
        for sample in samples(op.functional or op, dtype=dtype):
            place = f"{name}, {dtype}, sample {sample.name!r}"
            if (name, sample.name) in DIFFERENT or ("complex" in dtype and sample.name == "special values"):
                COUNTS["left out"] += 1
                continue
            args, kwargs = sample.build(tp)
            targs, tkwargs = to_torch(args), {k: to_torch(v) for k, v in kwargs.items() if k != "device"}
            mine = inexact(tensors_of((*args, *kwargs.values()), tp.Tensor))
            other = inexact(tensors_of((*targs, *tkwargs.values()), torch.Tensor))
            for t in (*mine, *other) if name not in WITHOUT_GRADIENT else ():
                t.requires_grad_()
            try:
                expected = theirs(*in_domain(op, [*targs]), **tkwargs)
            except (RuntimeError, IndexError, NotImplementedError, TypeError) as error:
                COUNTS["torch refuses"] += 1
                REFUSED.setdefault((name, str(error).splitlines()[0][:100]), place)
                continue
            call_args = (args[0].clone(), *args[1:]) if op.is_inplace else in_domain(op, [*args])
            try:
                actual = op.function(*call_args, **kwargs)
            except tp.TensorPlayError as error:
                if op.is_inplace:  # what cannot be written is a separate test
                    continue
                raise AssertionError(f"{place}: {error}") from error
            results = list(tensors_of((actual,), tp.Tensor))
            references = list(tensors_of((tuple(expected) if isinstance(expected, tuple) else expected,), torch.Tensor))
            if name == "linalg_lstsq":  # what is left, and the rank, depend on the driver
                results = results[:1]
            for a, b in zip(results, references, strict=True):
                close(a, b, place, "values")
            check_gradients(place, mine, other, results, references)
            seen += 1
    assert seen


REFUSED: dict[tuple[str, str], str] = {}


def check_gradients(place: str, mine: Any, other: Any, results: Any, references: Any) -> None:
    pairs = [(a, b) for a, b in zip(results, references, strict=True) if a.requires_grad and b.requires_grad]
    assert [a.requires_grad for a in results] == [b.requires_grad for b in references], f"{place}: requires_grad"
    if not pairs or not mine:
        return
    ours, theirs = zip(*pairs, strict=True)
    v = cotangents(list(ours))
    first = tp.autograd.grad(ours, mine, v, create_graph=True, allow_unused=True)
    w = [to_torch(t) for t in v]
    second = torch.autograd.grad(theirs, other, w, create_graph=True, allow_unused=True)
    for a, b, t in zip(first, second, mine, strict=True):
        close(
            t.new_zeros(t.shape) if a is None else a,
            torch.zeros(tuple(t.shape), dtype=other[0].dtype) if b is None else b,
            place,
            "gradients",
        )
    double = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    double = [(a, b) for a, b in double if a.requires_grad and b.requires_grad]
    if not double or ("float64" not in place and "complex128" not in place):
        return
    u = cotangents([a for a, _ in double])
    third = tp.autograd.grad([a for a, _ in double], mine, u, allow_unused=True)
    fourth = torch.autograd.grad([b for _, b in double], other, [to_torch(t) for t in u], allow_unused=True)
    for a, b, t, s in zip(third, fourth, mine, other, strict=True):
        close(
            t.new_zeros(t.shape) if a is None else a,
            torch.zeros_like(s) if b is None else b,
            place,
            "second gradients",
        )


def test_every_different_operator_exists():
    assert {name for name, _ in DIFFERENT} <= set(OPERATORS)
    assert set(REFERENCES) <= set(OPERATORS)


def test_report(capsys):
    """Prints what was compared, and what torch refused; the last test of the file."""
    with capsys.disabled():
        print(f"\ntorch {torch.__version__}: {', '.join(f'{name}: {n}' for name, n in sorted(COUNTS.items()))}")
        for (name, text), place in sorted(REFUSED.items()):
            if OPERATORS[name].is_inplace:  # a result that does not fit: refused here too
                continue
            print(f"  torch refuses {name}: {text} (first: {place})")
