"""The nodes of the graph that a backward pass walks.

A node is made when an operator records: it knows the nodes of the operator's inputs, what its result was, and what the
gradient formula needs. It saves arrays with their type, node and version cell, never tensors, so nothing in a graph is
a cycle and reference counting alone frees it. The classes are generated, one per derivative record; what they share is
here.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tensorplay_core.autograd.kept import DUAL, LEVEL, PACKED, Saved, SavedAttribute, modified
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.dispatch.wrapped import GRAD
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase

if TYPE_CHECKING:
    from tensorplay_core.autograd.hooks import RemovableHandle
    from tensorplay_core.dispatch.operator import Operator

RETAINED: dict[int, weakref.ref[TensorBase]] = {}
"""The tensors with ``retain_grad``, by identity."""
WATCHED_LEAVES: dict[int, weakref.ref[Node]] = {}
"""The nodes of leaves that somebody has attached something to, by identity."""
next_number = itertools.count(-1, -1).__next__
"""Serial numbers of nodes, downwards: a node comes before its inputs, which is the order of a backward pass."""
_next_leaf = itertools.count(1).__next__

PLAIN, SAVING, LEAF, OUTPUT, MULTIPLE, PLAIN_MULTIPLE = range(6)
"""Kinds of nodes: an operator's that saved no tensor, one that did and is freed by a pass, a leaf's, one result of
several, an operator's with several results, and such a one that saved no tensor. One attribute, because the engine asks
it of every node.
"""
WATCHED = 8
"""Added to the kind of a node that somebody has attached something to: hooks, ``retain_grad``, a traceback."""

Gradients = tuple["Tensor | None", ...]


class Node:
    """One recorded call.

    Attributes:
        number: the serial number.
        edges: the nodes of the differentiable inputs, None for one that needs no gradient.
        type, shape: of the result (tuples of them for an operator with several results).
        saved: what the formulas need; None once a backward pass has freed it.
    """

    __slots__ = ("__weakref__", "edges", "number", "saved", "shape", "type")

    op: ClassVar[Operator | None] = None
    kind: ClassVar[int] = PLAIN
    pointwise: ClassVar[bool] = False
    """Whether every gradient has the shape of the result, which the generator proves from the formulas."""
    takes_none: ClassVar[bool] = False
    """Whether it is given None for a result that no gradient reached, rather than zeros."""
    saves_input: ClassVar[tuple[str, ...]] = ()
    """The inputs whose values are saved: an in-place call must copy the one that it overwrites."""
    saved_names: ClassVar[tuple[str, ...]] = ()
    """The names of what is saved, in order; each can be read as an attribute, ``_saved_self``."""

    number: int
    edges: tuple[Node | None, ...]
    type: Any
    shape: Any
    saved: Any

    def __init_subclass__(cls) -> None:
        """Gives a class the attributes for what its nodes save."""
        for i, name in enumerate(cls.__dict__.get("saved_names", ())):
            setattr(cls, f"_saved_{name}", SavedAttribute(i, name))

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Returns the gradients of the inputs, one per edge.

        Args:
            grad: the gradient of the result; a list of them for an operator with several results.
            graph: whether the gradients must be differentiable themselves.
        """
        raise NotImplementedError

    @property
    def is_leaf(self) -> bool:
        """Whether this is a leaf's node."""
        return self.number > 0

    @property
    def several(self) -> bool:
        """Whether the operator has several results, so that ``backward`` takes a list of gradients."""
        return self.kind & ~WATCHED >= MULTIPLE

    @property
    def name(self) -> str:
        """The node's name, such as ``MulBackward``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the inputs, as PyTorch spells them."""
        return tuple((edge.edges[0], edge.index) if isinstance(edge, Output) else (edge, 0) for edge in self.edges)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a function after the node, with the gradients of its inputs and those of its results.

        Args:
            hook: ``hook(grad_inputs, grad_outputs)``, two tuples; it may return a tuple that replaces the first.

        Returns:
            A handle whose ``remove()`` takes the hook away; it is also a context manager.

        Example:
            >>> import tensorplay as tp
            >>> x = tp.tensor(2.0, requires_grad=True)
            >>> y = x * 3
            >>> _ = y.grad_fn.register_hook(lambda inputs, outputs: print(inputs, outputs))
            >>> y.backward()
            (tensor(3.), None) (tensor(1.),)
        """
        from tensorplay_core.autograd import hooks

        return hooks.add(hooks.watch(self).after, hook, "register_hook")

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a function before the node, with the gradients of its results.

        Args:
            hook: ``hook(grad_outputs)``, a tuple; it may return a tuple that replaces it.

        Returns:
            A handle whose ``remove()`` takes the hook away; it is also a context manager.
        """
        from tensorplay_core.autograd import hooks

        return hooks.add(hooks.watch(self).before, hook, "register_prehook")

    def __repr__(self) -> str:
        """Names the node."""
        return f"<{self.name}>"


class AccumulateGrad(Node):
    """The node of a leaf: where a gradient arrives. It holds its tensor weakly."""

    __slots__ = ("variable",)
    kind = LEAF
    variable: weakref.ref[TensorBase]

    def __init__(self, variable: TensorBase) -> None:
        """Makes the node of a tensor, which the caller attaches."""
        self.number = _next_leaf()
        self.edges = ()
        self.type = variable._type.plain
        self.shape = variable.shape
        self.saved = ()
        self.variable = weakref.ref(variable)


