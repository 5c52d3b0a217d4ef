"""What can be attached to a node: hooks, ``retain_grad``, and where anomaly mode keeps the traceback of a call.

A node has no room for any of it, because nearly every node has none. Its edges are a tuple that nobody changes, so what
is attached rides on them: :func:`watch` gives the node edges of the class :class:`Watch`, and a class that differs from
its own in calling the hooks. The engine's loop sees that in the node's kind, which it reads anyway.

A gradient that several nodes are given is one tensor, so a hook returns another and does not write to what it gets. A
leaf's hooks run when the pass has summed its gradient, which then is the leaf's own.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from tensorplay_core.autograd.fitting import fit
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.autograd.node import RETAINED, WATCHED, WATCHED_LEAVES, AccumulateGrad, Gradients, Node
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import version_of

if TYPE_CHECKING:
    from tensorplay_core.autograd.engine import Pass

Hook = Callable[..., Any]
_next_hook = itertools.count().__next__
_watching = threading.RLock()
"""Re-entrant, because what is freed inside may attach something in its turn."""


class Hooks(dict[int, Hook]):
    """Hooks by number, in the order in which they were added."""

    __slots__ = ("__weakref__",)


class Watch(tuple["Node | None", ...]):
    """The edges of a node that something is attached to.

    Attributes:
        arriving: hooks on the gradient of the node's result, or of the leaf.
        before, after: hooks around the node.
        stored: hooks after a leaf's gradient was stored.
        retained: the tensor whose ``.grad`` is to have the gradient of the node's result.
        made: where the node was made, and by which node's backward, for anomaly mode.
    """

    arriving: Hooks
    before: Hooks
    after: Hooks
    stored: Hooks
    retained: weakref.ref[TensorBase] | None
    made: Any

    def __new__(cls, edges: tuple[Node | None, ...]) -> Self:
        """Returns a node's edges, with room."""
        self = super().__new__(cls, edges)
        self.arriving, self.before, self.after, self.stored = Hooks(), Hooks(), Hooks(), Hooks()
        self.retained = self.made = None
        return self


class RemovableHandle:
    """Takes a hook away: by ``remove()``, or at the end of the ``with`` block that the handle opens.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones((), requires_grad=True)
        >>> with x.register_hook(lambda grad: grad * 10):
        ...     tp.autograd.grad(x * 2, x)
        (tensor(20.),)
        >>> tp.autograd.grad(x * 2, x)
        (tensor(2.),)
    """

    __slots__ = ("_hooks", "id")

    def __init__(self, *hooks: tuple[Hooks, int]) -> None:
        """Remembers where each hook is, without keeping it alive."""
        self._hooks = [(weakref.ref(where), number) for where, number in hooks]
        self.id = hooks[0][1] if hooks else -1

    def remove(self) -> None:
        """Takes the hook away; a second time is nothing."""
        for where, number in self._hooks:
            if (known := where()) is not None:
                known.pop(number, None)

    def __enter__(self) -> Self:
        """Leaves the hook where it is until the end of the block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Takes the hook away."""
        self.remove()


def add(hooks: Hooks, hook: Hook, what: str) -> RemovableHandle:
    """Adds a hook, and returns its handle."""
    if not callable(hook):
        raise ArgumentError(
            f"{what}: a hook is a function, not {type(hook).__name__}"
            + fix("pass the function itself, not its result.")
        )
    number = _next_hook()
    hooks[number] = hook
    return RemovableHandle((hooks, number))


def watch(node: Node) -> Watch:
    """Returns what is attached to a node, after making room for it."""
    with _watching:
        known = node.edges
        if known.__class__ is not Watch:
            known = node.edges = Watch(known)
            node.__class__ = _watched(type(node))
            if node.is_leaf:
                number = id(node)
                WATCHED_LEAVES[number] = weakref.ref(node, lambda _: WATCHED_LEAVES.pop(number, None))
        return known


def _watched(kind: type[Node]) -> type[Node]:
    """Returns the class of a node that is watched: of the same layout, so that a node can change to it."""
    known: type[Node] | None = kind.__dict__.get("_watched")
    if known is None:
        changes = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
        changes |= {"__slots__": (), "backward": _backward, "pointwise": False, "unwatched": kind}
        changes["kind"] = kind.kind | WATCHED
        known = type(kind.__name__, (kind,), changes)
        kind._watched = known  # type: ignore[attr-defined]
    return known


