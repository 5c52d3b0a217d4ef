"""Every operator on meta tensors against the same call on the cpu: shape, dtype, strides, gradients and errors.

The operators come from the registry and the calls from their samples, so a new operator is compared the moment it
exists, and one that the meta device cannot serve fails here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import unresolved
from tensorplay_core.errors import KernelError, NoDataError
from tensorplay_core.ops import _generated_meta as table
from tensorplay_core.ops.meta_kernels import derived
from tensorplay_core.testing.sample_specs import TensorSpec
from tensorplay_core.testing.samples import KINDS, samples

pytestmark = pytest.mark.filterwarnings("error")

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DIFFERENTIABLE = ("float16", "bfloat16", "float32", "complex64")
BOTH_PATHS = ("int64", "float16", "float32")
CPU = int(DispatchKey.CPU)
DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64")

NUMPY_STRIDES = {
    "real": "NumPy's is a copy in C order, of a real tensor too; this one is laid out as its operand",
}
"""Where the strides are PyTorch's, or in C order, and NumPy's are not; everything else must be as on the cpu."""


def tensors_of(values: Any) -> Iterator[tp.Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


def strides(tensor: tp.Tensor) -> list[int]:
    """The strides that mean something: those of dims with more than one element, in a tensor with elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1 and tensor.numel()]


def seen(tensor: tp.Tensor | None, *, layout: bool, node: bool) -> Any:
    if tensor is None:
        return None
    plain = [tensor.shape, tensor.dtype, tensor.requires_grad, tensor.is_inference()]
    plain += [tensor.grad_fn.name] if node and tensor.grad_fn is not None else []
    return plain + [strides(tensor)] * layout


def build(op: Any, sample: Any, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = sample.build(tp, device)
    if "creation" in op.tags:
        kwargs["device"] = device
    if op.is_inplace:  # a tensor of its own, without a stride of 0
        args = (args[0].clone(), *args[1:])
    return args, kwargs


def outcome(op: Any, sample: Any, device: str, mode: Any = nullcontext, layout: bool = True) -> Any:
    """What can be seen of a call without data: of the results, of the gradients, or of the error."""
    args, kwargs = build(op, sample, device)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact]
    recording = mode is nullcontext and not op.is_inplace
    for leaf in leaves if recording else ():
        leaf.requires_grad_()
    try:
        with mode():
            results = list(tensors_of((op.function(*args, **kwargs),)))
        # An operator that decomposes may read data to choose its last step; what it gives stays the same.
        found = [seen(y, layout=layout, node=op.composite != "implicit") for y in results]
        roots = [y for y in results if y.requires_grad]
        if recording and roots and leaves:
            cotangents = [y.detach().new_ones(y.shape) for y in roots]
            gradients = tp.autograd.grad(roots, leaves, cotangents, allow_unused=True)
            found += [seen(g, layout=False, node=True) for g in gradients]
    except (tp.TensorPlayError, TypeError, UserWarning) as error:  # a warning is an error in this file
        return type(error), str(error).replace("meta", "cpu")
    assert all(y.device.type == device for y in results)
    return found


DATA_DECIDES = (
    "argwhere",
    "bincount",
    "masked_scatter",
    "masked_scatter_",
    "masked_select",
    "nonzero",
    "_unique2",
    "unique_dim",
    "unique_dim_consecutive",
)
"""Operators whose results, or whose steps, depend on how many elements are not zero."""


def counts_classes(op: Any, sample: Any) -> bool:
    """Whether the largest class, or the sum of the repeats, says how many there are."""
    if op.display_name.startswith("repeat_interleave.") and op.display_name.endswith("Tensor"):
        return sample.kwargs.get("output_size") is None
    return op.name == "one_hot" and (*sample.args[1:], sample.kwargs.get("num_classes", -1))[0] == -1


def masks(sample: Any) -> bool:
    """Whether an index is a bool mask."""
    lists = itertools.chain.from_iterable(a for a in sample.args[1:] if isinstance(a, list))
    return any(isinstance(a, TensorSpec) and a.dtype == "bool" for a in lists)


