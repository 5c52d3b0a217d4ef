"""Bad calls of the operators whose refusals are their own: of shapes, sizes, modes and numbers that one of them has.

Each is of a kind that a kernel must refuse by itself, as a call on the fast path does not come by the shape rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.suite.given import Given

Args = tuple[Any, ...]


def t(*shape: int) -> Given:
    """A float32 tensor of 1, 2, 3 and so on."""
    return Given(shape, [float(k + 1) for k in range(math.prod(shape))], "float32")


def filled(value: float, *shape: int) -> Given:
    """A float32 tensor of one number."""
    return Given(shape, [value] * math.prod(shape), "float32")


def ints(*values: int) -> Given:
    """Integers in a row, such as indices."""
    return Given((len(values),), list(values), "int64")


def row(*values: int) -> Given:
    """A matrix of one row of integers."""
    return Given((1, len(values)), list(values), "int64")


def mask(*shape: int) -> Given:
    """A bool tensor without a False."""
    return Given(shape, [True] * math.prod(shape), "bool")


X = t(2, 3)
DEVICE = {"device": Named("device", "")}
OUT_OF_RANGE = ((X, 2), (X, -3), (t(), 1), (t(), -2), (t(2, 0), 2), (t(0, 3), -3))
"""A tensor and a dim that it has not; one of 0 dims has the dims 0 and -1."""
NO_INT = tuple((x, dim) for x in (X, t()) for dim in (None, (0,)))
"""A tensor and what may mean several dims to a library, where an operator has one."""
WARNING = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""What warns of shapes that differ before it refuses them, as PyTorch does."""
SINGULAR = Given((2, 2), [1.0, 2.0, 2.0, 4.0], "float32")
INDEFINITE = Given((2, 2), [1.0, 2.0, 2.0, 1.0], "float32")
BEHIND_NAN = Given((2, 2, 2), [math.nan] * 4 + SINGULAR.data, "float32")
"""A matrix of NaN, which is no reason to refuse anything, and a singular one."""


def batch(last: Given, count: int) -> Given:
    """A batch of identity matrices but for the last one, of which an error must say that it is that."""
    identity = [float(i == j) for i in range(last.shape[0]) for j in range(last.shape[1])]
    return Given((count, *last.shape), identity * (count - 1) + last.data, "float32")


def _conv(n: int, transposed: bool = False) -> Iterator[Args]:
    """Convolutions of ``n`` dims: channels, groups, the kernel, the strides."""
    size, kernel = (4,) * n, (2,) * n
    x, w = t(1, 2, *size), t(2, 2, *kernel)
    yield x, t(2, 3, *kernel) if not transposed else t(3, 2, *kernel)
    yield x, t(2, *kernel)
    yield t(*size), w
    yield x, w, t(3)
    yield x, w, None, 0
    yield x, w, None, 1, -1
    if transposed:
        yield x, w, None, 2, 0, 2
        yield x, t(3, 1, *kernel), None, 1, 0, 0, 3
        yield x, w, None, 1, 0, 0, 1, 0
        return
    yield x, t(2, 2, *(5,) * n)
    yield x, w, None, 1, 0, 0
    yield x, t(3, 1, *kernel), None, 1, 0, 1, 2
    yield x, w, None, 1, 0, 1, 0


def _padded_conv(n: int) -> Iterator[Args]:
    x, w = t(1, 2, *(4,) * n), t(2, 2, *(2,) * n)
    yield x, w, None, 1, "around"
    yield x, w, None, 2, "same"
    yield x, t(2, 3, *(2,) * n), None, 1, "valid"


