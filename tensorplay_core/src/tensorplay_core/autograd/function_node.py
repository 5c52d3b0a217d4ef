"""The node of a call of an ``autograd.Function``, and the checks of what its ``backward`` returns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tensorplay_core.autograd import views
from tensorplay_core.autograd.kept import Saved
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.autograd.node import Gradients, Node, Output, next_number, save, unpack
from tensorplay_core.dispatch.operator import location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another, wrap
from tensorplay_core.tensor.version import version_of
from tensorplay_core.tensor.views import FUNCTION, relate, taken

if TYPE_CHECKING:
    from tensorplay_core.autograd.function import Function, FunctionCtx


class BackwardMissing(AutogradError, NotImplementedError):
    """A Function lacks the method that is asked for: ``forward``, ``backward``, ``jvp``."""


class Kept(NamedTuple):
    """A tensor that ``save_for_backward`` was given, and which of the call's results it is (-1 for none)."""

    saved: Saved
    name: str
    result: int

    def unpacked(self, node: FunctionNode) -> Tensor:
        """Returns the tensor, with the node that it had, after the check that nobody has written to it."""
        y = unpack(self.saved, node, self.name, True, own=self.result >= 0)
        if self.result >= 0:
            if not node.differentiable[self.result]:
                y._node = None
            elif node.several:
                y._node = Output(node, self.result, node.type[self.result], node.shape[self.result])
        return y