def casts_expanded(op: Any, sample: Any) -> bool:
    """Whether a repeated dim is cast: NumPy moves it to the end then; PyTorch, and so the meta device, does not."""
    expanded = [a for a in sample.args if isinstance(a, TensorSpec) and a.layout == "expanded"]
    wide = ("float32", "float64", "complex64")  # halves compute in float32
    casts = op.promote == "float" or (op.functional or op).math is not None
    return any(
        op.display_name in ("_to_copy", "rms_norm", "round.decimals") or (casts and a.dtype not in wide)
        for a in expanded
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_gives_what_it_gives_on_the_cpu_but_data(name):
    op = OPERATORS[name]
    compared = 0
    for dtype in DTYPES:
        for sample in samples(op.functional or op, dtype=dtype):
            indexed = masks(sample) and (op.name == "index" or (dtype in DIFFERENTIABLE and not op.is_inplace))
            if counts_classes(op, sample):
                assert outcome(op, sample, "meta")[0] is NoDataError
                continue
            if op.name in DATA_DECIDES or indexed:  # the gradient of its gradient is it
                error, text = outcome(op, sample, "meta")
                assert error is NoDataError and ("depends on the elements of a bool mask" in text or not indexed)
                continue
            layout = name not in NUMPY_STRIDES and not casts_expanded(op, sample)
            for mode in (nullcontext, tp.no_grad, tp.inference_mode) if dtype == "float32" else (nullcontext,):
                on_cpu = outcome(op, sample, "cpu", mode, layout)
                on_meta = outcome(op, sample, "meta", mode, layout)
                assert on_meta == on_cpu, f"{name}, {dtype}, sample {sample.name!r}, {mode}"
                compared += 1
                if dtype not in BOTH_PATHS:
                    continue
                fast = outcome(op, sample, "meta", mode, layout)
                with tp.testing.force_slow_path():
                    slow = outcome(op, sample, "meta", mode, layout)
                assert fast == slow == on_meta, f"{name}, {dtype}, sample {sample.name!r}, {mode}: the paths differ"
    assert compared > 2 or op.name in DATA_DECIDES


# ------------------------------------------------------------------------------------------------------------- layouts


def transposed(device: str, dtype: Any = tp.float32) -> tp.Tensor:
    return tp.ones(2, 3, 4, dtype=dtype, device=device).permute((2, 0, 1))


ELEMENTWISE = [n for n, op in OPERATORS.items() if op.shape in ("same", "broadcast") and "pointwise" in op.tags]


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if not OPERATORS[n].is_inplace and n not in NUMPY_STRIDES])
def test_an_elementwise_result_is_laid_out_as_its_operands_as_on_the_cpu(name):
    """The samples have no transposed tensors."""
    op = OPERATORS[name]
    count = sum(argument.type.is_tensor for argument in op.schema.positional)
    numbers = [0.5 for argument in op.schema.positional[count:] if argument.default is None]

    def call(device: str, others: tuple[int, ...] | None) -> Any:
        first = transposed(device, tp.bool if name == "where" else tp.float32)
        other = [tp.ones(others, device=device) if others is not None else transposed(device)] * (count - 1)
        return strides(op.function(first, *other, *numbers))

    for others in (None, (), (3,), (4, 2, 3)) if count > 1 else (None,):
        assert call("meta", others) == call("cpu", others), others


def test_strides_that_are_listed_as_different_from_numpys_are():
    calls = {
        "real": lambda x: x.real(),
    }
    assert calls.keys() == NUMPY_STRIDES.keys()
    for name, call in calls.items():
        assert strides(call(transposed("meta"))) != strides(call(transposed("cpu"))), f"{name} need not be listed"
    expanded = [tp.ones(1, 3, device=device).expand(2, 3).to(tp.float64) for device in ("meta", "cpu")]
    assert [x.stride() for x in expanded] == [(3, 1), (1, 2)]


IN_C_ORDER = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(0, True),
    "max": lambda x: x.max(2)[0],
    "cat": lambda x: tp.cat([x, x], 1),
}
"""Results that NumPy lays out as the input; PyTorch's are contiguous, and so are the meta device's."""


@pytest.mark.parametrize("name", IN_C_ORDER)
def test_results_that_are_contiguous_as_pytorchs(name):
    call = IN_C_ORDER[name]
    assert call(transposed("meta")).is_contiguous()
    assert call(transposed("meta")).shape == call(transposed("cpu")).shape


# -------------------------------------------------------------------------------------------------------------- errors

SHAPES = ((), (0,), (5,), (2, 5), (7, 1, 3))
NUMBERS = (99, -99, 0, -1, (0, 0), (1, 99), (3, -1, -1), 2.5, True, None, "x")


def spoiled(sample: Any) -> Iterator[Any]:
    """Calls made of a sample by exchanging one argument: most of them fail."""
    for i, value in enumerate(sample.args):
        if isinstance(value, bool):
            continue
        if isinstance(value, TensorSpec):
            others: Any = [TensorSpec(s, data(s, value.dtype), value.dtype) for s in SHAPES]
        elif isinstance(value, list) and value and isinstance(value[0], TensorSpec):
            others = [[*value[:-1], TensorSpec(s, data(s, value[0].dtype), value[0].dtype)] for s in SHAPES] + [[]]
        else:
            others = NUMBERS
        for other in others:
            yield sample._replace(args=(*sample.args[:i], other, *sample.args[i + 1 :]))


