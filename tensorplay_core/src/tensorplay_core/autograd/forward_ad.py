"""``tp.autograd.forward_ad``: derivatives along a direction, computed together with the values, as in PyTorch.

A *dual* tensor is a value, the *primal*, with a *tangent* of the same shape: the derivative of the value along the
direction that the program chose. Operators on dual tensors give dual tensors, and the tangent of ``f(x)`` is the
product of f's Jacobian and x's tangent, for the price of about one more evaluation and without a graph. Duals exist in
a level, which is open in the context that opened it; when it closes they are plain tensors again.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self

from tensorplay_core.autograd.modes import GradMode
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.errors import (
    ArgumentError,
    AutogradError,
    DeviceMismatch,
    DTypeError,
    ShapeError,
    ValueRangeError,
    fix,
)
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "set_fwd_grad_enabled",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """What :func:`unpack_dual` returns.

    Attributes:
        primal: the value, a plain tensor over the same memory.
        tangent: the derivative; None for a tensor that has none.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a level in this context and returns its number; :class:`dual_level` closes it too.

    Raises:
        AutogradError: one is open already.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> fwAD.enter_dual_level()
        0
        >>> fwAD.unpack_dual(fwAD.make_dual(tp.ones(1), tp.ones(1)) * 3).tangent
        tensor([3.])
        >>> fwAD.exit_dual_level()
    """
    if dual.open_level() is not None:
        raise AutogradError(
            "a dual level is open already, and levels do not nest"
            + fix("for derivatives of derivatives take the gradient of the tangent, or the tangent of the gradient.")
        )
    dual.enter(dual.Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: its duals become plain tensors.

    Args:
        level: its number, which is 0.

    Raises:
        AutogradError: none is open, or it has another number.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> level = fwAD.enter_dual_level()
        >>> d = fwAD.make_dual(tp.ones(1), tp.ones(1))
        >>> fwAD.exit_dual_level(level=level)
        >>> d
        tensor([1.])
    """
    known = dual.open_level()
    if known is None:
        raise AutogradError("no dual level is open" + fix("open one with enter_dual_level(), or use dual_level()."))
    _check_level(level)
    known.close()
    dual.enter(None)


class dual_level(GradMode):
    """A block in which tensors can have tangents; also a decorator.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> x, v = tp.tensor([1.0, 2.0]), tp.tensor([1.0, 0.0])
        >>> with fwAD.dual_level():
        ...     y = (fwAD.make_dual(x, v) ** 2).sum()
        ...     fwAD.unpack_dual(y)
        UnpackedDualTensor(primal=tensor(5.), tangent=tensor(2.))
        >>> fwAD.unpack_dual(y).tangent is None
        True
    """

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__()
        self._levels: list[dual.Level] = []

    def __enter__(self) -> int:  # type: ignore[override]  # as in PyTorch
        """Opens a level and returns its number."""
        number = enter_dual_level()
        level = dual.open_level()
        assert level is not None
        self._levels.append(level)
        return number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        level = self._levels.pop()
        if dual.open_level() is level:
            dual.enter(None)
        level.close()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Returns a tensor over the same memory that has a tangent; the tensor itself stays as it is.

    The tangent is taken as it is where it is laid out as the tensor, else a copy of it. Both may require grad:
    gradients flow back to them.

    Args:
        tensor: the primal, floating or complex.
        tangent: of the same shape, dtype and device.
        level: the number of the open level, which is 0.

    Raises:
        AutogradError: no level is open, or one of the two has a tangent already.
        ShapeError, DTypeError, DeviceMismatch: the tangent does not go with the tensor.
        ValueRangeError: they are neither floating nor complex.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     d = fwAD.make_dual(tp.tensor(0.0), tp.tensor(2.0))
        ...     fwAD.unpack_dual(d.exp()).tangent
        tensor(2.)
    """
    known = dual.open_level()
    if known is None:
        raise AutogradError(
            "make_dual: no dual level is open, and a tangent lives in one"
            + fix("compute inside 'with forward_ad.dual_level():'.")
        )
    _check_level(level)
    _check_pair(tensor, tangent)
    if STATE.get().inference:
        raise AutogradError(
            "make_dual: tangents do not pass through operators in inference mode"
            + fix("use tp.no_grad() in its place: tangents pass there.")
        )
    if known.tangent_of(tensor) is not None:
        raise AutogradError(
            "make_dual: the tensor has a tangent already" + fix("take the primal of it: unpack_dual(tensor).primal.")
        )
    if known.tangent_of(tangent) is not None:
        raise AutogradError(
            "make_dual: the tangent has a tangent itself, and levels do not nest"
            + fix("take the primal of it: unpack_dual(tangent).primal.")
        )
    result = _same(tensor)
    with dual.suspended():
        known.set(result, tangent if dual.same_layout(tangent, tensor) else dual.laid_out_as(tensor, tangent))
    return result


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Returns the value and the tangent of a tensor.

    Args:
        tensor: any tensor.
        level: the number of the open level, which is 0.

    Returns:
        The primal, without a tangent, and the tangent: None for a tensor that has none, or when no level is open.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.unpack_dual(tp.ones(2))
        UnpackedDualTensor(primal=tensor([1., 1.]), tangent=None)
    """
    if not isinstance(tensor, TensorBase):
        raise ArgumentError(
            f"unpack_dual takes a tensor, not {type(tensor).__name__}" + fix("pass what make_dual returned.")
        )
    known = dual.current()
    if known is None:
        return UnpackedDualTensor(tensor, None)
    _check_level(level)
    tangent = known.tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal = _same(tensor)
    known.drop(primal)
    return UnpackedDualTensor(primal, tangent)


