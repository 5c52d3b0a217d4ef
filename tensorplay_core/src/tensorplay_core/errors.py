"""Every exception that TensorPlay raises.

One family, so that ``except TensorPlayError`` catches all of ours and nothing else; each class is also the builtin that
PyTorch raises in the same place, so that programs written for PyTorch catch what they expect. A message says what
happened, where, the nearest valid choices, and the remedy; :func:`did_you_mean` and :func:`fix` keep their wording
alike.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "AutocastError",
    "AutogradError",
    "BackendConflict",
    "BackendError",
    "ContractError",
    "DTypeError",
    "DeviceMismatch",
    "DeviceUnavailable",
    "DimError",
    "EnvironmentVariableError",
    "ForwardMissing",
    "KernelError",
    "KernelMissing",
    "LinAlgError",
    "NoDataError",
    "OpCheckError",
    "RegistrationError",
    "SchemaError",
    "ShapeError",
    "TensorPlayError",
    "TransformError",
    "ValueRangeError",
]


class TensorPlayError(Exception):
    """Base class of every error raised by TensorPlay."""


class ShapeError(TensorPlayError, RuntimeError):
    """Shapes that do not fit the operator."""


class DimError(TensorPlayError, IndexError):
    """A dimension or an index out of range."""


class DTypeError(TensorPlayError, RuntimeError):
    """A dtype that the operator or the device does not take."""


class ArgumentError(TensorPlayError, TypeError):
    """An argument of the wrong type, a missing or an unexpected one."""


class ValueRangeError(TensorPlayError, ValueError):
    """An argument of the right type whose value is not allowed."""


class DeviceMismatch(TensorPlayError, RuntimeError):
    """Tensors of one call live on different devices."""


class DeviceUnavailable(TensorPlayError, RuntimeError):
    """A device was named whose backend is not installed, is blocked, or could not start."""


class BackendError(TensorPlayError, RuntimeError):
    """A backend distribution is broken, or broke while it was loaded."""


class RegistrationError(TensorPlayError, RuntimeError):
    """A kernel or an operator could not be registered."""


class BackendConflict(RegistrationError):
    """Two owners claim one slot of a dispatch table and neither said ``override=True``."""


class KernelMissing(TensorPlayError, NotImplementedError):
    """No kernel serves this operator at any key of the call."""


class LinAlgError(TensorPlayError, RuntimeError):
    """A matrix that the operation cannot be done on: a singular one, one that is not positive-definite."""


class NoDataError(TensorPlayError, NotImplementedError):
    """Something asks a meta tensor for its elements, of which it has none."""


class KernelError(TensorPlayError, RuntimeError):
    """A kernel raised, or returned something that its operator does not promise."""


class OpCheckError(TensorPlayError, AssertionError):
    """An operator does not do what it was registered to do, as ``opcheck`` found."""


class AutocastError(TensorPlayError, RuntimeError):
    """An operator that is unsafe to autocast, or a kernel of autocast that was reached while autocast is off."""


class AutogradError(TensorPlayError, RuntimeError):
    """A gradient cannot be computed, or would be wrong."""


class TransformError(TensorPlayError, RuntimeError):
    """What a transform such as ``vmap`` cannot do, or a tensor of one that was used outside of it."""


class ForwardMissing(AutogradError, NotImplementedError):
    """Tangents cannot pass through an operation, because nothing says how."""


class SchemaError(TensorPlayError, ValueError):
    """A signature that is not in the schema language."""


class ContractError(TensorPlayError, ValueError):
    """A record of a contract file that cannot be used; carries the file, the line and a caret."""


class EnvironmentVariableError(TensorPlayError, ValueError):
    """An environment variable of TensorPlay has a value that means nothing."""


def did_you_mean(wrong: str, valid: Iterable[str], *, limit: int = 3) -> str:
    """Returns `` Did you mean 'x' or 'y'?`` for the nearest valid names, or an empty string.

    Args:
        wrong: what was written.
        valid: the names that would have been accepted.
        limit: how many to offer at most.

    Example:
        >>> did_you_mean("ad", ["add", "sub"])
        " Did you mean 'add'?"
    """
    import difflib  # here, because only errors need it and it is a tenth of the import

    near = difflib.get_close_matches(wrong, list(valid), n=limit, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def fix(remedy: str) -> str:
    """Returns what ends an error message: a line of its own, ``fix:`` and the remedy."""
    return f"\nfix: {remedy}"
