"""A log of the operators that run: each call with dtypes and shapes, forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorplay_core.modes.passes import in_backward
from tensorplay_core.profiler.trace import Stream, checked_stream, described
from tensorplay_core.tensor.modes import DispatchMode


class Call(NamedTuple):
    """One call of an operator.

    Attributes:
        name: the operator, such as ``"add.default"``.
        args, kwargs: its arguments in words: ``"float32[2,3] cpu"``.
        result: its result in words.
        backward: whether a backward pass made the call.
    """

    name: str
    args: tuple[str, ...]
    kwargs: tuple[str, ...]
    result: str
    backward: bool

    def __str__(self) -> str:
        """The call in one line."""
        during = "backward " * self.backward
        return f"{during}{self.name}({', '.join((*self.args, *self.kwargs))}) -> {self.result}"


class Logging(DispatchMode):
    """Notes every operator that runs in its block, below autograd and autocast; prints it too where told.

    Args:
        file: where each call is printed when it has run, such as ``sys.stdout``; nowhere when None.

    Attributes:
        calls: the calls in the order in which they ended.

    Raises:
        ArgumentError: nothing can be written to ``file``.

    Example:
        >>> import sys
        >>> import tensorplay as tp
        >>> x = tp.ones(2, 3, requires_grad=True)
        >>> with tp.modes.Logging(sys.stdout) as log:
        ...     y = (x * 2).sum()
        mul.default(float32[2,3] cpu, float32[] cpu) -> float32[2,3] cpu
        sum.default(float32[2,3] cpu, None, False) -> float32[] cpu
        >>> [call.name for call in log.calls]
        ['mul.default', 'sum.default']
    """

    def __init__(self, file: Stream | None = None) -> None:
        """See the class."""
        self.calls: list[Call] = []
        self._file = checked_stream("Logging", file)

    def __tensorplay_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator, and notes it."""
        kwargs = kwargs or {}
        given = tuple([described(value, False) for value in args])
        named = tuple([f"{name}={described(value, False)}" for name, value in kwargs.items()])
        result = func(*args, **kwargs)
        call = Call(func.__name__, given, named, described(result, False), in_backward())
        self.calls.append(call)
        if self._file is not None:
            self._file.write(f"{call}\n")
        return result

    def __str__(self) -> str:
        """The calls, one a line."""
        return "\n".join(map(str, self.calls))