def _convolution() -> Iterator[Args]:
    x, w = t(1, 2, 4), t(2, 2, 2)
    for stride, padding, dilation, groups in (
        ((0,), (0,), (1,), 1), ((1,), (-1,), (1,), 1), ((1,), (0,), (0,), 1), ((1,), (0,), (1,), 3),
        ((1, 1), (0,), (1,), 1),
    ):  # fmt: skip
        yield x, w, None, stride, padding, dilation, False, (0,), groups
    yield x, t(2, 3, 2), None, (1,), (0,), (1,), False, (0,), 1
    yield x, t(2, 2, 5), None, (1,), (0,), (1,), False, (0,), 1
    yield x, w, t(3), (1,), (0,), (1,), False, (0,), 1
    yield x, t(3, 2, 2), None, (1,), (0,), (1,), True, (0,), 1
    yield x, w, None, (2,), (0,), (1,), True, (2,), 1


def _pool(n: int, *, dilates: bool = False) -> Iterator[Args]:
    """Pools of ``n`` dims: windows of nothing, larger than the input, and with more padding than half of them."""
    x, k = t(1, 2, *(4,) * n), (2,) * n
    yield t(*(4,) * (n - 1)), k
    yield x, (0,) * n
    yield x, (9,) * n
    yield x, k, (0,) * n
    yield x, k, k, (2,) * n
    yield x, k, k, (-1,) * n
    yield x, (2,) * (n + 1)
    if dilates:
        yield x, k, k, (0,) * n, (0,) * n


def _of_pool(n: int, most: bool) -> Iterator[Args]:
    """Gradients of pools whose shape is another one's, or of means of nothing."""
    x, k = t(1, 2, *(4,) * n), (2,) * n
    grad, none = t(1, 2, *(3,) * n), (0,) * n
    yield (grad, x, k, k, none, (1,) * n, False) if most else (grad, x, k, k, none, False, True, None)
    if not most:
        yield t(1, 2, *k), x, k, k, none, False, True, 0


def _losses() -> Iterator[tuple[str, Args, dict[str, Any]]]:
    """A reduction that there is not, and tensors that do not broadcast."""
    pairs = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "hinge_embedding_loss",
             "kl_div", "poisson_nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")  # fmt: skip
    half = filled(0.5, 2, 3)
    for name in pairs:
        yield name, (half, half), {"reduction": "some"}
        if name not in WARNING:
            yield name, (half, filled(0.5, 4, 5)), {}
    yield "binary_cross_entropy", (X, half), {}
    yield "smooth_l1_loss", (X, X), {"beta": -1.0}
    yield "huber_loss", (X, X), {"delta": 0.0}
    for var in (t(4, 5), filled(-1.0, 2, 3)):
        yield "gaussian_nll_loss", (X, X, var), {}
    yield "gaussian_nll_loss", (X, X, X), {"reduction": "some"}
    for name in ("margin_ranking_loss", "triplet_margin_loss"):
        yield name, (X, X, X), {"reduction": "some"}
        yield name, (X, t(4, 5), X), {}
    yield "cosine_embedding_loss", (X, X, t(2)), {"reduction": "some"}
    yield "cosine_embedding_loss", (X, X, t(3)), {}
    for target in (ints(0, 3), ints(0, -1), ints(0), X):
        yield "nll_loss", (X, target), {}
    yield "nll_loss", (X, ints(0, 1), t(2)), {}
    yield "nll_loss", (X, ints(0, 1)), {"reduction": "some"}


