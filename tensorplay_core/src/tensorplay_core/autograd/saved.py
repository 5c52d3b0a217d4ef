"""Hooks for what nodes save: a program can keep it elsewhere, smaller, or not at all until it is asked for.

While such hooks are open every call takes the slow path, where one function, ``save`` in :mod:`node`, keeps a tensor
for a node. What it gives the node then looks like any saved tensor that was written to since: a version that cannot be.
The check that a backward pass makes anyway leads to :meth:`Packed.unpack`, so hooks cost nothing where there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.autograd.hooks import named
from tensorplay_core.autograd.kept import PACKED, Saved, modified
from tensorplay_core.autograd.modes import GradMode, no_grad
from tensorplay_core.autograd.node import Node
from tensorplay_core.dispatch.context import STATE, Scope, State
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another
from tensorplay_core.tensor.version import version_of

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]
_CELL = [PACKED, False]


class Packed:
    """A tensor that a node saved, as a hook has packed it.

    Attributes:
        held: what the pack hook returned.
        hook: what makes a tensor of it again.
        type, shape: of the tensor.
        cell, number: the tensor's version, in case that what is held is the tensor itself.
    """

    __slots__ = ("cell", "held", "hook", "number", "shape", "type")

    def __init__(self, tensor: TensorBase, held: Any, hook: Unpack) -> None:
        """See the class."""
        self.held, self.hook = held, hook
        self.type, self.shape, self.cell = tensor._type, tensor.shape, version_of(tensor)
        self.number = self.cell[0]

    def unpack(self, of: Node, name: str) -> tuple[Any, list[Any]]:
        """Returns the array and the version cell of the tensor.

        Raises:
            ArgumentError: the hook returned something that is no tensor.
            AutogradError: it returned a tensor of another shape, dtype or device; or the tensor itself, and that was
                modified in place since.
        """
        with no_grad():
            tensor = self.hook(self.held)
        if not isinstance(tensor, TensorBase):
            raise ArgumentError(
                f"{named('unpack hook', self.hook)} returned a {type(tensor).__name__} for {name!r} of {of.name}"
                + fix("return a tensor like the one that the pack hook was given.")
            )
        for what, new, old in (
            ("shape", tensor.shape, self.shape),
            ("dtype", tensor.dtype.name, self.type.dtype.name),
            ("device", str(tensor.device), str(self.type.device)),
        ):
            if new != old:
                raise AutogradError(
                    f"{named('unpack hook', self.hook)} returned a tensor of {what} {new} for {name!r} of {of.name}, "
                    f"which was packed with {what} {old}"
                    + fix("return a tensor like the one that the pack hook was given.")
                )
        cell = version_of(tensor)
        if cell is self.cell and cell[0] != self.number:
            raise modified((tensor._array, self.type, None, cell, self.number), of, name)
        return tensor._array, cell


def is_number(tensor: TensorBase) -> bool:
    """Whether a tensor is a Python number that a call was given; its type keeps those."""
    if tensor._array.shape or tensor._node is not None or tensor.is_meta:
        return False
    type = tensor._type
    value = type.api.to_list(tensor._array)  # item() would ask whoever has a say in calls
    known: tuple[dict[Any, Any], ...] = (type.ints, type.floats)
    return any(numbers.get(key) is tensor for numbers in known for key in (value, repr(value)))


def pack(tensor: Any, node: Node | None) -> Saved:
    """Returns what a node keeps of a tensor while hooks are open."""
    if is_number(tensor):
        return (tensor._array, tensor._type, node, version_of(tensor), 0)
    hooks = STATE.get().packing
    assert isinstance(hooks, tuple)
    hook, back = hooks
    given = another(tensor)
    number = version_of(tensor)[0]
    with Scope(packing=None, grad=False):
        held = hook(given)
    if version_of(tensor)[0] != number:
        raise AutogradError(
            f"{named('pack hook', hook)} wrote to the tensor that it was given, which the program goes on with"
            + fix("clone() it first, or use operators that are not in place.")
        )
    return (Packed(tensor, held, back), tensor._type, node, _CELL, 0)


class saved_tensors_hooks(Scope):
    """A scope in which what nodes save goes through two functions.

    The innermost scope applies. Hooks run without recording, and a pack hook outside of any such scope.

    Args:
        pack_hook: takes a tensor, detached, and returns anything; called when a node saves the tensor.
        unpack_hook: takes that and returns a tensor of the same values, shape, dtype and device; called when a
            backward pass reaches the node.

    Raises:
        AutogradError: on entering, inside :class:`disable_saved_tensors_hooks`.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([1.0, 2.0], requires_grad=True)
        >>> with tp.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda kept: tp.tensor(kept)):
        ...     y = x * x
        >>> y.sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    __slots__ = ()

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        """See the class."""
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise ArgumentError(
                    f"saved_tensors_hooks: {name} is a function, not {type(hook).__name__}"
                    + fix("pass two functions: one returns what is kept of a tensor, one makes a tensor of that.")
                )
        super().__init__(packing=(pack_hook, unpack_hook))

    def _enter(self, previous: State) -> State:
        if isinstance(previous.packing, str):
            raise AutogradError(previous.packing)
        return super()._enter(previous)


class save_on_cpu(saved_tensors_hooks):
    """A scope in which what nodes save is kept on the cpu, and comes back to its device when it is needed.

    Args:
        pin_memory: must be False: no backend here has pinned memory.
        device_type: the device whose memory is to be saved; any is served, and PyTorch has the argument.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(3, device="loopback", requires_grad=True)
        >>> with tp.autograd.graph.save_on_cpu():
        ...     y = x.exp()
        >>> y.sum().backward()
        >>> x.grad.device
        device(type='loopback', index=0)
    """

    __slots__ = ()

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        """See the class."""
        if pin_memory:
            raise ArgumentError(
                "save_on_cpu: pin_memory=True needs pinned memory, which no backend has" + fix("leave it out.")
            )
        super().__init__(lambda tensor: (tensor.device, tensor.to("cpu")), lambda kept: kept[1].to(kept[0]))


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """A scope in which what nodes save may be written to later: a pass computes from the values of the time.

    Every tensor is copied when a node saves it; PyTorch copies only when it is written to.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([1.0, 2.0], requires_grad=True)
        >>> with tp.autograd.graph.allow_mutation_on_saved_tensors():
        ...     h = x * 1
        ...     y = h * h
        ...     _ = h.detach().zero_()
        >>> y.sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: tensor)


class disable_saved_tensors_hooks(GradMode):
    """A scope, and a decorator, in which :class:`saved_tensors_hooks` is refused with a message.

    Args:
        error_message: the message.

    Raises:
        AutogradError: on entering, where such hooks are open already.

    Example:
        >>> import tensorplay as tp
        >>> with tp.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     with tp.autograd.graph.save_on_cpu():
        ...         pass
        Traceback (most recent call last):
        ...
        tensorplay_core.errors.AutogradError: no hooks here
    """

    __slots__ = ("_message",)

    def __init__(self, error_message: str) -> None:
        """See the class."""
        super().__init__(packing=error_message)
        self._message = error_message

    def _again(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self._message)

    def _enter(self, previous: State) -> State:
        if isinstance(previous.packing, tuple):
            raise AutogradError(self._message)
        return super()._enter(previous)
