"""More kernels that lie: about whose memory is whose, about numbers that samples do not have, shapes, sizes, chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorplay_composite.arrays import kernels

Kernel = Callable[..., Any]
HOSTILE: dict[str, tuple[str, str, bool, Callable[[], Kernel]]] = {}
"""Name to: the operator that is registered, what is checked, whether quickly, and what makes the kernel."""


def hostile(
    registered: str, checked: str = "", *, quick: bool = True
) -> Callable[[Callable[[], Kernel]], Callable[[], Kernel]]:
    def add(make: Callable[[], Kernel]) -> Callable[[], Kernel]:
        HOSTILE[make.__name__] = (registered, checked or registered, quick, make)
        return make

    return add


def right(name: str) -> Kernel:
    from tensorplay_loopback.plugin import DEVICE

    return kernels(np, random=DEVICE.random)[name]


def exp(x: Any) -> Any:
    return np.exp(x, dtype=x.dtype)


def spoilt(result: Any, begin: int) -> Any:
    """A copy of a result whose elements from some place on are 0."""
    result = np.array(result)
    result.reshape(-1)[begin:] = 0
    return result


# ------------------------------------------------------------------------------------------------ whose memory is whose


@hostile("exp")
def kept_by_identity() -> Kernel:
    known: dict[int, Any] = {}
    return lambda x: known.setdefault(id(x), (x, exp(x)))[1].copy()


@hostile("exp")
def kept_by_address() -> Kernel:
    known: dict[Any, Any] = {}
    return lambda x: known.setdefault((x.ctypes.data, x.shape, x.strides, x.dtype), (x, exp(x)))[1].copy()


@hostile("exp")
def kept_by_content_and_given_out_twice() -> Kernel:
    known: dict[Any, Any] = {}
    return lambda x: known.setdefault((x.tobytes(), x.shape, x.dtype), exp(x))


@hostile("zeros")
def zeros_given_out_twice() -> Kernel:
    known: dict[Any, Any] = {}
    return lambda size, *, dtype, device=None: known.setdefault((tuple(size), dtype), np.zeros(size, dtype))


@hostile("ones")
def ones_that_cannot_be_written_to() -> Kernel:
    return lambda size, *, dtype, device=None: np.broadcast_to(np.ones((), dtype), size)


@hostile("eq")
def bools_of_255() -> Kernel:
    return lambda x, y: (np.asarray(np.equal(x, y)).astype("uint8") * 255).view("bool")


@hostile("exp")
def a_buffer_for_all_threads() -> Kernel:
    buffers: dict[Any, Any] = {}

    def kernel(x):
        buffer = buffers.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype))
        np.exp(x, out=buffer)
        return buffer.copy()

    return kernel


@hostile("exp")
def a_part_of_something_larger() -> Kernel:
    def kernel(x):
        memory = np.empty(2 * x.size, x.dtype)
        result = memory[: x.size].reshape(x.shape)
        result[...] = exp(x)
        return result

    return kernel


@hostile("exp")
def in_the_order_of_fortran() -> Kernel:
    return lambda x: np.asfortranarray(exp(x))


@hostile("index")
def refuses_in_numpys_words() -> Kernel:
    def kernel(self, indices):
        result = self[tuple(slice(None) if one is None else one for one in indices)]
        return np.ascontiguousarray(result).reshape(result.shape)

    return kernel


@hostile("mul")
def wrong_for_one_tensor_twice() -> Kernel:
    return lambda x, y: x + x if x is y else np.multiply(x, y)


@hostile("exp")
def panics_as_a_library_in_rust() -> Kernel:
    class PanicException(BaseException):
        pass

    def kernel(x):
        if x.ndim == 2:
            raise PanicException("index out of bounds: the len is 3")
        return exp(x)

    return kernel


# ------------------------------------------------------------------------------------------------------------- numbers


@hostile("exp")
def overflows_to_the_largest_number() -> Kernel:
    def kernel(x):
        result = exp(x)
        if x.dtype.kind != "f":
            return result
        return np.where(np.isinf(result) & np.isfinite(x), np.finfo(x.dtype).max, result).astype(x.dtype)

    return kernel


@hostile("mul")
def flushes_what_is_not_normal() -> Kernel:
    def kernel(x, y):
        result = np.array(np.multiply(x, y))
        if result.dtype.kind == "f":
            result[np.abs(result) < np.finfo(result.dtype).tiny] = 0
        return result

    return kernel


@hostile("expm1")
def cancels_near_0() -> Kernel:
    return lambda x: (np.exp(x.astype("float64")) - 1).astype(x.dtype) if x.dtype == "float32" else np.expm1(x)


@hostile("eq")
def equal_when_close() -> Kernel:
    return lambda x, y: np.isclose(x, y, rtol=1e-6, atol=0) if x.dtype.kind == "f" else np.equal(x, y)


@hostile("lt")
def compares_integers_as_float32() -> Kernel:
    def kernel(x, y):
        return np.less(x.astype("float32"), y.astype("float32")) if x.dtype.kind in "iu" else np.less(x, y)

    return kernel


@hostile("add")
def a_whole_alpha() -> Kernel:
    def kernel(x, y, *, alpha=1):
        return np.add(x, y * y.dtype.type(int(alpha)) if alpha != 1 and x.dtype.kind == "f" else right_alpha(y, alpha))

    def right_alpha(y, alpha):
        return y if alpha == 1 else y * y.dtype.type(alpha)

    return kernel


@hostile("full", quick=False)
def full_through_float() -> Kernel:
    make = right("full")

    def kernel(size, fill_value, *, dtype, device=None):
        return make(size, fill_value if isinstance(fill_value, complex) else float(fill_value), dtype=dtype)

    return kernel


@hostile("arange", quick=False)
def arange_through_int32() -> Kernel:
    make = right("arange")

    def kernel(start, end, step, *, dtype, device=None):
        result = make(start, end, step, dtype=dtype)
        return result.astype("int32").astype("int64") if result.dtype == "int64" else result

    return kernel


@hostile("matmul")
def skips_zeros() -> Kernel:
    multiply = right("matmul")

    def kernel(x, y):
        if x.dtype.kind == "f" and x.ndim == y.ndim == 2:
            y = np.where(np.isfinite(y), y, 0).astype(y.dtype)
        return multiply(x, y)

    return kernel


# ----------------------------------------------------------------------------------------------------- shapes and sizes


@hostile("add")
def room_for_four_dims() -> Kernel:
    def kernel(x, y, *, alpha=1):
        result = np.add(x, y if alpha == 1 else y * y.dtype.type(alpha))
        return result if np.ndim(result) < 5 else spoilt(result, 0)

    return kernel


@hostile("permute")
def permutes_four_dims() -> Kernel:
    return lambda self, dims: np.transpose(self, dims) if len(dims) < 5 else np.transpose(self, dims)[::-1]


@hostile("exp", quick=False)
def wrong_for_large_float64() -> Kernel:
    return lambda x: spoilt(exp(x), 2**16) if x.size > 2**16 and x.dtype == "float64" else exp(x)


@hostile("exp", quick=False)
def wrong_for_what_is_large_and_not_contiguous() -> Kernel:
    return lambda x: spoilt(exp(x), 2**16) if x.size > 2**16 and not x.flags.c_contiguous else exp(x)


@hostile("mul", quick=False)
def wrong_where_both_broadcast_to_something_large() -> Kernel:
    def kernel(x, y):
        result = np.multiply(x, y)
        both = max(x.size, y.size) < np.size(result)
        return spoilt(result, 2**16) if both and result.size > 2**16 else result

    return kernel


@hostile("sum", quick=False)
def wrong_for_more_rows_than_workgroups() -> Kernel:
    total = right("sum")

    def kernel(self, dim=None, keepdim=False, *, dtype=None):
        result = total(self, dim, keepdim, dtype=dtype)
        return spoilt(result, 65_535) if np.size(result) > 65_535 else result

    return kernel


@hostile("index_backward", quick=False)
def adds_up_no_repeated_index() -> Kernel:
    back = right("index_backward")

    def kernel(grad, input_sizes, indices):
        if grad.size < 1000:
            return back(grad, input_sizes, indices)
        result = np.zeros(input_sizes, grad.dtype)
        result[tuple(slice(None) if i is None else i for i in indices)] = grad
        return result

    return kernel


# --------------------------------------------------------------------------------------------------------------- chance


@hostile("rand", "random")
def sorted_numbers() -> Kernel:
    draw = right("rand")

    def kernel(size, *, dtype, device=0):
        return np.sort(draw(size, dtype=dtype, device=device).reshape(-1)).reshape(size)

    return kernel


@hostile("randn", "random")
def the_same_rows() -> Kernel:
    draw = right("randn")

    def kernel(size, *, dtype, device=0):
        result = draw(size, dtype=dtype, device=device)
        return np.array(np.broadcast_to(result[:1], result.shape)) if result.ndim > 1 else result

    return kernel


@hostile("randperm", "random")
def rotations_for_permutations() -> Kernel:
    draw = right("randperm")

    def kernel(n, *, dtype, device=0):
        result = draw(n, dtype=dtype, device=device)
        return np.roll(np.arange(n, dtype=result.dtype), int(result[0]) if n else 0)

    return kernel


@hostile("randperm", "random")
def permutes_only_what_is_small() -> Kernel:
    draw = right("randperm")

    def kernel(n, *, dtype, device=0):
        result = draw(n, dtype=dtype, device=device)
        return result if n < 256 else np.arange(n, dtype=result.dtype)

    return kernel


@hostile("diagonal")
def takes_dims_that_are_out_of_range() -> Kernel:
    def diagonal(self, offset=0, dim1=0, dim2=1):
        return right("diagonal")(self, offset, dim1 % self.ndim, dim2 % self.ndim)

    return diagonal


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_kernel_is_caught(name, failures_of):
    registered, checked, quick, make = HOSTILE[name]
    outcome = next(failures_of(registered, make(), checked, quick), None)
    assert outcome is not None, f"{name} passes"
    assert outcome.what and "Warning" not in outcome.what


@pytest.mark.parametrize("checked", sorted({checked for _, checked, quick, _ in HOSTILE.values() if quick}))
def test_the_same_checks_pass_without_it(checked, failures_of):
    assert [*failures_of("", None, checked)] == []
