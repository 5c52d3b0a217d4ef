"""What autograd adds to a tensor: ``requires_grad``, ``grad``, ``backward``, ``detach`` and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd import api
from tensorplay_core.autograd.engine import Pass, root_gradient
from tensorplay_core.autograd.node import RETAINED, AccumulateGrad, Node, Output
from tensorplay_core.dispatch import active, wrapped
from tensorplay_core.dispatch.wrapped import BATCHED
from tensorplay_core.errors import ArgumentError, AutogradError, TransformError, fix
from tensorplay_core.tensor.overrides import UNASKED, ask, overridable_members
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another, attributes, bind, like
from tensorplay_core.tensor.version import alias, version_of
from tensorplay_core.tensor.views import root_of

if TYPE_CHECKING:
    from tensorplay_core.autograd.hooks import RemovableHandle


@bind
@overridable_members(
    "_base",
    "backward",
    "data",
    "detach",
    "detach_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "requires_grad_",
    "retain_grad",
)
class AutogradMethods(TensorBase):
    """Bound to :class:`Tensor`; see the module."""

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded."""
        try:
            return self._node is not None
        except AutogradError:  # a view that no recorded call may use any more; each says why
            return True

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise ArgumentError(f"requires_grad is True or False, not {value!r}" + fix("write bool(...) around it."))
        if self._node is not None:
            if not self._node.is_leaf and not value:
                raise AutogradError("only a leaf can stop requiring grad" + fix("use detach() for a computed tensor."))
            if not value:
                self._node = None
            return
        if value:
            if self._type.wrapper == BATCHED:
                raise TransformError(
                    "requires_grad: nothing is recorded of a batched tensor inside of vmap"
                    + fix("differentiate with tp.func.grad inside of vmap; or set it on the tensor before vmap.")
                )
            if not self._type.dtype.is_inexact:
                raise AutogradError(
                    f"only floating and complex tensors can require grad, not {self._type.dtype.name}"
                    + fix("convert with .to(tp.float32) first.")
                )
            if self._type.inference:
                raise AutogradError(
                    "a tensor made in inference mode cannot require grad" + fix("clone() it outside inference mode.")
                )
            self._node = AccumulateGrad(self)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets ``requires_grad`` and returns the tensor."""
        self.requires_grad = requires_grad
        return self  # type: ignore[return-value]

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made, not computed from tensors that require grad."""
        return self._node is None or self._node.is_leaf

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed the tensor; None for a leaf."""
        node = self._node
        if node is None or node.is_leaf:
            return None
        return node.parent if isinstance(node, Output) else node

    @property
    def output_nr(self) -> int:
        """Which result of ``grad_fn`` the tensor is."""
        node = self._node
        return node.index if isinstance(node, Output) else 0

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated; None before the first."""
        if active.special or active.subclassed:
            answer = ask(Tensor.__dict__["grad"].fget, (self,), {})
            if answer is not UNASKED:
                return answer  # type: ignore[no-any-return]
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, TensorBase):
                raise ArgumentError(
                    f"grad is a Tensor or None, not {type(value).__name__}" + fix("make one of it with tp.tensor(...).")
                )
            if value is self:
                raise AutogradError("a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise AutogradError(
                    f"grad has shape {value.shape}, its tensor {self.shape}" + fix("assign one of the tensor's shape.")
                )
            if value.dtype is not self.dtype or value.device != self.device:
                raise AutogradError(
                    f"grad is {value.dtype.name} on {value.device}, its tensor {self.dtype.name} on {self.device}"
                    + fix("convert it with .to(tensor).")
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds the tensor's gradients to the ``.grad`` of the graph's leaves; see :func:`tensorplay.autograd.backward`.

        Example:
            >>> import tensorplay as tp
            >>> x = tp.tensor([1.0, 2.0], requires_grad=True)
            >>> (x * x).sum().backward()
            >>> x.grad
            tensor([2., 4.])
        """
        node = self._node
        if inputs is not None or node is None:
            api.backward(self, gradient, retain_graph, create_graph, inputs)  # type: ignore[arg-type]
            return
        running = Pass(graph=create_graph, retain=create_graph if retain_graph is None else retain_graph)
        running.add(node, root_gradient(self, gradient, create_graph))  # type: ignore[arg-type]
        running.run()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Calls a function with the tensor's gradient, in every backward pass that computes it.

        A leaf's hooks get the sum of a pass, before it is stored; a computed tensor's before it goes on to the inputs.

        Args:
            hook: ``hook(grad)``; it may return another gradient of the same shape, dtype and device.

        Returns:
            A handle whose ``remove()`` takes the hook away; it is also a context manager.

        Raises:
            AutogradError: the tensor does not require grad.

        Example:
            >>> import tensorplay as tp
            >>> x = tp.tensor([1.0, -2.0], requires_grad=True)
            >>> _ = x.register_hook(lambda grad: grad * 10)
            >>> (x * x).sum().backward()
            >>> x.grad
            tensor([ 20., -40.])
        """
        from tensorplay_core.autograd import hooks

        return hooks.add(hooks.watch(self._hooked("register_hook")).arriving, hook, "register_hook")

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls a function with the tensor, a leaf, after every backward pass that has added to its ``.grad``.

        Args:
            hook: ``hook(tensor)``; what it returns is ignored.

        Returns:
            A handle whose ``remove()`` takes the hook away; it is also a context manager.

        Raises:
            AutogradError: the tensor does not require grad, or is no leaf.
        """
        from tensorplay_core.autograd import hooks

        what = "register_post_accumulate_grad_hook"
        node = self._hooked(what)
        if not node.is_leaf:
            raise AutogradError(
                f"{what}: the tensor was computed, and only leaves accumulate gradients"
                + fix("use register_hook, which gets the gradient of any tensor.")
            )
        return hooks.add(hooks.watch(node).stored, hook, what)

    def _hooked(self, what: str) -> Node:
        if self._node is None:
            raise AutogradError(
                f"{what}: the tensor does not require grad, so no gradient will reach it"
                + fix("call requires_grad_() on it first.")
            )
        return self._node

    def retain_grad(self) -> None:
        """Lets backward passes store the gradient of a computed tensor in its ``.grad``, as they do for leaves.

        Raises:
            AutogradError: the tensor does not require grad.

        Example:
            >>> import tensorplay as tp
            >>> x = tp.tensor(2.0, requires_grad=True)
            >>> y = x * 3
            >>> y.retain_grad()
            >>> (y * y).backward()
            >>> y.grad
            tensor(12.)
        """
        if not self._hooked("retain_grad").is_leaf:
            from tensorplay_core.autograd import hooks

            hooks.retain(self)

    @property
    def retains_grad(self) -> bool:
        """Whether it is a computed tensor whose gradient backward passes store."""
        known = RETAINED.get(id(self))
        return known is not None and known() is self and not self.is_leaf

    def detach(self) -> Tensor:
        """Returns a tensor of the same memory that requires no grad; writes to it are seen by version checks."""
        if not self._type.wraps:
            return another(self)
        if self._type.wrapper == BATCHED and not self._array.batched:
            result: Tensor = wrapped.detach(self)
            return result
        result = another(self)
        result._array = self._array.like(self._array.tensor.detach())  # no gradient passes at any level
        return result

    def detach_(self) -> Tensor:
        """Cuts the tensor out of the graph that computed it.

        Raises:
            AutogradError: it is a view, whose base would stay in the graph.
        """
        if self._is_view():
            raise AutogradError(
                "detach_: the tensor is a view, and its base, whose memory it shares, would stay in the graph"
                + fix("use detach(), which returns another tensor.")
            )
        self._node = None
        if active.levels:
            from tensorplay_core.tensor.dual import forget

            forget(self)
        return self  # type: ignore[return-value]

    @property
    def data(self) -> Tensor:
        """The same as :meth:`detach`; what is assigned is the tensor's memory from then on, and autograd sees no write.

        A leaf stays a leaf, and what nodes have saved stays what it was.

        Raises:
            ArgumentError: what is assigned is no tensor.
            AutogradError: the tensor is a view or has some, or was computed and is given another shape or type.

        Example:
            >>> import tensorplay as tp
            >>> w = tp.tensor([1.0, 2.0], requires_grad=True)
            >>> w.data = w.data * 10
            >>> w
            tensor([10., 20.], requires_grad=True)
        """
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        from tensorplay_core.autograd.storing import exchange

        exchange(self, value)

    def _is_view(self) -> bool:
        """Whether the tensor is a view that gradients pass through."""
        return self._base is not None

    @property
    def _base(self) -> Tensor | None:
        """The tensor that a view, or a view of a view, was taken from; None for a tensor that is no view."""
        root = root_of(self)
        return None if root is self or root._type.inference else root  # type: ignore[return-value]

    @property
    def _version_number(self) -> int:
        return int(version_of(self)[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Copies a leaf with its gradient."""
        if not self.is_leaf:
            raise AutogradError(
                "only leaves can be deep-copied: a computed tensor has a graph" + fix("copy its .detach().")
            )
        if (known := memo.get(id(self))) is not None:
            return known  # type: ignore[no-any-return]
        result = like(self, self._type.api.copy(self._array))
        memo[id(self)] = result
        if self._node is not None:
            result._node = AccumulateGrad(result)
        if self.grad is not None:
            result._grad = self.grad.__deepcopy__(memo)
        if self.__class__ is not Tensor:
            from copy import deepcopy

            for name, value in attributes(self).items():
                setattr(result, name, deepcopy(value, memo))
        return result

    def __copy__(self) -> Tensor:
        """Returns another tensor over the same memory; a leaf again when this one requires grad."""
        result = like(self, self._array)
        alias(self, result)
        if self.__class__ is not Tensor:
            for name, value in attributes(self).items():
                setattr(result, name, value)
        if self._node is not None:
            result._node = AccumulateGrad(result)
        return result
