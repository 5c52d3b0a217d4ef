"""What autograd adds to a tensor: ``requires_grad``, ``grad``, ``backward``, ``detach`` and their kin."""

from __future__ import annotations

from typing import Any

from tensorplay_core.autograd import api
from tensorplay_core.autograd.engine import Pass, root_gradient
from tensorplay_core.autograd.node import AccumulateGrad, Node
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, bind, wrap
from tensorplay_core.tensor.version import alias, version_of


@bind
class AutogradMethods(TensorBase):
    """Bound to :class:`Tensor`; see the module."""

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise ArgumentError(f"requires_grad is True or False, not {value!r}")
        if self._node is not None:
            if not self._node.is_leaf and not value:
                raise AutogradError("only a leaf can stop requiring grad" + fix("use detach() for a computed tensor."))
            if not value:
                self._node = None
            return
        if value:
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
        return None if node is None or node.is_leaf else node

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated; None before the first."""
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, TensorBase):
                raise ArgumentError(f"grad is a Tensor or None, not {type(value).__name__}")
            if value is self:
                raise AutogradError("a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise AutogradError(f"grad has shape {value.shape}, its tensor {self.shape}")
            if value.dtype is not self.dtype or value.device != self.device:
                raise AutogradError(
                    f"grad is {value.dtype.name} on {value.device}, its tensor {self.dtype.name} on {self.device}"
                )
        self._grad = value

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
        if inputs is not None or self._node is None:
            api.backward(self, gradient, retain_graph, create_graph, inputs)  # type: ignore[arg-type]
            return
        running = Pass(graph=create_graph, retain=create_graph if retain_graph is None else retain_graph)
        running.add(self._node, root_gradient(self, gradient, create_graph))  # type: ignore[arg-type]
        running.run()

    def detach(self) -> Tensor:
        """Returns a tensor of the same memory that requires no grad; writes to it are seen by version checks."""
        other = wrap(self._array, self._type)
        alias(self, other)
        return other

    def detach_(self) -> Tensor:
        """Cuts the tensor out of the graph that computed it."""
        self._node = None
        return self  # type: ignore[return-value]

    @property
    def data(self) -> Tensor:
        """The same as :meth:`detach`."""
        return self.detach()

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
        result = wrap(self._type.api.copy(self._array), self._type)
        if self._node is not None:
            result._node = AccumulateGrad(result)
        if self.grad is not None:
            result._grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = result
        return result

    def __copy__(self) -> Tensor:
        """Returns another tensor over the same memory; a leaf again when this one requires grad."""
        result = self.detach()
        if self._node is not None:
            result._node = AccumulateGrad(result)
        return result
