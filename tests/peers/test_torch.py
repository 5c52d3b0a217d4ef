"""Every shared operator against PyTorch: values over dtypes, gradients and gradients of gradients, on the samples.

Skipped, visibly, where torch is not installed. What differs on purpose is in ``DIFFERENT`` with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = pytest.mark.peers

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DTYPES = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
COUNTS: Counter[str] = Counter()
CREATED = {"empty", "rand", "randn", "randperm"}
"""Contents that are not comparable."""

NAN_STAYS = "the sign of NaN is NaN here, as in the array API and NumPy; PyTorch makes it 0"
DIFFERENT: dict[tuple[str, str], str] = {
    ("abs", "special values"): NAN_STAYS,
    ("sgn", "special values"): NAN_STAYS,
    ("sgn_", "special values"): NAN_STAYS,
    ("sgn", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("sgn_", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("elu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("selu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("hardsigmoid", "special values"): "the gradient at NaN is that of the piece that NaN falls into; PyTorch's is 0",
    ("hardswish", "special values"): "hardswish(-inf) is 0, its limit; PyTorch's is NaN",
    ("softsign", "special values"): "the gradient at infinity is 0, its limit; PyTorch's is NaN",
    **dict.fromkeys(
        [(name, "zeros") for name in ("reciprocal", "reciprocal_", "rsqrt", "rsqrt_")],
        "the gradient at a complex 0 is infinite; PyTorch's is NaN",
    ),
}
DIFFERENT |= {
    (name, sample): reason
    for name in ("scatter.src", "scatter_add", "scatter_.src", "scatter_add_")
    for sample, reason in (("larger source", "PyTorch's backward refuses a source that is larger than the index"),)
}
DIFFERENT |= dict.fromkeys(
    [("elu", "zeros"), ("selu", "zeros")], "the second gradient at the kink is that of the branch taken; PyTorch's is 0"
)
DIFFERENT |= {(f"{name}_", sample): reason for (name, sample), reason in DIFFERENT.items() if f"{name}_" in OPERATORS}
DIFFERENT_DTYPES = {
    ("square", "bool"): "the product of bools is bool; PyTorch computes a power, which is an int64",
    ("hardsigmoid", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
    ("hardsigmoid_", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
}
"""(operator, sample) to the reason why its values or gradients are not PyTorch's.

Complex infinities and NaN are left out for every operator: PyTorch multiplies by alpha, or by a conjugate, where
nothing has to be multiplied, and inf * 0j is NaN.
"""


def indexed(x: Any, indices: Any) -> Any:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def written_as_strided(x: Any, src: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    y = x.clone()
    y.as_strided(size, stride, offset).copy_(src)
    return y


def places(indices: Any) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices) or (...,)


def index_backward(grad: Any, sizes: Any, indices: Any) -> Any:
    x = torch.zeros(sizes, dtype=grad.dtype)
    return torch.index_put(x, tuple(None if i is None else i for i in indices), grad, accumulate=True)


def reduced(name: str) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        # A 0-d tensor keeps its shape whatever keepdim says.
        return getattr(torch, name)(x, dim=dim, keepdim=keepdim, dtype=dtype)

    return reference


def sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return torch.ops.aten.slice(x, dim, start, end, step)


REFERENCES: dict[str, Any] = {
    "index": indexed,
    "index_backward": index_backward,
    "select_backward": torch.ops.aten.select_backward,
    "slice_backward": lambda g, sizes, dim, start, end, step: torch.ops.aten.slice_backward(
        g,
        sizes,
        dim,
        *[
            max(0, min(n + sizes[dim] if n < 0 else n, sizes[dim]))
            for n in (start or 0, sizes[dim] if end is None else end)
        ],
        step,
    ),
    "slice": sliced,
    "index_put": lambda x, indices, values, accumulate=False: torch.index_put(x, places(indices), values, accumulate),
    "index_put_": lambda x, indices, values, accumulate=False: x.clone().index_put_(
        places(indices), values, accumulate
    ),
    **{f"masked_fill.{overload}": torch.masked_fill for overload in ("Scalar", "Tensor")},
    **{f"scatter.{overload}": torch.scatter for overload in ("src", "value")},
    "split.sizes": torch.split,
    "as_strided_scatter": written_as_strided,  # PyTorch's own gives a gradient to what has been replaced
    "_to_copy": lambda x, dtype=None, device=None: x.to(dtype or x.dtype, copy=True),
    "linear": torch.nn.functional.linear,
    "cross_entropy": torch.nn.functional.cross_entropy,
    "sum": reduced("sum"),
    "mean": reduced("mean"),
    "max.dim": lambda x, dim, keepdim=False: torch.max(x, dim, keepdim),
    "argmax": lambda x, dim=None, keepdim=False: torch.argmax(x, dim, keepdim),
    "expand": lambda x, size: x.expand(size),
    "softmax": lambda x, dim, dtype=None: torch.softmax(x, dim, dtype=dtype),
    "log_softmax": lambda x, dim, dtype=None: torch.log_softmax(x, dim, dtype=dtype),
    "full": lambda size, value, dtype=None, device=None: torch.full(size, value, dtype=dtype),
    "eye": lambda n, m=None, dtype=None, device=None: torch.eye(n, n if m is None else m, dtype=dtype),
    "arange": lambda a, b, c, dtype=None, device=None: torch.arange(a, b, c, dtype=dtype),
    **{n: lambda size, dtype=None, device=None, n=n: getattr(torch, n)(size, dtype=dtype) for n in ("zeros", "ones")},
    **{n: lambda x, *args, n=n: getattr(x.clone(), n)(*args) for n in ("copy_", "fill_", "zero_")},
}


def reference(name: str) -> Any:
    op = OPERATORS[name]
    if op.functional is None:
        return REFERENCES.get(name) or getattr(torch, name, None) or getattr(torch.nn.functional, name)
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
            for t in (*mine, *other):
                t.requires_grad_()
            try:
                expected = theirs(*targs, **tkwargs)
            except (RuntimeError, IndexError, NotImplementedError, TypeError) as error:
                COUNTS["torch refuses"] += 1
                REFUSED.setdefault((name, str(error).splitlines()[0][:100]), place)
                continue
            call_args = (args[0].clone(), *args[1:]) if op.is_inplace else args
            try:
                actual = op.function(*call_args, **kwargs)
            except tp.TensorPlayError as error:
                if op.is_inplace:  # what cannot be written is a separate test
                    continue
                raise AssertionError(f"{place}: {error}") from error
            results = list(tensors_of((actual,), tp.Tensor))
            references = list(tensors_of((tuple(expected) if isinstance(expected, tuple) else expected,), torch.Tensor))
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