class Output(Node):
    """One result of an operator with several: hands its gradient to the operator's node."""

    __slots__ = ("index",)
    kind = OUTPUT
    index: int

    def __init__(self, parent: Node, index: int, type: TensorType, shape: tuple[int, ...]) -> None:
        """See the class."""
        self.number = next_number()
        self.edges = (parent,)
        self.type, self.shape, self.saved, self.index = type, shape, (), index

    @property
    def parent(self) -> Node:
        """The operator's node."""
        parent = self.edges[0]
        assert parent is not None
        return parent

    @property
    def name(self) -> str:
        """The name of the operator's node."""
        return self.parent.name

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As :meth:`Node.register_hook`, of the operator's node."""
        return self.parent.register_hook(hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As :meth:`Node.register_prehook`, of the operator's node."""
        return self.parent.register_prehook(hook)


class GradientEdge(NamedTuple):
    """A place in the graph: one result of a node, or a leaf.

    ``tp.autograd.grad`` and ``backward`` take one in place of the tensor, which need not be alive.

    Attributes:
        node: the node that computed the result, or the leaf's.
        output_nr: which of the node's results.
        ownership_token: not used; it is there because PyTorch has it.
    """

    node: Node
    output_nr: int = 0
    ownership_token: None = None

    def where(self) -> Node:
        """Returns the node at which the gradient of the place arrives."""
        node = self.node
        if not node.several:
            return node
        return Output(node, self.output_nr, node.type[self.output_nr], node.shape[self.output_nr])


class NoFormula(Node):
    """The node of an operator without a gradient formula: works forward, raises in a backward pass."""

    __slots__ = ("operator",)
    operator: Operator

    @property
    def name(self) -> str:
        """A name made of the operator's."""
        return f"NoFormula({self.operator.display_name})"

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Raises: a gradient is never silently lost."""
        op = self.operator
        if "!)" in op.schema_text or op.schema.is_view:
            remedy = "define an operator that returns new tensors, and register the gradient for that one"
        else:
            remedy = f'give it one: tp.library.register_autograd("{op.qualified_name}", backward, setup_context=...)'
        raise AutogradError(
            f"{op.display_name} has no gradient formula, so no gradient can pass through it"
            + fix(f"{remedy}; or a derivative record in its contract; or detach() its inputs.")
        )


def record(
    node: Node,
    inputs: tuple[Any, ...],
    outputs: Tensor | tuple[Any, ...],
    differentiable: tuple[bool, ...] | None = None,
) -> None:
    """Fills a new node and attaches it to the results of its call.

    Args:
        node: a fresh node; its ``saved`` is set by the caller.
        inputs: the differentiable inputs in order: tensors, None or Python scalars.
        outputs: the result or results.
        differentiable: which results have a gradient; all of an inexact dtype when None.
    """
    node.number = next_number()
    node.edges = tuple([x._node if isinstance(x, TensorBase) else None for x in inputs])
    if isinstance(outputs, TensorBase):
        node.type, node.shape = outputs._type, outputs.shape
        if active.recorded is not None:
            active.recorded(node)
        if outputs._type.dtype.is_inexact:
            outputs._edge = node
        return
    node.type = tuple(y._type for y in outputs)
    node.shape = tuple(y.shape for y in outputs)
    if active.recorded is not None:
        active.recorded(node)
    for i, y in enumerate(outputs):
        if y._type.dtype.is_inexact and (differentiable is None or differentiable[i]):
            y._node = Output(node, i, y._type, y.shape)


def save(tensor: Any, of: Node | None = None) -> Saved | None:
    """Returns what a node keeps of a tensor; ``of`` is the node itself when the tensor is its own result."""
    if tensor is None:
        return None
    if tensor._type.inference:
        raise AutogradError(
            "a tensor made in inference mode cannot be saved for a backward pass"
            + fix("clone() it outside inference mode, or make it there with tp.no_grad() instead.")
        )
    cell = tensor._version
    if cell is None:
        cell = tensor._version = [0, False]
    node = tensor._node if of is None else None  # the edge of its own result is made when it is unpacked: no cycle
    saved: Saved = (tensor._array, tensor._type.unwrapped, node, cell, cell[0])
    if active.special:
        if STATE.get().packing.__class__ is tuple:
            from tensorplay_core.autograd.saved import pack

            saved = pack(tensor, node)
        if active.levels:
            from tensorplay_core.tensor.dual import witness

            if (other := witness(tensor)) is not None:
                saved = ((saved, other), tensor._type, node, [DUAL, False], 0)
        if tensor._type.wrapper == GRAD:
            return (saved, tensor._type, node, [LEVEL, False], 0)
    return saved


def unpack(saved: Saved, of: Node, name: str, graph: bool, own: bool = False, index: int | None = None) -> Tensor:
    """Returns a saved tensor, after checking that nobody has written to it.

    Args:
        saved: what :func:`save` returned.
        of: the node that saved it.
        name: the name of the input or result, for the message.
        graph: whether the tensor must carry its node, because the gradient is to be differentiated.
        own: whether it is the node's own result.
        index: which of several results it is.

    Raises:
        AutogradError: the tensor was modified in place since it was saved.
    """
    array, type, node, cell, number = saved
    if cell[0] != number:
        if cell[0] == PACKED:
            array, cell = array.unpack(of, name)
        elif cell[0] == DUAL:
            from tensorplay_core.tensor.dual import carry

            carry(array[1], y := unpack(array[0], of, name, graph, own, index))
            return y
        elif cell[0] == LEVEL:
            y = unpack(array, of, name, graph, own, index)
            return y if y._array.level.open else y._array.tensor
        else:
            raise modified(saved, of, name)
    y = Tensor()
    y._array = array
    y._type = type
    y._version = cell
    if own:
        y._edge = None if not graph else of if index is None else Output(of, index, of.type[index], of.shape[index])
        if active.levels:
            from tensorplay_core.tensor.dual import carry_result

            carry_result(of, name, y)
    else:
        y._edge = node if graph else None
    return y
