"""How much arithmetic a program does: the floating point operations of its products, counted from shapes.

As in PyTorch's counter, what is counted are the multiplications and additions of matrix products, convolutions and
attention, two for each product that is summed; elementwise work is a small rest and counts nothing. A complex product
counts as one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.modes.passes import in_backward
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import tensors_in
from tensorplay_core.ops.typing_rules import device_of
from tensorplay_core.profiler.averages import aligned
from tensorplay_core.tensor.modes import DispatchMode

Rule = Callable[..., int]


def _product(a: Any, b: Any) -> int:
    """``matmul`` and its kin: each element of the result is a sum over the last dim of the first tensor."""
    columns = b.shape[-1] if b.ndim > 1 else 1
    batch = _broadcast(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2] if a.ndim > 1 else 1
    return int(2 * prod(batch) * rows * (a.shape[-1] if a.ndim else 1) * columns)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + tuple(shorter)
    return tuple(n if m == 1 else m for n, m in zip(longer, padded, strict=True))


def _windows(image: Any, weight: Any, result: tuple[int, ...], transposed: bool) -> int:
    """A convolution: every element of its result, or transposed of its input, is in a product with each weight."""
    places = prod(image.shape[2:]) if transposed else prod(result[2:])
    return int(2 * image.shape[0] * places * prod(weight.shape))


def _convolution(input: Any, weight: Any, *rest: Any, result: Any) -> int:
    """``rest`` is bias, stride, padding, dilation, transposed, and what does not count."""
    return _windows(input, weight, result.shape, rest[4])


def _convolution_backward(grad_output: Any, input: Any, weight: Any, *rest: Any, result: Any) -> int:
    """The gradients of input and of weight take as many products as the convolution; that of the bias takes sums.

    ``rest`` begins as the convolution's, with the bias's sizes, and ends with which gradients are wanted.
    """
    mask = rest[-1]
    return _windows(input, weight, grad_output.shape, rest[4]) * (bool(mask[0]) + bool(mask[1]))


def _scores(query: Any, key: Any, value: Any) -> tuple[int, int]:
    """Returns the operations of queries times keys, and of weights times values."""
    pairs = 2 * prod(query.shape[:-1]) * key.shape[-2]
    return pairs * query.shape[-1], pairs * value.shape[-1]


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sum(_scores(query, key, value))


def _attention_backward(grad_out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """The weights again, then the gradients of weights, values, queries and keys: five products."""
    inner, outer = _scores(query, key, value)
    return 3 * inner + 2 * outer


RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot"), lambda a, b, **_: _product(a, b)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), lambda self, a, b, **_: _product(a, b)),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_attention": _attention,
    "_attention_backward": _attention_backward,
}
"""What an operator of the contract counts, from its arguments and ``result``. What has no rule is counted by what it is
made of.
"""


class FlopCounter(DispatchMode):
    """Counts the floating point operations of the products in its block, forward and backward.

    Args:
        rules: more rules by an operator's qualified name (``"ns::op"``): each takes the operator's arguments, and
            ``result=`` by name, and returns a number.

    Attributes:
        forward, backward: the operations by operator.

    Example:
        >>> import tensorplay as tp
        >>> w = tp.ones(10, 20, requires_grad=True)
        >>> with tp.modes.FlopCounter() as flops:
        ...     tp.nn.functional.linear(tp.ones(32, 20), w).sum().backward()
        >>> flops.total(), 2 * (2 * 32 * 20 * 10)
        (25600, 25600)
        >>> print(flops.table())
        operator  forward  backward  total
        matmul      12800     12800  25600
        all         12800     12800  25600
    """

    def __init__(self, rules: dict[str, Rule] | None = None) -> None:
        """See the class."""
        self.forward: dict[str, int] = {}
        self.backward: dict[str, int] = {}
        self._rules = {f"tp::{name}": rule for name, rule in RULES.items()} | (rules or {})

    def __tensorplay_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator, and counts it."""
        kwargs = kwargs or {}
        op = func._op
        rule = self._rules.get(op.qualified_name)
        if rule is None and op.functional is not None:  # an in-place form does what the operator does
            rule = self._rules.get(op.functional.qualified_name)
        if rule is None:
            return self._by_parts(func, args, kwargs)
        result = func(*args, **kwargs)
        counts = self.backward if in_backward() else self.forward
        counts[func._opname] = counts.get(func._opname, 0) + int(rule(*args, **kwargs, result=result))
        return result

    def _by_parts(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operator whose kernel may be made of others, which are counted; the modes around see it whole."""
        tensors = [*tensors_in(args, kwargs)]
        composed = func._op.composite == "explicit" and tensors and not STATE.get().modes.operators
        if not composed or any(t._type.special for t in tensors):
            return func(*args, **kwargs)
        entry = devices.entry(device_of(tensors).type)
        with self:
            return slow.run(func._op, KeySet(1 << entry.key, entry.page), args, kwargs)

    def total(self) -> int:
        """Returns all that was counted."""
        return sum(self.forward.values()) + sum(self.backward.values())

    def table(self) -> str:
        """Returns a table: a row for each operator, the largest first, and one for all."""
        names = sorted({*self.forward, *self.backward}, key=lambda name: (-self._of(name), name))
        rows: list[tuple[str, ...]] = [("operator", "forward", "backward", "total")]
        for name in names:
            parts = self.forward.get(name, 0), self.backward.get(name, 0)
            rows.append((name, *map(str, parts), str(sum(parts))))
        sums = sum(self.forward.values()), sum(self.backward.values())
        rows.append(("all", *map(str, sums), str(sum(sums))))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(aligned(row, widths, left=(0,)) for row in rows)

    def _of(self, name: str) -> int:
        return self.forward.get(name, 0) + self.backward.get(name, 0)
