"""Runs ``opcheck`` on both operators, then on two that do what their signature does not say."""

from fused_ops import bias_silu, polynomial

import tensorplay as tp

x = tp.tensor([[0.5, -2.0, 3.0], [1.5, -0.25, 40.0]], requires_grad=True)
bias = tp.tensor([0.1, 0.2, -0.3], requires_grad=True)

for operator, args in [(bias_silu, (x, bias)), (polynomial, (x, [1.0, -0.5, 0.25]))]:
    for test, outcome in tp.library.opcheck(operator, args).items():
        print(f"{operator.__name__}: {test}: {outcome}")


@tp.library.custom_op("wrong::add_one", mutates_args=())
def add_one(x: tp.Tensor) -> tp.Tensor:
    a = x.numpy()
    a += 1  # the caller's tensor, which the signature calls an input
    return x.clone()


@tp.library.custom_op("wrong::clip", mutates_args=())
def clip(x: tp.Tensor, low: float) -> tp.Tensor:
    if not any(value < low for value in x.tolist()):
        return x  # nothing to do, and yet the result must be another tensor
    return tp.maximum(x, low)


for operator, args in [(add_one, (tp.ones(3),)), (clip, (tp.ones(3), 0.0))]:
    try:
        tp.library.opcheck(operator, args)
    except tp.OpCheckError as error:
        print(f"\n{error}")
