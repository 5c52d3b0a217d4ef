"""Entering a level of gradients or tangents, and leaving it.

Where nothing else is open, a tensor on the tape is enough: :func:`opened` gives the function's inputs a node of their
own, and the calls stay as fast as any. Under ``vmap``, and for tangents of tangents, the inputs are wrapped instead,
because a batched tensor has no Autograd key and a tensor has one tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tensorplay_core.autograd.modes import enable_grad, inference_mode
from tensorplay_core.autograd.node import AccumulateGrad, Node
from tensorplay_core.dispatch.context import STATE, include
from tensorplay_core.dispatch.wrapped import INNERMOST, MODE, Level, Within
from tensorplay_core.ops.levels import GradLevel
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another, wrap
from tensorplay_core.tensor.wrappers import is_of, wrap_at


def nests() -> bool:
    """Whether a transform that wraps is open around here."""
    return INNERMOST.get() is not None


class _Leaf(AccumulateGrad):
    """The node of an input that has none around its level.

    Attributes:
        closed: whether the level is closed: nobody differentiates by the input any more.
    """

    __slots__ = ("closed",)

    def __init__(self, variable: TensorBase) -> None:
        super().__init__(variable)
        self.closed = False


class Opened:
    """A level that is open: what its function's inputs and results are.

    Attributes:
        level: the level of the wrappers, None on the plain tape.
        graph: whether gradients were recorded around it when it was opened.
        inputs: the nodes of the inputs.
    """

    __slots__ = ("graph", "inputs", "level")

    def __init__(self, level: Level | None, graph: bool) -> None:
        self.level, self.graph = level, graph
        self.inputs: list[Node] = []

    def inside(self, value: Any) -> Any:
        """Returns an input as the function gets it: of a floating tensor one that the level differentiates by."""
        if not isinstance(value, Tensor) or not value._type.dtype.is_inexact:
            return value
        if self.level is not None:
            own: Any = wrap_at(self.level, value)
        elif value._type.inference:
            own = value.clone()
        elif value._node is not None and self.graph:
            own = value.reshape(value.shape)  # a node of its own, with an edge to what the value comes from
            self.inputs.append(own._node)
            return own
        else:
            own = another(value)
            if dual.open_level() is not None:
                dual.carry(value, own)
        own._node = _Leaf(own)
        self.inputs.append(own._node)
        return own

    def outside(self, value: Any) -> Any:
        """Returns a tensor as it is around the level, when that is closed."""
        if not isinstance(value, TensorBase):
            return value
        if self.level is not None:
            return self._without_closed(value._array.tensor if is_of(self.level, value) else value)
        level = dual.current()
        tangent: Any = None if level is None else level.tangent_of(value)
        if value._node is not None and not (STATE.get().grad and self._goes_on([value._node])):
            value = another(value)
        if level is not None and tangent is not None:
            with dual.suspended():
                level.set(value, self.outside(tangent))
        return value

    def _without_closed(self, value: Any) -> Any:
        """Returns a tensor without the node, at whatever level, that leads to the inputs of closed levels alone."""
        if value._node is not None:
            return value if self._goes_on([value._node]) else another(value)
        if not value._type.wraps:
            return value
        payload = value._array
        inside = self._without_closed(payload.tensor)
        return value if inside is payload.tensor else wrap_at(payload.level, inside, batched=payload.batched)

    def close(self) -> None:
        """Says that nobody differentiates by the inputs any more."""
        for node in self.inputs:
            if isinstance(node, _Leaf):
                node.closed = True
        if self.level is not None:
            self.level.open = False

    def needs_graph(self, results: Iterable[TensorBase]) -> bool:
        """Whether what is around the level may differentiate what it gives: something else leads to the results."""
        if self.level is not None:  # what is saved comes back with its node then, also what belongs to a level below
            return STATE.get().grad
        return STATE.get().grad and self._goes_on([r._node for r in results if r._node is not None])

    def _goes_on(self, nodes: list[Node]) -> bool:
        """Whether a leaf other than the level's own inputs is reached from some nodes, by way of the inputs too."""
        own, seen, stack = {id(node) for node in self.inputs}, set(), list(nodes)
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.is_leaf and id(node) not in own and not (isinstance(node, _Leaf) and node.closed):
                return True
            stack.extend(edge for edge in node.edges if edge is not None)
        return False


@contextmanager
def opened(transform: str) -> Iterator[Opened]:
    """Opens a level of gradients; what is computed in the block is recorded.

    A backward pass comes after the block: the level is closed by then, and what its nodes have saved comes back as it
    is around the level, so that the pass is a computation of the transforms around.
    """
    state = STATE.get()
    level = GradLevel(transform) if nests() else None
    at = Opened(level, state.grad)
    try:
        with inference_mode(False) if state.inference else enable_grad():
            if level is None:
                yield at
            else:
                with include(MODE), Within(level):
                    yield at
    finally:
        at.close()


class OpenedTangents:
    """A level of tangents that is open.

    Attributes:
        level: the level of the wrappers, None where tensors have their tangents themselves.
        tangents: the level that knows the tangents.
    """

    __slots__ = ("level", "tangents")

    def __init__(self, level: Level | None, tangents: dual.Level) -> None:
        self.level, self.tangents = level, tangents

    def inside(self, value: Tensor, tangent: Tensor, *, copy: bool = True) -> Tensor:
        """Returns an input with its tangent; with a copy, for what is written to the input is written to both."""
        if self.level is not None:
            own = wrap_at(self.level, value)
        else:
            own = value.clone() if value._type.inference else another(value, value._node)
        with dual.suspended():
            if tangent.dtype is not value.dtype:
                tangent = tangent.to(value.dtype)
            if not dual.same_layout(tangent, value):
                tangent = dual.laid_out_as(value, tangent)
            elif copy and self.level is None and tangent._node is None:  # nobody differentiates the copy: the array's
                tangent = wrap(tangent._type.api.copy(tangent._array), tangent._type.plain)
            elif copy:
                tangent = tangent.clone()
        self.tangents.set(own, tangent)
        return own

    def outside(self, value: Any) -> tuple[Any, Any]:
        """Returns a result as it is around the level, and its tangent: None where it has none."""
        if not isinstance(value, TensorBase):
            return value, None
        tangent = self.tangents.tangent_of(value)
        plain: Any = value
        if self.level is not None and is_of(self.level, value):
            plain = value._array.tensor
        elif self.level is None:
            plain = another(value, value._node)
        if self.level is not None and tangent is not None and is_of(self.level, tangent):
            tangent = tangent._array.tensor
        return plain, tangent


@contextmanager
def opened_tangents(transform: str) -> Iterator[OpenedTangents]:
    """Opens a level of tangents."""
    outer, enabled = dual.open_level(), dual.enabled()
    wraps = nests() or outer is not None
    level = GradLevel(transform) if wraps else None
    tangents = dual.Level(outer, enabled, level)
    inference = inference_mode(False) if STATE.get().inference else nullcontext()
    try:
        dual.enter(tangents)
        dual.enable(True)
        with inference:
            if level is None:
                yield OpenedTangents(None, tangents)
            else:
                with include(MODE), Within(level):
                    yield OpenedTangents(level, tangents)
    finally:
        dual.enter(outer)
        dual.enable(enabled)
        tangents.close()
        if level is not None:
            level.open = False