def data(shape: tuple[int, ...], dtype: str) -> Any:
    return [data(shape[1:], dtype) for _ in range(shape[0])] if shape else dtype == "bool" or 1


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if "backward" not in op.tags])
def test_what_fails_on_the_cpu_fails_with_the_same_message(name):
    """Not of the operators for gradients, which formulas alone call: there the kernel judges the shapes."""
    op = OPERATORS[name]
    failed = 0
    for sample in itertools.islice(samples(op.functional or op, dtype="float32"), 12):
        for bad in spoiled(sample):
            # A write cannot be made again on the slow path, in whose words the error is.
            with tp.testing.force_slow_path() if op.is_inplace else nullcontext():
                on_meta = outcome(op, bad, "meta", layout=False)
            with tp.testing.force_slow_path():  # which judges the types of all arguments
                for registration in op.table.get(CPU, ()):
                    registration.verified.clear()  # and asks the rule of a kernel that it does not know
                on_cpu = outcome(op, bad, "cpu", layout=False)
            if isinstance(on_meta, tuple) and on_meta[0] is NoDataError:
                continue  # an index that has become a mask
            found = (
                *("target has class", "out of bounds for dim", "cannot be broadcast to the indexing result"),
                *("is no row of", "the repeats add up to", "singular matrices"),
            )
            if isinstance(on_cpu, tuple) and (
                issubclass(on_cpu[0], KernelError) or any(words in on_cpu[1] for words in found)
            ):
                continue  # the kernel found it in the data
            assert on_meta == on_cpu, f"{name}: {bad}"
            failed += isinstance(on_cpu, tuple)
    exchanged = [
        [a for a in one.args if not isinstance(a, bool)] for one in samples(op.functional or op, dtype="float32")
    ]
    assert failed or op.name in ("kron", "take") or all(len(values) == 1 for values in exchanged)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_dtype_that_the_cpu_refuses_is_refused(name, monkeypatch):
    """Without the table that keeps the samples to the dtypes that work."""
    op = OPERATORS[name]
    monkeypatch.setattr("tensorplay_core.testing.sample_maker.KINDS", {})
    for dtype in DTYPES:
        try:
            found = list(itertools.islice(samples(op.functional or op, dtype=dtype), 3))
        except OverflowError:  # the samples of softmax hold infinities
            assert KINDS[op.name] == "f"
            continue
        for sample in found:
            if op.name in DATA_DECIDES or (op.name == "index" and masks(sample)) or counts_classes(op, sample):
                continue
            try:
                build(op, sample, "cpu")
            except tp.ValueRangeError:  # numbers, as -1 for a label, that the dtype does not hold
                continue
            on_cpu, on_meta = (outcome(op, sample, device, layout=False) for device in ("cpu", "meta"))
            if isinstance(on_cpu, tuple):
                refused = isinstance(on_meta, tuple) and issubclass(on_meta[0], RuntimeError)
                assert refused or on_meta == on_cpu, f"{name}, {dtype}"
                if on_cpu[0] is tp.DTypeError:
                    assert on_meta[0] is tp.DTypeError, f"{name}, {dtype}"
            else:
                assert on_meta == on_cpu, f"{name}, {dtype}"


def test_arguments_of_composite_kernels_are_judged_as_on_the_cpu():
    for device in ("cpu", "meta"):
        x = tp.ones(2, dtype=tp.int64, device=device)
        with pytest.raises(tp.ValueRangeError, match="alpha is 0"):
            tp.add(x, x, alpha=0.5)
        with pytest.raises(tp.DTypeError, match="the result would be int64"):
            tp.mean(x * 1.0, dtype=tp.int64)


# --------------------------------------------------------------------------------------------------------------- tables


def test_every_operator_of_the_contract_is_in_one_table():
    rows = [op for op, *_ in (*table.BY_RULE, *table.HANDWRITTEN)] + [*table.LEFT_TO_COMPOSITE]
    functional = {op for op in OPERATORS.values() if op.functional is None}
    assert len(rows) == len(set(rows)) and set(rows) == functional
    assert table.WITHOUT == ()


def test_the_rules_in_the_table_are_the_operators_own():
    """So that an operator which is defined at run time by the same rules gets the same kernel."""
    for op, rule, result in table.BY_RULE:
        kernel = derived(op)
        assert kernel is not None and kernel.__qualname__ == f"shape_rule({rule})"
        assert rule == op.shape and result in (op.promote, "created", "self")
    for op in table.LEFT_TO_COMPOSITE:
        assert derived(op) is None


def test_slots_of_meta_types_are_filled():
    x = tp.ones(3, device="meta")
    assert x.add(x).shape == (3,)
    assert x._type.k_add is not unresolved and x._type.k_add.__qualname__ == "shape_rule(broadcast)"