BAD_ARGS: dict[str, tuple[Args, ...]] = {
    # ------------------------------------------------------------------------------------------------ indices, parts
    "embedding": ((ints(0, 5), t(4, 3)), (ints(-1), t(4, 3)), (ints(0), t(4)), (X, t(4, 3))),
    "_embedding": ((t(4, 3), ints(4), -1, False), (t(4, 3), ints(-5), -1, False), (t(4), ints(0), -1, False)),
    "embedding_dense_backward": ((X, ints(0), 4, -1, False), (t(1, 3), ints(4), 4, -1, False)),
    "one_hot": ((ints(0, -1),), (ints(0, 3), 3), (X,)),
    "take_along_dim": ((X, row(3), 1), (X, row(-4), 1), (X, X, 1), (X, row(0), 2), (X, ints(0), 1), (X, ints(6))),
    **dict.fromkeys(
        ("index_add", "index_copy", "index_add_", "index_copy_"),
        ((X, 0, ints(2), t(1, 3)), (X, 0, ints(-3), t(1, 3)), (X, 0, ints(0), X), (X, 2, ints(0), X),
         (X, 0, ints(0), t(1, 4)), (X, 0, t(1), t(1, 3)), (X, 0, row(0), t(1, 3))),
    ),
    **dict.fromkeys(
        ("index_fill.int_Scalar", "index_fill_.int_Scalar"),
        ((X, 0, ints(2), 1.0), (X, 0, ints(-3), 1.0), (X, 2, ints(0), 1.0), (X, 0, t(1), 1.0)),
    ),
    **dict.fromkeys(
        ("index_fill.int_Tensor", "index_fill_.int_Tensor"),
        ((X, 0, ints(2), t()), (X, 0, ints(-3), t()), (X, 2, ints(0), t()), (X, 0, ints(0), t(2))),
    ),
    "put": ((X, ints(6), t(1)), (X, ints(-7), t(1)), (X, ints(0), t(2)), (X, t(1), t(1))),
    "scatter_reduce": (
        (X, 0, row(2), X, "sum"), (X, 0, row(-3), X, "sum"), (X, 2, row(0), X, "sum"), (X, 0, row(0), X, "median"),
        (X, 0, row(0, 1, 0, 1), X, "sum"), (X, 0, row(0, 1, 0, 1), t(2, 4), "sum"),
        *((t(), 0, Given((), [wrong], "int64"), t(), "sum") for wrong in (1, -2)),
        (X, 0, ints(0), X, "sum"), (X, 0, X, X, "sum"),
    ),
    "unfold": ((X, 1, 4, 1), (X, 1, 2, 0), (X, 2, 1, 1), (X, -3, 1, 1), (X, 0, -1, 1), (t(), 0, 2, 1)),
    "roll": ((X, (1, 2), (0,)), (X, 1, 2), (X, 1, -3), (X, (1, 2)), (t(), 1, 1)),
    "rot90": ((X, 1, (0,)), (X, 1, (0, 0)), (X, 1, (0, -2)), (X, 1, (0, 2)), (t(3), 1)),
    "fliplr": ((t(3),),), "flipud": ((t(),),),
    "repeat": ((X, (2,)), (X, (-1, 2))), "tile": ((X, (-1,)),),
    "repeat_interleave.self_Tensor": ((X, ints(1, 2, 3), 0), (X, ints(-1, 1), 0), (X, t(2), 0), (X, ints(1, 1), 2)),
    "repeat_interleave.self_int": ((X, -1), (X, 2, 2), (X, 2, -3)),
    "repeat_interleave.Tensor": ((ints(-1),), (ints(2, -3),), (t(2),), (row(1, 2),)),
    "broadcast_to": ((X, (4, 3)), (X, (3,)), (X, (-2, 3))),
    "hstack": (([X, t(3, 3)],), ([],)), "vstack": (([X, t(2, 4)],), ([],)), "dstack": (([X, t(2, 4)],), ([],)),
    "column_stack": (([X, t(3)],), ([],)),
    "tensor_split.sections": ((X, 0), (X, -1), (X, 2, 2), (t(), 2)),
    "tensor_split.indices": ((X, (1,), 2), (t(), (1,))),
    "hsplit.int": ((t(), 1), (X, 2), (X, 0)), "vsplit.int": ((t(3), 1), (X, 3)),
    "dsplit.int": ((X, 1), (t(1, 1, 3), 2)),
    "hsplit.array": ((t(), (1,)),), "vsplit.array": ((t(3), (1,)),), "dsplit.array": ((X, (1,)),),
    # ---------------------------------------------------------------------------------------------------- reductions
    **dict.fromkeys(("softmin", "nanmean", "var.dim", "std.dim", "var_mean.dim", "std_mean.dim"), OUT_OF_RANGE),
    **dict.fromkeys(("var_mean.correction", "std_mean.correction"), OUT_OF_RANGE),
    **dict.fromkeys(("unique_dim", "unique_dim_consecutive"), OUT_OF_RANGE),
    "linalg_vector_norm": (*((x, 2, dim) for x, dim in OUT_OF_RANGE), (t(0, 3), math.inf, 0), (X, 2, (0, 0))),
    **dict.fromkeys(("max.other", "min.other"), ((X, t(4, 5)), (X, t(2)))),
    "searchsorted.Scalar": ((t(2, 2), 1), (t(), 1)), "bucketize.Scalar": ((1, t(2, 2)), (1, t())),
    "max": ((t(0),), (t(0, 3),)), "min": ((t(0),), (t(0, 3),)),
    # ------------------------------------------------------------------------------------------------ linear algebra
    **dict.fromkeys(("inverse", "linalg_inv"), ((X,), (t(3),), (SINGULAR,), (t(2, 2, 3),), (t(2, 0),), (BEHIND_NAN,))),
    **dict.fromkeys(("det", "slogdet", "linalg_det", "linalg_slogdet", "logdet"), ((X,), (t(3),), (t(),), (t(2, 0),))),
    "linalg_cholesky": ((X,), (t(3),), (INDEFINITE,), (filled(-1.0, 1, 1),), (t(2, 0),)),
    "linalg_cholesky_ex": ((X,), (t(3),), (t(2, 0),)),
    "cholesky_solve": ((t(2, 1), X), (t(3, 1), t(2, 2)), (t(2), t(2, 2))), "cholesky_inverse": ((X,), (t(3),)),
    "linalg_solve": (
        (X, t(2)), (t(2, 2), t(3)), (t(2, 2), t(3, 1)), (SINGULAR, t(2)), (SINGULAR, t(2, 1)), (t(3), t(3)),
        (t(2, 2), t()), (BEHIND_NAN, t(2, 1)), (t(2, 0), t(0, 1)), (t(2, 2, 2), t(3, 2, 1)),
        (t(0, 0), t(2, 1)), (t(2, 2), t(3, 0)),
    ),
    "linalg_pinv": ((t(3), 0.1), (X, 0.1, True)), "linalg_pinv.atol_rtol_float": ((t(3),), (t(),)),
    "linalg_matrix_power": ((X, 2), (SINGULAR, -1), (t(3), 2)),
    "linalg_multi_dot": (([X],), ([X, X],), ([],), ([X, t(3, 1, 1), X],)),
    "linalg_matrix_norm": ((X, 3), (X, 2, (0, 0)), (X, 2, (0, 2)), (t(3), 2), (X, 2, (0,))),
    "linalg_matrix_norm.str_ord": ((X, "frob"), (t(3), "fro"), (X, "nuc", (0, 0))),
    "linalg_norm": ((X, 3), (X, 2, (0, 0)), (X, 2, 2), (t(2, 2, 2), 2)),
    "linalg_norm.ord_str": ((X, "frob"), (t(3), "nuc"), (X, "fro", (0, 0))),
    "linalg_cond": ((t(3),), (X, 1), (X, 3)), "linalg_cond.p_str": ((X, "frob"), (t(3), "fro")),
    "linalg_lstsq": ((X, t(3, 1)), (t(3), t(3)), (X, t())),
    **dict.fromkeys(("linalg_eigh", "linalg_eigvalsh"), ((X,), (t(3),), (t(2, 2), "M"), (t(2, 0),), (t(0, 2),))),
    "linalg_qr": ((t(3),), (t(2, 2), "some")), "linalg_svd": ((t(3),), (t(),)), "linalg_svdvals": ((t(3),), (t(),)),
    "trace": ((t(3),), (t(2, 2, 2),)), "diag": ((t(2, 2, 2),), (t(),)), "matrices": ((t(3),), (t(),)),
    "diag_embed": ((X, 0, 1, 1), (X, 0, 1, -2), (X, 0, 3, 0), (X, 0, 0, -4)),
    "linalg_cross": ((t(2, 4), t(2, 4)), (X, t(4, 3))), "cross": ((t(2, 4), t(2, 4)), (X, X, 0), (X, X, 2)),
    "tensordot": ((X, X, [1], [0]), (X, X, [0, 0], [0, 1]), (X, X, [0], [0, 1]), (X, X, [2], [0])),
    "einsum": (("ij,jk->ik", [X, X]), ("ij", [X, X]), ("ij->z", [X]), ("i", [X]), ("ij->ii", [X]), ("i?", [X])),
    "cosine_similarity": ((X, t(2, 4)), (X, X, 2)), "pairwise_distance": ((X, t(2, 4)),), "normalize": ((X, 2.0, 2),),
    "addmm": ((X, X, X), (t(4, 4), X, t(3, 2)), (t(2, 2), t(2), t(2, 2)), (t(3, 2, 2), X, t(3, 2))),
    "addmv": ((t(2), X, t(2)), (t(3), X, t(3)), (t(2), t(3), t(3)), (t(3, 2), X, t(3))),
    "baddbmm": ((X, t(2, 2, 3), t(3, 3, 2)), (t(4, 4), t(2, 2, 3), t(2, 3, 2)), (X, X, X),
                (t(3, 2, 2, 2), t(2, 2, 3), t(2, 3, 2))),
    "bmm": ((X, X), (t(2, 2, 3), t(3, 3, 2)), (t(2, 2, 3), t(2, 2, 3)), (t(1, 2, 3), t(2, 3, 2)), (t(2, 2), t(2, 2)),
            (t(2, 2, 3), t(3, 2))),
    "mm": ((X, X), (t(3), t(3, 2)), (X, t(3)), (t(1, 2, 3), t(3, 2))),
    "mv": ((X, t(2)), (X, t(3, 1)), (t(3), t(3))),
    **dict.fromkeys(
        ("dot", "vdot"),
        ((X, X), (t(2), t(3)), (t(), t()), (X, t(3)), (t(3), t(3, 2)), (t(2, 2), t(2, 2))),
    ),
    "outer": ((X, t(2)), (t(2), X), (t(), t(2)), (X, t(3)), (t(2, 1), t(1)), (t(2), t(1, 3))),
    "cdist": ((X, t(2, 4)), (t(3), X), (X, t(3)), (X, X, -1.0), (X, X, 2.0, 5), (t(2, 2, 3), t(3, 2, 3))),
    # ------------------------------------------------------------------------------------------------------ networks
    **{f"conv{n}d": tuple(_conv(n)) for n in (1, 2, 3)},
    **{f"conv{n}d.padding": tuple(_padded_conv(n)) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d{'.input' * (n > 1)}": tuple(_conv(n, True)) for n in (1, 2, 3)},
    "convolution": tuple(_convolution()),
    "convolution_backward": (
        (t(1, 2, 4), t(1, 2, 4), t(2, 2, 2), None, (1,), (0,), (1,), False, (0,), 1, [True, True, True]),
        (t(1, 3, 3), t(1, 2, 4), t(2, 2, 2), None, (1,), (0,), (1,), False, (0,), 1, [True, True, True]),
    ),
    **{f"max_pool{n}d{more}": tuple(_pool(n, dilates=True)) for n in (1, 2, 3) for more in ("", "_with_indices")},
    **{f"avg_pool{n}d": tuple(_pool(n)) for n in (1, 2, 3)},
    **{f"max_pool{n}d_backward": tuple(_of_pool(n, True)) for n in (2, 3)},
    **{f"avg_pool{n}d_backward": tuple(_of_pool(n, False)) for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": ((t(2, *(4,) * n), (-1,) * n), (t(4), (2,) * (n + 1))) for n in (1, 2, 3)},
    "im2col": (
        (t(1, 1, 3, 3), (4, 4), (1, 1), (0, 0), (1, 1)), (t(1, 1, 3, 3), (2, 2), (1, 1), (0, 0), (0, 1)),
        (t(1, 1, 3, 3), (2, 2), (0, 1), (0, 0), (1, 1)), (t(3), (2, 2), (1, 1), (0, 0), (1, 1)),
        (t(1, 1, 3, 3), (0, 2), (1, 1), (0, 0), (1, 1)), (t(1, 1, 3, 3), (2, 2), (1, 1), (-1, 0), (1, 1)),
    ),
    "col2im": (
        (t(1, 4, 3), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)), (t(1, 3, 4), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
        (t(1, 4, 4), (3, 3), (2, 2), (1, 1), (0, 0), (0, 1)), (t(4), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
    ),
    "pad": ((X, (1,)), (X, (1,) * 6), (X, (-4, 0)), (X, (1, 1), "around"), (t(1, 2, 3), (3, 0), "reflect")),
    "constant_pad_nd": ((X, (1,)), (X, (1,) * 6), (X, (-2, -2)), (X, (0, 0, -3, 0))),
    "pixel_shuffle": ((t(1, 3, 2, 2), 2), (X, 2), (t(1, 4, 2, 2), 0)), "pixel_unshuffle": ((t(1, 1, 3, 3), 2), (X, 2)),
    "interpolate": ((t(1, 1, 4),), (t(1, 1, 4), 2, 2.0), (t(1, 1, 4), 2, None, "cube"), (t(1, 1, 4), (2, 2)), (X, 2)),
    "layer_norm": ((X, (2,)), (X, (3,), t(2)), (X, (3,), t(3), t(2)), (X, ())),
    "rms_norm": ((X, (2,)), (X, (3,), t(2)), (X, ())),
    "group_norm": ((X, 2), (X, 0), (X, 3, t(2)), (t(3), 1)),
    "instance_norm": ((X,), (t(2, 3, 1),), (t(2, 3, 2), t(2), t(2))),
    "batch_norm": (
        (X, None, None), (X, t(2), t(2)), (t(1, 3), None, None, None, None, True), (X, t(3), t(3), t(2)),
        (t(3), t(3), t(3)),
    ),
    "_standardize": (
        *((X, None, None, dims, 1e-5) for dims in ((2,), (-3,), (0, 0), (0, -2), ())), (X, t(4), None, (1,), 1e-5),
        (X, t(3), t(1), (1,), 1e-5),
    ),
    "_standardize_backward": (
        *((X, X, t(2, 1), t(2, 1), None, dims, (3,), 1e-5, [True] * 3) for dims in ((2,), (-3,), (0, 0), (1, -1), ())),
        *((grad, X, t(2, 1), t(2, 1), None, (1,), (3,), 1e-5, [True] * 3) for grad in (t(3), t(1, 3), t(4, 5))),
        (X, X, t(2), t(2, 1), None, (1,), (3,), 1e-5, [True] * 3),
    ),
    "_cross_entropy": ((X, ints(0, 3), -100, 0.0), (X, ints(0, -1), -100, 0.0), (X, ints(0), -100, 0.0),
                       (t(3), ints(0), 0, 0.0)),
    "_cross_entropy_backward": ((t(3), X, ints(0, 1), -100, 0.0), (t(2), X, ints(0), -100, 0.0)),
    "_attention_backward": ((t(3, 3), X, X, X, None, False, 1.0), (X, X, X, X, mask(3, 3), False, 1.0)),
    "_cdist_backward": ((X, X, X, 2.0, t(2, 2)), (t(2, 2), X, t(2, 4), 2.0, t(2, 2)), (t(2, 2), X, X, 2.0, t(3, 2))),
    "scaled_dot_product_attention": (
        (X, t(2, 4), t(2, 4)), (X, X, X, mask(3, 3)), (X, X, t(3, 3)), (t(3), t(3), t(3)), (X, X, X, None, 1.5),
        (X, X, X, mask(2, 2), 0.0, True),
    ),
    "_attention": (
        (X, t(2, 4), t(2, 4), None, False, 1.0), (X, X, X, mask(3, 3), False, 1.0), (X, X, t(3, 3), None, False, 1.0),
        (X, X, X, t(3, 3), False, 1.0), (X, X, X, t(2, 2, 2), False, 1.0),
        (X, t(1, 2, 3), t(1, 2, 3), None, False, 1.0),
    ),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),
                    ((t(2, 3, 2, 2, 2), 1.5, True), (t(2, 3, 2, 2, 2), -0.5, True))),
    "native_dropout": ((X, 1.5, True), (X, -0.5, True)), "native_dropout_backward": ((X, mask(4), 1.0),),
    "glu": ((X,), (X, 2), (t(),)), "prelu": ((X, t(2)), (X, t(3, 1))), "celu": ((X, 0.0),),
    "clamp": ((X,), (X, t(4)), (X, None, t(2))), "softshrink": ((X, -1.0),),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
        ((row(1, 2, 3), row(1, 2)),),
    ),
    # ------------------------------------------------------------------------------------------------ random numbers
    "bernoulli": ((X,), (filled(-0.5, 2),), (filled(1.5, 2),), (filled(math.nan, 2),)),
    "bernoulli.p": ((X, 1.5), (X, -0.5), (X, math.nan)),
    "uniform_": ((X, 2.0, 1.0),), "normal_": ((X, 0.0, -1.0),), "exponential_": ((X, 0.0), (X, -1.0)),
    "bernoulli_.float": ((X, 1.5), (X, -0.5)),
    "bernoulli_.Tensor": tuple((X, filled(p, 2, 3)) for p in (2.0, 1.5, -0.5, math.nan)),
    "geometric_": ((X, 0.0), (X, 1.5)), "random_.from": ((X, 3, 3), (X, 3, 2)), "random_.to": ((X, 0), (X, -1)),
    "multinomial": (
        (t(3), 4), (t(3), 0), (t(3), -1), (filled(0.0, 3), 1), (filled(-1.0, 3), 1), (filled(math.inf, 3), 1),
        (filled(math.nan, 3), 1), (t(2, 2, 2), 1), (t(), 1), (Given((3,), [1.0, 0.0, 0.0], "float32"), 2),
        *((filled(one, 3), 2, True) for one in (0.0, -1.0, math.inf, math.nan)),
        (Given((3,), [2.0, -1.0, 2.0], "float32"), 2, True),
    ),
    "normal.Tensor_float": ((X, -1.0),), "normal.float_Tensor": ((0.0, filled(-1.0, 2)), (0.0, filled(math.nan, 2))),
    "normal.Tensor_Tensor": ((X, filled(-1.0, 2, 3)), (X, t(4, 5))),
}  # fmt: skip
"""By shape rule or operator, positional arguments that must be refused."""