def _backward(node: Any, grad: Any, graph: bool) -> Gradients:
    """Runs a node between its hooks."""
    attached: Watch = node.edges
    for hook in [*attached.before.values()]:
        given = tuple(grad) if node.several else (grad,)
        given = _before(hook, given, _guarded(hook, graph, given))
        grad = list(given) if node.several else given[0]
    found: Gradients = node.unwatched.backward(node, grad, graph)
    if attached.after:
        pairs = zip(found, attached, strict=False)
        found = tuple([None if g is None or edge is None else fit(g, edge) for g, edge in pairs])
        given = tuple(grad) if node.several else (grad,)
        for hook in [*attached.after.values()]:
            found = _several(hook, found, _guarded(hook, graph, found, given), "the gradients of its inputs")
    return found


def arrive(node: Node, grad: Tensor, running: Pass) -> Tensor:
    """Returns the gradient of a tensor after the hooks on it."""
    attached: Any = node.edges
    call = _called if node.is_leaf else _guarded  # a leaf's gradient is its own
    for hook in [*attached.arriving.values()]:
        if isinstance(hook, Part):
            hook.arrive(grad, running)
        else:
            grad = _one(hook, grad, call(hook, running.graph, grad))
    return grad


def before_storing(leaf: Node, grad: Tensor, graph: bool) -> Tensor:
    """Returns a leaf's gradient after the hooks before its node."""
    attached: Any = leaf.edges
    for hook in [*attached.before.values()]:
        (changed,) = _before(hook, (grad,), _called(hook, graph, (grad,)))
        grad = changed if changed is not None else grad
    return grad


def after_storing(leaf: AccumulateGrad, grad: Tensor, graph: bool) -> None:
    """Calls the hooks of a leaf whose gradient was stored."""
    attached: Any = leaf.edges
    variable = leaf.variable()
    if variable is not None:
        for hook in [*attached.stored.values()]:
            _called(hook, graph, variable)
    for hook in [*attached.after.values()]:
        _called(hook, graph, (), (grad,))


def _called(hook: Hook, graph: bool, *arguments: Any) -> Any:
    """Calls a hook; what it computes is recorded only where the pass is."""
    with nullcontext() if graph else no_grad():
        return hook(*arguments)


def _guarded(hook: Hook, graph: bool, *arguments: Any) -> Any:
    """Calls a hook with gradients that other nodes may be given too.

    Raises:
        AutogradError: it wrote to one.
    """
    grads = [g for a in arguments for g in (a if isinstance(a, tuple) else (a,)) if g is not None]
    numbers = [version_of(g)[0] for g in grads]
    result = _called(hook, graph, *arguments)
    if any(version_of(g)[0] != number for g, number in zip(grads, numbers, strict=True)):
        raise AutogradError(
            f"{named('hook', hook)} wrote to a gradient that it was given, which other nodes may be given too"
            + fix("return another one: grad * 2 rather than grad.mul_(2).")
        )
    return result


def named(role: str, hook: Hook) -> str:
    """Returns what messages call a hook: its role, its name, and its line where it is written in Python."""
    inner: Any = hook
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    name = getattr(inner, "__qualname__", type(inner).__qualname__).replace("<locals>.", "")
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return f"the {role} {name}" + (f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else "")


def _one(hook: Hook, grad: Tensor, result: Any) -> Tensor:
    """Returns the gradient after a hook: what it returned, or the gradient itself where that is None.

    Raises:
        ArgumentError: the hook returned something that is no tensor.
        AutogradError: it returned a tensor of another shape, dtype or device.
    """
    if result is None or result is grad:
        return grad
    if not isinstance(result, Tensor):
        raise ArgumentError(
            f"{named('hook', hook)} returned a {type(result).__name__}" + fix("return a gradient, or None to leave it.")
        )
    for what, new, old in (
        ("shape", result.shape, grad.shape),
        ("dtype", result.dtype.name, grad.dtype.name),
        ("device", str(result.device), str(grad.device)),
    ):
        if new != old:
            raise AutogradError(
                f"{named('hook', hook)} changed the gradient's {what}: it was given {old} and returned {new}"
                + fix(f"return a gradient whose {what} is that of the one it is given.")
            )
    return result


