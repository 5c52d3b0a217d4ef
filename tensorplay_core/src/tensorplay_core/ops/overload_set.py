"""The overloads behind one public function: what its arguments' classes mean is found once and remembered.

The rule of :mod:`tensorplay_core.types.overloads` costs more than most kernels. Of plain values it looks at no more
than the class, but for one thing: a 0-d tensor may stand for an int. So where it decides the same for every tensor, the
public function can ask a dict for the classes, and call the overload's own function, whose first part is a fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.call import call
from tensorplay_core.ops.frontend import KINDS, choose
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.overloads import best, candidate

_TAKES_SEVERAL = 0x04
"""The flag of a code object with ``*args``."""


class OverloadSet(dict[tuple[Any, ...], Callable[..., Any]]):
    """The classes of arguments, with the names of those that are given by name, to the function that they mean.

    Attributes:
        name: the public function.
        functions: each overload's operator, and the function that calls it.
        outs: the overload names of those whose function takes ``out=``.
    """

    __slots__ = ("functions", "name", "outs")

    def __init__(self, name: str, functions: Mapping[Operator, Callable[..., Any]], outs: tuple[str, ...] = ()) -> None:
        """Begins a set that knows nothing yet."""
        super().__init__()
        self.name, self.functions, self.outs = name, functions, outs

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the overload that arguments mean, and remembers it where their classes alone say so.

        Raises:
            ArgumentError: none fits, or several do, equally well.
        """
        op, positional, keywords, out = choose(self.name, tuple(self.functions), args, kwargs, self.outs)
        function = self.functions[op]
        if not _takes(function, args, kwargs):
            return call(op, positional, keywords, out)
        given = (*args, *kwargs.values())
        if all(value.__class__ in KINDS for value in given) and self._always(op, len(args), kwargs, given):
            self[(*map(type, args), *kwargs, *map(type, kwargs.values()))] = function
        return function(*args, **kwargs)

    def _always(self, op: Operator, count: int, kwargs: dict[str, Any], given: tuple[Any, ...]) -> bool:
        """Whether arguments of these classes mean an overload whatever dims their tensors have."""
        overloads = tuple(self.functions)
        candidates = [candidate(one.schema, out=one.overload in self.outs) for one in overloads]
        kinds = [("tensor", "0-d tensor") if v.__class__ is Tensor else (KINDS[v.__class__],) for v in given]
        meant = [overloads.index(op)]
        calls = ((c[:count], dict(zip(kwargs, c[count:], strict=True))) for c in product(*kinds))
        return all(best(candidates, positional, named) == meant for positional, named in calls)


def _takes(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function has the names that a call uses: the rule knows ``self`` for ``input`` too."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    fits = len(args) <= code.co_argcount or bool(code.co_flags & _TAKES_SEVERAL)
    return fits and all(name in names for name in kwargs)