class FunctionNode(Node):
    """The node of one call; each Function has a class of its own, named after it.

    Attributes:
        ctx: the context, whose attributes and saved tensors can be read from the node too.
        places: which arguments were tensors: one per edge.
        arguments: how many there were.
        count: how many tensors were saved.
        differentiable: for each result whether it has a gradient.
    """

    __slots__ = ("arguments", "count", "ctx", "differentiable", "places")

    takes_none = True
    function: ClassVar[type[Function]]

    ctx: FunctionCtx
    places: tuple[int, ...]
    arguments: int
    count: int
    differentiable: tuple[bool, ...]

    def __getattr__(self, name: str) -> Any:
        """Reads what ``forward`` has kept on its context: ``y.grad_fn.saved_tensors``."""
        if not name.startswith("_"):
            try:
                return getattr(object.__getattribute__(self, "ctx"), name)
            except AttributeError:
                pass
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def save(self, tensors: tuple[Any, ...], args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """Keeps what ``save_for_backward`` was given; before the results get their nodes, or they would be a cycle."""
        known = argument_names(self.function)
        names = {
            id(a): known[i] if i < len(known) else f"argument {i}"
            for i, a in enumerate(args)
            if isinstance(a, TensorBase)
        }
        results = {id(y): i for i, y in enumerate(outputs) if isinstance(y, TensorBase) and id(y) not in names}
        dirty = {id(t) for t in self.ctx._dirty}
        results |= {id(y): i for i, y in enumerate(outputs) if id(y) in dirty}

        def kept(tensor: Any, i: int) -> Kept | None:
            if tensor is None:
                return None
            result = results.get(id(tensor), -1)
            saved = save(tensor)
            assert saved is not None
            return Kept(saved, names.get(id(tensor), "result" if result >= 0 else f"saved_tensors[{i}]"), result)

        self.saved = tuple([kept(t, i) for i, t in enumerate(tensors)])
        self.count = len(tensors)

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Calls the Function's ``backward`` and checks what it returns."""
        function = backward_of(self.function)
        grads = self._materialized(grad) if self.several else [grad]
        with nullcontext() if graph else no_grad():
            before = [(g, version_of(g)[0]) for g in grads if g is not None]
            found = function(self.ctx, *grads)
        if any(version_of(g)[0] != number for g, number in before):
            raise self.error(
                "wrote to a gradient that it was given, which other nodes may be given too",
                "use the out-of-place operator: grad * 2 rather than grad.mul_(2).",
            )
        return self._checked(found)

    def _materialized(self, grads: list[Any]) -> list[Any]:
        if not self.ctx._materialize:
            return grads
        return [
            Tensor.new_zeros(wrap(None, self.type[i]), self.shape[i]) if g is None and self.type[i] is not None else g
            for i, g in enumerate(grads)
        ]

    def error(self, what: str, remedy: str) -> AutogradError:
        """Returns an error about what ``backward`` did, with its line."""
        function = self.function
        return AutogradError(
            f"{function.__name__}: its backward ({location(backward_of(function))}) {what}" + fix(remedy)
        )

    def _checked(self, found: Any) -> Gradients:
        """Returns the gradients, one per edge.

        Raises:
            AutogradError: their number, classes, shapes or devices are not those of the arguments.
        """
        given = found if isinstance(found, tuple) else (found,)
        wanted = self.arguments
        if len(given) > wanted and all(g is None for g in given[wanted:]):
            given = given[:wanted]
        if len(given) != wanted:
            what = f"{len(given)} gradient{'s' * (len(given) != 1)}"
            if isinstance(found, list):
                what = f"a list of {len(found)}, which counts as one gradient"
            raise self.error(
                f"returned {what}, and forward was given {wanted} argument{'s' * (wanted != 1)}",
                "return a tuple with one for each, in their order, and None for what is no tensor or needs none.",
            )
        places = set(self.places)
        for i, g in enumerate(given):
            if g is not None and i not in places:
                raise self.error(
                    f"returned a gradient for argument {i}, which was no tensor", "return None in that place."
                )
        return tuple([self._one(given[i], i, edge) for i, edge in zip(self.places, self.edges, strict=True)])

    def _one(self, grad: Any, i: int, edge: Node | None) -> Any:
        if grad is None:
            return None
        if not isinstance(grad, TensorBase):
            raise self.error(
                f"returned {grad!r:.50} ({type(grad).__name__}) as the gradient of argument {i}",
                "return a tp.Tensor, or None.",
            )
        if edge is None:
            return None
        extra = grad.ndim - len(edge.shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(edge.shape, grad.shape[extra:], strict=True)):
            raise self.error(
                f"returned a gradient of shape {grad.shape} for argument {i}, whose shape is {edge.shape}",
                "return one of the argument's shape; over dims in which the argument was broadcast autograd sums it.",
            )
        if grad.is_complex() and not edge.type.dtype.is_complex:
            raise self.error(
                f"returned a complex gradient ({grad.dtype.name}) for argument {i}, which is {edge.type.dtype.name}",
                "return its real part: .real().",
            )
        if grad.ndim and grad.device != edge.type.device:
            device = str(edge.type.device)
            raise self.error(
                f"returned a gradient on {grad.device} for argument {i}, which is on {device}",
                f"make it there: device=grad.device, or .to({device!r}).",
            )
        return grad


def backward_of(function: type[Function]) -> Callable[..., Any]:
    """Returns the ``backward`` of a Function, which it may have named ``vjp``.

    Raises:
        AutogradError: it has neither, or both.
    """
    from tensorplay_core.autograd.function import Function as Base  # at run time: it is made of this module

    own = [m for m in (function.backward, function.vjp) if m is not Base.backward]
    if len(own) == 1:
        return own[0]
    name = function.__name__
    if own:
        raise AutogradError(f"{name} defines both backward and vjp, which are one thing" + fix("keep one of them."))
    raise BackwardMissing(
        f"{name} ({location(function.forward)}) has no backward, so no gradient can pass through it"
        + fix("define it: @staticmethod def backward(ctx, *grads); or detach() the arguments.")
    )


def argument_names(function: type[Function]) -> tuple[str, ...]:
    """Returns the names of the arguments of ``forward`` after ``ctx``, for messages; none where they are not known."""
    from tensorplay_core.autograd.function import Function as Base

    code = getattr(function.forward, "__code__", None)
    if code is None:
        return ()
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names if function.setup_context is not Base.setup_context else names[1:]


def node_class(function: type[Function], kind: int) -> type[FunctionNode]:
    """Returns the class of a Function's nodes of a kind, made at its first call: ``CubeBackward`` for ``Cube``."""
    classes: dict[int, type[FunctionNode]] | None = function.__dict__.get("_node_classes")
    if classes is None:
        classes = {}
        function._node_classes = classes  # type: ignore[attr-defined]
    known = classes.get(kind)
    if known is None:
        known = classes[kind] = type(
            f"{function.__name__}Backward",
            (FunctionNode,),
            {
                "__slots__": (),
                "__module__": function.__module__,
                "__doc__": f"The gradient of {function.__qualname__} ({location(function.forward)}).",
                "function": function,
                "kind": kind,
            },
        )
    return known


def attach(
    node: FunctionNode | None,
    outputs: tuple[Any, ...],
    several: bool,
    inputs: set[int],
    dirty: set[int],
    constant: set[int],
) -> tuple[Any, ...]:
    """Returns the results of a call, attached to their node.

    An input that comes back as it is becomes another tensor over the same memory, for one tensor cannot have two nodes;
    so does a result that is there twice, and one that has a node of its own.
    """
    results: list[Any] = []
    seen: set[int] = set()
    differentiable: list[bool] = []
    for y in outputs:
        tensor = isinstance(y, TensorBase)
        if tensor and id(y) not in dirty and (id(y) in inputs or id(y) in seen or y._node is not None):
            y = _another(y)
            differentiable.append(_differentiable(y, set()) and id(outputs[len(results)]) not in constant)
        else:
            differentiable.append(tensor and _differentiable(y, constant))
        seen.add(id(y))
        results.append(y)
    if node is None:
        return tuple(results)
    node.differentiable = tuple(differentiable)
    if not several:
        y = results[0]
        node.type, node.shape = (y._type, y.shape) if isinstance(y, TensorBase) else (None, ())
    else:
        node.type = tuple([y._type if isinstance(y, TensorBase) else None for y in results])
        node.shape = tuple([y.shape if isinstance(y, TensorBase) else () for y in results])
    for i, y in enumerate(results):
        if not isinstance(y, TensorBase):
            continue
        if differentiable[i]:
            y._node = Output(node, i, y._type, y.shape) if several else node
        if id(y) in dirty:
            if not differentiable[i]:
                y._node = None
            views.rebase(y)
        elif (how := taken(y)) is not None and how.restricted != FUNCTION:
            y._view = how._replace(restricted=FUNCTION)
    return tuple(results)


def _another(y: Tensor) -> Tensor:
    """Returns another tensor over the same memory: a view that no recorded write may concern."""
    same = another(y)
    relate(y, same, REGISTRY.operators["tp::reshape"], (y.shape,), restricted=FUNCTION)
    return same


def _differentiable(y: TensorBase, constant: set[int]) -> bool:
    return y._type.dtype.is_inexact and id(y) not in constant


class Once(Node):
    """The node of a gradient that a ``once_differentiable`` backward computed."""

    __slots__ = ("function",)
    function: Callable[..., Any]

    @classmethod
    def after(cls, value: Tensor, edges: tuple[Node | None, ...], function: Callable[..., Any]) -> Tensor:
        """Returns a gradient that raises where it is differentiated."""
        y = another(value)
        if not value.dtype.is_inexact:
            return y
        node = cls()
        node.number, node.edges, node.type, node.shape, node.saved = next_number(), edges, y._type, y.shape, ()
        node.function = function
        y._node = node
        return y

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Raises, naming the function."""
        name = self.function.__qualname__.replace("<locals>.", "")
        raise AutogradError(
            f"{name} ({location(self.function)}) is once_differentiable, and its gradient is to be differentiated"
            + fix("write it in operators that record and take the decorator away; or do without create_graph=True.")
        )