BAD_CALLS: tuple[tuple[str, Args, dict[str, Any]], ...] = (
    *_losses(),
    *(("aminmax", (x,), {"dim": dim}) for x, dim in OUT_OF_RANGE),
    *(("argsort.stable", (x,), {"stable": True, "dim": dim}) for x, dim in OUT_OF_RANGE),
    *(("norm.dtype", (x, 2, dim), {"dtype": Named("dtype", "float32")}) for x, dim in OUT_OF_RANGE),
    ("gelu", (X,), {"approximate": "no number"}), ("gelu_backward", (X, X), {"approximate": "no number"}),
    ("gelu_backward", (X, t(4, 5)), {}),
    ("linalg_cross", (t(3, 2), t(3, 2)), {"dim": 1}), ("linalg_cross", (X, X), {"dim": 2}),
    ("linalg_cholesky_ex", (INDEFINITE,), {"check_errors": True}),
    ("linalg_solve", (t(2, 2), X), {"left": False}), ("linalg_solve", (SINGULAR, t(1, 2)), {"left": False}),
    ("linalg_solve_triangular", (X, t(2, 1)), {"upper": True}),
    ("linalg_solve_triangular", (t(2, 2), t(3, 1)), {"upper": True}),
    ("linalg_solve_triangular", (t(2, 2), t(2, 3)), {"upper": True, "left": False}),
    ("linalg_solve_triangular", (t(2, 2), t(2)), {"upper": True}),
    ("linalg_solve_triangular", (t(2, 0), t(0, 1)), {"upper": True}),
    ("linalg_solve_triangular", (t(2, 2, 2), t(3, 2, 1)), {"upper": True}),
    ("searchsorted", (t(3), t(2)), {"side": "middle"}), ("searchsorted", (t(3), t(2)), {"sorter": ints(0, 1)}),
    ("searchsorted", (t(3), t(2)), {"side": "left", "right": True}),
    ("repeat_interleave.Tensor", (ints(1, 2),), {"output_size": 4}),
    ("repeat_interleave.Tensor", (ints(),), {"output_size": 4}),
    ("repeat_interleave.self_Tensor", (X, ints(1, 2), 0), {"output_size": 4}),
    ("repeat_interleave.self_int", (X, 2, 0), {"output_size": 5}),
    ("logspace", (1, 12, 3), {"dtype": Named("dtype", "int32"), **DEVICE}),
    *(
        ("logspace", (1, 1, 2, base), {"dtype": Named("dtype", dtype), **DEVICE})
        for dtype, base in (("uint8", 256.0), ("uint8", -1.0), ("int32", 2.0**31), ("int32", -(2.0**31) - 1))
    ),
    *((name, (1, 2, -1), DEVICE) for name in ("linspace", "logspace")),
    *((name, sizes, DEVICE) for name in ("tril_indices", "triu_indices") for sizes in ((-1, 2), (2, -1))),
    ("randint", (3, 3, (2,)), DEVICE), ("randint", (3, 2, (2,)), DEVICE), ("randint", (0, 2, (-1,)), DEVICE),
    ("normal.float_float", (0.0, -1.0, (2,)), DEVICE), ("normal.float_float", (0.0, 1.0, (-2,)), DEVICE),
    ("avg_pool2d", (t(1, 2, 4, 4), (2, 2)), {"divisor_override": 0}),
    ("avg_pool3d", (t(1, 2, 4, 4, 4), (2, 2, 2)), {"divisor_override": 0}),
    *(("addmm", (t(2, 2),) * 3, {name: 1j}) for name in ("alpha", "beta")),
    *(("addmv", (t(2), t(2, 2), t(2)), {name: 1j}) for name in ("alpha", "beta")),
    *(("baddbmm", (t(2, 2, 2),) * 3, {name: 1j}) for name in ("alpha", "beta")),
)  # fmt: skip
"""Operators and calls of them with keywords, which must be refused."""

NAMED: dict[str, tuple[Args, ...]] = {
    **dict.fromkeys(("inverse", "linalg_inv"), ((batch(SINGULAR, 6),),)),
    "linalg_solve": ((batch(SINGULAR, 6), filled(1.0, 6, 2, 1)),),
    "linalg_cholesky": ((batch(INDEFINITE, 6),),),
    "multinomial": (
        (Given((6, 3), [1.0] * 15 + [1.0, 0.0, 0.0], "float32"), 2),
        (Given((6, 3), [1.0] * 15 + [1.0, -1.0, 2.0], "float32"), 2, True),
    ),
}
"""Calls with a bad item in a batch, number 5 of 6: the message must have that number in it."""
