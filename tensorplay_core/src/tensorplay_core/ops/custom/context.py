"""The ``ctx`` of ``setup_context`` and ``backward``, and what a node keeps of it.

Tensors are kept as nodes keep them, as arrays with their version cell, also those in lists, tuples and dicts that a
program puts there: a write in between is noticed wherever the tensor was kept, and nothing is a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorplay_core.autograd.kept import Saved
from tensorplay_core.autograd.node import Output, save, unpack
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase

if TYPE_CHECKING:
    from tensorplay_core.ops.custom.gradient import CustomNode


class Kept(NamedTuple):
    """A tensor that a context keeps, and which of the call's results it is (-1 for none)."""

    saved: Saved
    name: str
    result: int


class State(NamedTuple):
    """What a node keeps of the context of its call, and how many tensors each of its results is.

    Attributes:
        attributes, tensors: what was set, without and with tensors in it; of each tensor a :class:`Kept`.
    """

    attributes: dict[str, Any]
    tensors: dict[str, Any]
    saved: tuple[Kept | None, ...]
    needs: tuple[Any, ...]
    materialize: bool
    sizes: tuple[int, ...]


def _mapped(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """Returns a value with all of a kind replaced, in lists, tuples and dicts too; itself where there is none."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, dict) and type(value) is dict:
        found = {key: _mapped(item, kind, function) for key, item in value.items()}
        return found if any(found[key] is not item for key, item in value.items()) else value
    if not isinstance(value, (list, tuple)):
        return value
    items = [_mapped(item, kind, function) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return value._make(items) if hasattr(value, "_make") else type(value)(items)


class Context:
    """The ``ctx`` of ``setup_context`` and ``backward``; it takes any attribute.

    Attributes:
        needs_input_grad: for each positional input whether a gradient is wanted; a list for a list of tensors.
    """

    __slots__ = ("__dict__", "_materialize", "_node", "_not_differentiable", "_state", "_to_save", "needs_input_grad")

    needs_input_grad: tuple[Any, ...]

    def __init__(self, needs: tuple[Any, ...]) -> None:
        """See the class."""
        self.needs_input_grad = needs
        self._materialize = True
        self._not_differentiable: tuple[Any, ...] = ()
        self._to_save: tuple[Any, ...] = ()
        self._state: State | None = None
        self._node: tuple[CustomNode, bool] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors, inputs or results or others, for ``saved_tensors``."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, TensorBase):
                several = isinstance(tensor, (list, tuple))
                remedy = "save_for_backward(*tensors), with a star" if several else "ctx.name = value, as an attribute"
                raise AutogradError(
                    f"save_for_backward keeps tensors, and argument {i} is {type(tensor).__name__}"
                    + fix(f"keep it with {remedy}.")
                )
        self._to_save = tensors

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Says which results have no gradient; those of an integer dtype never have one."""
        self._not_differentiable = results

    def set_materialize_grads(self, value: bool) -> None:
        """Says whether a result that no gradient reached has zeros (True, the default) or None in ``backward``."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given.

        Raises:
            AutogradError: one of them was modified in place since.
        """
        if self._state is None:
            return self._to_save
        return tuple(None if kept is None else self._unpacked(kept) for kept in self._state.saved)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute that is a tensor, or holds some, after the same check."""
        state = self._state
        if state is not None and name in state.tensors:
            return _mapped(state.tensors[name], Kept, self._unpacked)
        known = [*self.__dict__, *(state.tensors if state is not None else ())]
        raise AttributeError(f"ctx has no attribute {name!r}; setup_context has set: {', '.join(known) or 'none'}")

    def _unpacked(self, kept: Kept) -> Tensor:
        assert self._node is not None
        node, graph = self._node
        y = unpack(kept.saved, node, kept.name, graph, own=kept.result >= 0)
        if kept.result >= 0 and node.several and graph:
            type = node.type[kept.result]
            y._node = Output(node, kept.result, type, node.shape[kept.result]) if type.dtype.is_inexact else None
        return y

    def _packed(self, names: dict[int, str], results: list[list[Any]]) -> State:
        """Returns all that the context has, as a node may keep it."""
        places = {id(tensor): i for i, tensor in enumerate(chain.from_iterable(results))}

        def kept(tensor: Any, fallback: str) -> Kept:
            index = places.get(id(tensor), -1)
            name = names.get(id(tensor), "result" if index >= 0 else fallback)
            saved = save(tensor)
            assert saved is not None
            return Kept(saved, name, index)

        attributes: dict[str, Any] = {}
        tensors: dict[str, Any] = {}
        for name, value in self.__dict__.items():
            found = _mapped(value, TensorBase, partial(kept, fallback=f"ctx.{name}"))
            (attributes if found is value else tensors)[name] = found
        saved = tuple(None if t is None else kept(t, f"saved_tensors[{i}]") for i, t in enumerate(self._to_save))
        sizes = tuple(map(len, results))
        return State(attributes, tensors, saved, self.needs_input_grad, self._materialize, sizes)

    @classmethod
    def _again(cls, state: State, node: CustomNode, graph: bool) -> Context:
        """Returns the context that ``backward`` gets."""
        self = cls(state.needs)
        self.__dict__ = state.attributes
        self._state, self._node = state, (node, graph)
        return self
