"""What the formulas of convolutions call: the gradients that are asked for, and those of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def convolution_gradients(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of a convolution; None for one that nobody needs."""
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    found = F.convolution_backward(grad, input, weight, grad.shape[1:2], *sizes, needed)
    return tuple(one if wanted else None for one, wanted in zip(found, needed, strict=True))


def convolution_double_backward(
    grads: Sequence[Tensor],
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of a convolution's gradients, each of which is linear in two of the three tensors.

    Args:
        grads: the gradients of the three results; one of a result that was left out has no elements, and adds nothing.
        grad_output: of the call, its conjugate, as ``input`` and ``weight`` are too.
        input: of the call.
        weight: of the call.
        stride: of the convolution, as the arguments after it.
        padding: see above.
        dilation: see above.
        transposed: see above.
        output_padding: see above.
        groups: see above.
        needed: which gradients to return: of grad_output, input, weight.
    """
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    of_input = grads[0] if grads[0].shape == input.shape else None
    of_weight = grads[1] if grads[1].shape == weight.shape else None
    of_bias = grads[2] if grads[2].shape == grad_output.shape[1:2] else None
    first: Tensor | None = None
    second: Tensor | None = None
    third: Tensor | None = None
    if needed[0]:
        terms = [] if of_input is None else [F.convolution(of_input, weight, None, *sizes)]
        terms += [] if of_weight is None else [F.convolution(input, of_weight, None, *sizes)]
        if of_bias is not None:
            terms.append(of_bias.reshape((1, -1) + (1,) * (weight.ndim - 2)).expand(grad_output.shape))
        for term in terms:
            first = term if first is None else first + term
    if needed[1] and of_weight is not None:
        second = F.convolution_backward(grad_output, input, of_weight, None, *sizes, (True, False, False))[0]
    if needed[2] and of_input is not None:
        third = F.convolution_backward(grad_output, of_input, weight, None, *sizes, (False, True, False))[1]
    return first, second, third
