"""Views: of which tensor each is one, and what a write to one tensor means for the others.

A view holds its base and the operator that took it, as PyTorch's ``_base`` does; the version cell of their memory knows
its living views weakly. A write that is recorded takes the node from all of them: they are *stale*. A stale view gets
its node anew when it is next asked for, from the node that its base has by then. Views that are stale already are not
looked at again, so that writing to each of n views costs n steps and not n * n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.version import FEW, LIMIT, LIVE, RESTRICTED, SHORTENING, Version, extend, prune, version_of

if TYPE_CHECKING:
    from tensorplay_core.autograd.node import Node
    from tensorplay_core.dispatch.operator import Operator
    from tensorplay_core.tensor.tensor import TensorBase

NO_GRAD, INFERENCE, SEVERAL, FUNCTION = "no_grad", "inference_mode", "several", "function"
"""How a view was taken that no recorded write may concern: see :func:`refusal`."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})

replay: Callable[[TensorBase, Operator, tuple[Any, ...], Mapping[str, Any]], Node | None] | None = None
"""Returns the node that a call of a view operator records; set by the floor that can call one."""


class Taken(NamedTuple):
    """How a view was taken. The fast path stores a plain tuple: base, operator, and the arguments.

    Attributes:
        base: the tensor that it was taken from, which may be a view itself.
        op: the operator.
        args, kwargs: its arguments after the tensor.
        restricted: why no recorded write may concern it; empty where one may.
    """

    base: TensorBase
    op: Operator
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = _NOTHING
    restricted: str = ""


def share(base: TensorBase, view: TensorBase, op: Operator, *args: Any) -> None:
    """Makes a tensor a view of another: they share a version cell, and the view knows where it comes from.

    The generated functions do the same inline where the base has views already and gradients are on.

    Args:
        base: the tensor that the view was taken from.
        view: the view.
        op: the operator that took it.
        args: its arguments after the tensor; nobody may change them later.
    """
    cell = base._version
    if active.grad_off and not STATE.get().grad:
        view._version = version_of(base)
        relate(base, view, op, args)
        return
    view._view = (base, op, *args)
    if cell is None:
        base._version = view._version = [0, [ref(view)], FEW, False, None]
        return
    view._version = cell
    live = cell[LIVE] or extend(cell)
    live.append(ref(view))
    if len(live) > cell[LIMIT]:
        prune(cell)


def share_several(base: TensorBase, views: tuple[TensorBase, ...], op: Operator, args: tuple[Any, ...]) -> None:
    """Makes new tensors, the results of one call, views of another; they know alike where they come from."""
    cell, state = version_of(base), STATE.get()
    how = Taken(base, op, args, _NOTHING, SEVERAL if state.grad else INFERENCE if state.inference else NO_GRAD)
    live = cell[LIVE] or extend(cell)
    cell[RESTRICTED] = True
    for view in views:
        view._version = cell
        view._view = how
    live.extend(map(ref, views))
    if len(live) > cell[LIMIT]:
        prune(cell)


def share_if_aliased(base: TensorBase, result: TensorBase, op: Operator, *args: Any) -> None:
    """Makes a result a view where it is one: an operator such as ``reshape`` copies where it must.

    A copy is as any other result: one that is made in inference mode is an inference tensor.
    """
    if is_part_of(base, result._array):
        share(base, result, op, *args)
    else:
        result._version = None
        if active.inference and STATE.get().inference:
            result._type = result._type.inference_twin


def is_part_of(base: TensorBase, array: Any) -> bool:
    """Whether an array that an operator made of a tensor is a view; that of no elements is, as any other."""
    # NumPy and its like say of an array whose memory it is: quicker to ask than whether two overlap.
    whole, memory = base._array, getattr(array, "base", None)
    if memory is not None and (memory is whole or memory is getattr(whole, "base", None)):
        return True
    return base._type.api.may_alias(whole, array)


def relate(
    base: TensorBase,
    view: TensorBase,
    op: Operator,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] = _NOTHING,
    *,
    several: bool = False,
    restricted: str = "",
) -> None:
    """Says where a view that shares its base's cell comes from; what was said before is forgotten.

    Args:
        base: the tensor that it was taken from.
        view: the view.
        op: the operator that took it.
        args: its arguments after the tensor.
        kwargs: its keyword-only ones.
        several: whether it is one of several results.
        restricted: why no recorded write may concern it, besides what the context says.
    """
    one: TensorBase | None = base
    while one is not None:
        if one is view:  # a kernel on tensors gave back what it was given, or what that is a view of
            return
        one = one._view[0] if hasattr(one, "_view") else None
    cell = version_of(base)
    state = STATE.get()
    if not state.grad:
        restricted = INFERENCE if state.inference else NO_GRAD
    elif several:
        restricted = SEVERAL
    view._view = Taken(base, op, args, kwargs, restricted)
    live = cell[LIVE] or extend(cell)
    cell[RESTRICTED] = cell[RESTRICTED] or bool(restricted)
    live.append(ref(view))
    if len(live) > cell[LIMIT]:
        prune(cell)


def taken(tensor: TensorBase) -> Taken | None:
    """Returns how a view was taken; None for a tensor that is none."""
    known = getattr(tensor, "_view", None)
    return known if known is None or known.__class__ is Taken else Taken(known[0], known[1], known[2:])


def restrict(results: Iterable[Any]) -> None:
    """Says of several views that they are the results of one call, as PyTorch does whatever they are composed of."""
    for view in results:
        if (how := taken(view)) is not None and not how.restricted:
            view._view = how._replace(restricted=SEVERAL)
            view._version[RESTRICTED] = True