def _several(hook: Hook, grads: Gradients, result: Any, what: str) -> Gradients:
    """The same for the hooks of a node, which take and return a tuple; None in it is no gradient."""
    if result is None:
        return grads
    if isinstance(result, TensorBase) and len(grads) == 1:
        result = (result,)
    if not isinstance(result, tuple) or len(result) != len(grads):
        given = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise AutogradError(
            f"{named('hook', hook)} returned {given} for {what}, of which there are {len(grads)}"
            + fix(f"return a tuple of {len(grads)}, or None to leave them.")
        )
    pairs = zip(grads, result, strict=True)
    return tuple([new if old is None or new is None else _one(hook, old, new) for old, new in pairs])


def _before(hook: Hook, grads: Gradients, result: Any) -> Gradients:
    """The same for a hook before a node, which needs the gradients that it had."""
    changed = _several(hook, grads, result, "the gradients of its results")
    return tuple([old if new is None else new for old, new in zip(grads, changed, strict=True)])


# -- retain_grad


def retain(tensor: TensorBase) -> None:
    """Lets passes store the gradient of a computed tensor."""
    number = id(tensor)
    if not retains(tensor):
        RETAINED[number] = weakref.ref(tensor, lambda _: RETAINED.pop(number, None))


def retains(tensor: TensorBase) -> bool:
    """Whether passes store the gradient of a computed tensor."""
    known = RETAINED.get(id(tensor))
    return known is not None and known() is tensor


def settle() -> None:
    """Lets the node of every tensor with ``retain_grad`` know it, when a pass begins.

    A write in place gives a tensor another node, and the claim follows the tensor.
    """
    for reference in [*RETAINED.values()]:
        tensor = reference()
        if tensor is not None and tensor._node is not None and not tensor._node.is_leaf:
            watch(tensor._node).retained = reference


def retained(node: Node) -> TensorBase | None:
    """Returns the tensor that is to keep the gradient of a node's result."""
    attached: Any = node.edges
    tensor: TensorBase | None = attached.retained and attached.retained()
    return tensor if tensor is not None and tensor._node is node else None


# -- one hook on several tensors


class Joint:
    """A hook on several tensors, called once a pass; see ``tp.autograd.graph.register_multi_grad_hook``.

    Attributes:
        function: takes the list of gradients, or the first one.
        wait: whether to wait until the pass knows all of them.
        count: how many tensors there are.
    """

    __slots__ = ("count", "function", "wait")

    def __init__(self, function: Hook, wait: bool, tensors: Sequence[TensorBase]) -> None:
        """See the class."""
        self.function, self.wait, self.count = function, wait, len(tensors)

    def finish(self, grads: list[Tensor | None], graph: bool) -> None:
        """Calls the function with what a pass has found."""
        if self.wait:
            _called(self.function, graph, grads)


class Part:
    """What a joint hook puts on one of its tensors."""

    __slots__ = ("index", "joint")

    def __init__(self, joint: Joint, index: int) -> None:
        """See the class."""
        self.joint, self.index = joint, index

    def __call__(self, grad: Tensor) -> None:
        """Is never called: a pass gives it the gradient with :meth:`arrive`."""

    def arrive(self, grad: Tensor, running: Pass) -> None:
        """Keeps a gradient until the pass is over, or calls the function with the first."""
        joint = self.joint
        known = running.joint = running.joint if running.joint is not None else {}
        grads = known.get(joint)
        if grads is None:
            grads = known[joint] = [None] * joint.count
            if not joint.wait:
                _called(joint.function, running.graph, grad)
        grads[self.index] = grad


def join(tensors: Sequence[TensorBase], function: Hook, wait: bool) -> RemovableHandle:
    """Puts one hook on several tensors."""
    joint, places = Joint(function, wait, tensors), []
    for i, tensor in enumerate(tensors):
        assert tensor._node is not None
        hooks, number = watch(tensor._node).arriving, _next_hook()
        hooks[number] = Part(joint, i)
        places.append((hooks, number))
    return RemovableHandle(*places)