class set_fwd_grad_enabled(GradMode):
    """Sets whether operators give tangents: from the call on, and until the end of the block when used in ``with``.

    Args:
        mode: whether they do. While they do not, every tensor seems to have none.

    Example:
        >>> import tensorplay as tp
        >>> import tensorplay.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     d = fwAD.make_dual(tp.ones(1), tp.ones(1))
        ...     with fwAD.set_fwd_grad_enabled(False):
        ...         y = d * 3
        ...     fwAD.unpack_dual(y).tangent is None
        True
    """

    __slots__ = ("_before", "_mode")

    def __init__(self, mode: bool) -> None:
        """See the class."""
        if not isinstance(mode, bool):
            raise ArgumentError(
                f"set_fwd_grad_enabled takes True or False, not {mode!r}" + fix("write bool(...) around it.")
            )
        super().__init__()
        self._mode, self._before = mode, dual.enabled()
        dual.enable(mode)

    def _again(self) -> set_fwd_grad_enabled:
        return set_fwd_grad_enabled(self._mode)

    def __enter__(self) -> Self:
        """Keeps what the call has set already, now until the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sets what was set before the call."""
        dual.enable(self._before)

    def __call__(self, function: Any) -> Any:
        """Takes back what the call has set, and decorates."""
        dual.enable(self._before)
        return super().__call__(function)


_set_fwd_grad_enabled = set_fwd_grad_enabled
"""PyTorch's spelling."""
_is_fwd_grad_enabled = dual.enabled


def _check_level(level: int | None) -> None:
    if level not in (None, 0):
        raise AutogradError(f"the open dual level is number 0, not {level!r}" + fix("leave level= away."))


def _check_pair(tensor: Any, tangent: Any) -> None:
    for what, value in (("the primal", tensor), ("the tangent", tangent)):
        if not isinstance(value, TensorBase):
            raise ArgumentError(
                f"make_dual: {what} is a Tensor, not {type(value).__name__}"
                + fix("make one of it with tp.tensor(...).")
            )
        if not value.dtype.is_inexact:
            raise ValueRangeError(
                f"make_dual: {what} must be floating or complex, not {value.dtype.name}"
                + fix("convert it with .to(tp.float32) first.")
            )
    if tangent.shape != tensor.shape:
        raise ShapeError(
            f"make_dual: the tangent has shape {tangent.shape}, its tensor {tensor.shape}: they must be the same"
            + fix(f"bring it to that shape, e.g. with .expand({tensor.shape}).")
        )
    if tangent.dtype is not tensor.dtype:
        raise DTypeError(
            f"make_dual: the tangent is {tangent.dtype.name}, its tensor {tensor.dtype.name}: they must be the same"
            + fix(f"convert it with .to(tp.{tensor.dtype.name}).")
        )
    if tangent.device != tensor.device:
        raise DeviceMismatch(
            f"make_dual: the tangent is on {tangent.device}, its tensor on {tensor.device}"
            + fix(f"move it with .to({str(tensor.device)!r}).")
        )


def _same(tensor: Tensor) -> Tensor:
    """Returns another tensor over the same memory, through which gradients flow to the first."""
    with dual.suspended():
        if tensor._node is not None and STATE.get().grad:
            return tensor.reshape(tensor.shape)
        return another(tensor, tensor._node)