def root_of(tensor: TensorBase) -> TensorBase:
    """Returns the tensor at the end of a chain of views, which is none itself.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.zeros(2, 3)
        >>> root_of(x.T[0]) is x
        True
    """
    while (known := getattr(tensor, "_view", None)) is not None:
        tensor = known[0]
    return tensor


def path_of(tensor: TensorBase) -> tuple[Taken, ...]:
    """Returns how a view is taken from its root, step by step; empty for a tensor that is no view."""
    steps = []
    while (step := taken(tensor)) is not None:
        steps.append(step)
        tensor = step.base
    return tuple(reversed(steps))


def restriction(tensor: TensorBase) -> tuple[str, Operator | None]:
    """Returns why no recorded write may concern a view, which a view of it inherits, and the operator that took it."""
    while (step := taken(tensor)) is not None:
        if step.restricted:
            return step.restricted, step.op
        tensor = step.base
    return "", None


def bump(tensor: TensorBase) -> None:
    """Counts a write; nobody can have saved a tensor that has no cell."""
    cell = tensor._version
    if cell is not None:
        count(cell)


def count(cell: Version) -> None:
    """Counts a write to the memory of a cell."""
    cell[0] += 1
    if cell[LIVE]:
        if cell[RESTRICTED]:
            cell[RESTRICTED] = _unset(cell, restricted_only=True)
        elif len(cell[LIVE]) <= FEW:
            prune(cell)


def mark_stale(cell: Version) -> None:
    """Takes the node from every living view that has one of a graph: what it describes has been written to."""
    if cell[LIVE]:
        _unset(cell, restricted_only=False)


def _unset(cell: Version, restricted_only: bool) -> bool:
    """Makes views stale, which leave the list then; returns whether there are restricted ones among those looked at."""
    found = False
    known: dict[int, tuple[Node | None, bool]] = {}
    stale: list[TensorBase] = []
    with SHORTENING:
        live = cell[LIVE]
        number = len(live)
        kept = []
        for reference in live[:number]:
            view = reference()
            if view is None:
                continue
            node, restricted = _origin(view, known)
            found = found or restricted
            if node is None or (restricted_only and not restricted):  # no gradient comes from there, or it may
                kept.append(reference)
            else:
                stale.append(view)
        live[:number] = kept
    for view in stale:  # outside of the lock: a node that goes may be the last to refer to an object of the program's
        if hasattr(view, "_edge"):
            del view._edge
    return found


def _origin(view: TensorBase, known: dict[int, tuple[Node | None, bool]]) -> tuple[Node | None, bool]:
    """Returns the node of a view's root, None for what is no view, and whether no recorded write may concern it.

    Args:
        view: the view.
        known: the answers for views that live, by identity, so that long chains are walked once.
    """
    chain: list[TensorBase] = []
    one = view
    while id(one) not in known and hasattr(one, "_view"):
        chain.append(one)
        one = one._view[0]
    answer = known.get(id(one)) or (one._edge if chain else None, False)
    for step in reversed(chain):
        answer = known[id(step)] = (
            answer[0],
            answer[1] or (step._view.__class__ is Taken and bool(step._view.restricted)),
        )
    return answer


def fresh_node(tensor: TensorBase) -> Node | None:
    """Returns the node of a tensor that has none because a write has made it stale.

    Raises:
        AutogradError: it was taken in a way that no recorded write may concern.
    """
    chain: list[TensorBase] = []
    one = tensor
    while not hasattr(one, "_edge"):
        chain.append(one)
        one = one._view[0]
    kind, op = restriction(tensor)
    if op is not None and one._edge is not None:
        raise refusal(kind, op, "its memory has been written to since, by itself, its base or another view of it")
    for view in reversed(chain):
        _renew(view, kind)
    return tensor._edge


def _renew(view: TensorBase, kind: str) -> None:
    how = taken(view)
    assert how is not None
    base, op, args, kwargs, _ = how
    if base._edge is None:
        view._edge = None
    elif op.node is not None:
        op.node.record(view, base, *args, **kwargs)
    else:
        assert replay is not None
        view._edge = replay(base, op, args, kwargs)
    cell = view._version
    assert cell is not None
    live = cell[LIVE] or extend(cell)
    cell[RESTRICTED] = cell[RESTRICTED] or bool(kind)
    live.append(ref(view))
    if len(live) > cell[LIMIT]:
        prune(cell)


def refusal(kind: str, op: Operator, what: str) -> AutogradError:
    """Returns the error for a recorded write that concerns a view which it must not concern.

    Args:
        kind: how the view was taken.
        op: the operator that took it.
        what: what was done.
    """
    name = op.display_name
    if kind in (NO_GRAD, INFERENCE):
        return AutogradError(
            f"{name}: the view was taken in {kind} and is used where gradients are recorded, and {what}; whether "
            "that write is part of the graph is not clear"
            + fix(f"take the view and write to it both inside of {kind}, or both outside.")
        )
    if kind == SEVERAL:
        return AutogradError(
            f"{name}: the view is one of the several results of {name}, and {what}; a gradient through such a write "
            "would need the other results" + fix("use the out-of-place operator, or take the view by itself: x[i].")
        )
    return AutogradError(
        f"{name}: the view was returned by a custom function, and {what}; the function's backward does not know of "
        "the write" + fix("clone() the view before it is returned, or use the out-of-place operator.")
    )
