"""What autocast does to a call: one kernel per policy, at the shared ``Autocast`` slot of every operator that has one.

Each casts the floating arguments and continues below Autocast, with the family excluded meanwhile, so that what a
Composite kernel calls is not cast again. The cast is an operator like any other: autograd records it, and the gradient
comes back in the dtype of what was cast. Which operator has which policy is the contract's word
(``_generated_rules.py``); what a policy does to which dtype is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from tensorplay_core.autocast.cache import CastCache
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import FAMILIES, DispatchKey
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutocastError, fix
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import tensors_in
from tensorplay_core.ops.conversion import to
from tensorplay_core.ops.slots import CORE
from tensorplay_core.ops.typing_rules import device_of, scalar_tensor
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.promotion import promote as promoted

Kernel = Callable[..., Any]

_HALVES = (dt.float16, dt.bfloat16)
INSTEAD = {
    "binary_cross_entropy": "call binary_cross_entropy_with_logits on what the sigmoid is taken of, which is safe",
}
"""The safe form of an operator that is banned, where there is one."""


def lower_precision_fp(op: Operator) -> Kernel:
    """Computes in the dtype that autocast is open with: products, where a half is fast and loses little."""

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        dtype = slow.autocast_dtype(op, args, kwargs)
        return below(op, keys, *cast(args, kwargs, dtype, but=dt.float64, using=_keeper()))

    return kernel


def fp32(op: Operator) -> Kernel:
    """Computes in float32: sums and powers, which overflow or lose too much in a half.

    An operator that takes ``dtype=`` is told it, which saves the cast; one that the caller has chosen stays.
    """
    chooses = ", ScalarType? dtype=None" in op.schema_text  # as text, because this runs at import

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        if not chooses:
            return below(op, keys, *cast(args, kwargs, dt.float32, but=dt.float64))
        halves = any(t._type.dtype in _HALVES for t in tensors_in(args, kwargs))
        if halves and kwargs.get("dtype") is None:
            kwargs["dtype"] = dt.float32
        return below(op, keys, args, kwargs)

    return kernel


def promote(op: Operator) -> Kernel:
    """Computes in the widest floating dtype among the arguments, where kernels want one dtype for all.

    A number divided by a half is float32, as in PyTorch, for which it is a product with the reciprocal.
    """
    divides = op.qualified_name == "tp::div"

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        if divides and args[0]._type.dtype in _HALVES and (number := _number(args[0])) is not None:
            type = args[0]._type
            args = scalar_tensor(number, dt.float32, type.device, type.inference), args[1]
        device = device_of(list(tensors_in(args, kwargs))).type
        floating = [t._type.dtype for t in tensors_in(args, kwargs) if _is_floating(t, device)]
        if len(set(floating)) < 2:
            return below(op, keys, args, kwargs)
        return below(op, keys, *cast(args, kwargs, reduce(promoted, floating)))

    return kernel


def banned(op: Operator) -> Kernel:
    """Refuses halves: in one the result would be wrong without anybody noticing. Wider tensors pass as they are."""

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        halves = [t._type.dtype.name for t in tensors_in(args, kwargs) if t._type.dtype in _HALVES]
        if not halves:
            return below(op, keys, args, kwargs)
        remedy = INSTEAD.get(op.name, "compute it in float32 where autocast is off, and cast its inputs with .float()")
        raise AutocastError(
            f"{op.display_name}: is unsafe to autocast: inputs that {halves[0]} has rounded make its result wrong"
            + fix(f"{remedy}.")
        )

    return kernel


POLICIES: dict[str, Callable[[Operator], Kernel]] = {
    "lower_precision_fp": lower_precision_fp,
    "fp32": fp32,
    "promote": promote,
    "banned": banned,
}


def below(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Continues a call at the keys below Autocast, which is excluded meanwhile."""
    with exclude(FAMILIES["Autocast"]):
        return slow.run(op, keys.below(DispatchKey.AutocastCPU), args, kwargs)


def cast(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtype: DType,
    *,
    but: DType | None = None,
    using: Callable[..., Tensor] = to,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns a call's arguments with the floating tensors of its device in another dtype, those in lists too.

    Args:
        args: the positional arguments.
        kwargs: the keyword-only ones.
        dtype: the dtype.
        but: a dtype that is left as it is. Autocast leaves float64 alone, because whoever uses it means it.
        using: what casts one tensor.
    """
    device = device_of(list(tensors_in(args, kwargs))).type
    how = device, dtype, but, using
    return tuple([_cast_one(value, *how) for value in args]), {n: _cast_one(v, *how) for n, v in kwargs.items()}


def _cast_one(value: Any, device: str, dtype: DType, but: DType | None, using: Callable[..., Tensor]) -> Any:
    """Returns one argument as :func:`cast` does; no closure, which would refer to itself and so be a cycle."""
    if value.__class__ is tuple or value.__class__ is list:
        return value.__class__([_cast_one(item, device, dtype, but, using) for item in value])
    if not _is_floating(value, device) or value._type.dtype is but:
        return value
    return using(value, dtype=dtype)


def _keeper() -> Callable[..., Tensor]:
    """Returns what casts to the dtype of a region: the cache of the regions that are open, if it is on."""
    regions = STATE.get().autocast
    cache: CastCache | None = getattr(regions, "cache", None)  # a scope may have put a plain mapping there
    return cache.cast if cache is not None and getattr(regions, "caching", False) else to


def _number(tensor: Tensor) -> float | None:
    """Returns the Python number that a call was given, of the tensor that types keep for it; None of any other."""
    known = (tensor._type.ints, tensor._type.floats)
    return next((float(key) for numbers in known for key, one in numbers.items() if one is tensor), None)


def _is_floating(value: Any, device: str) -> bool:
    return isinstance(value, TensorBase) and value._type.dtype.is_floating_point and value._type.device.type == device


def registration(op: Operator, policy: str) -> Registration:
    """Returns what core registers at the shared Autocast slot of an operator with a policy."""
    make = POLICIES[policy]
    kernel = make(op)
    kernel.__qualname__ = f"autocast_{policy}"
    return Registration(
        kernel,
        op=op.qualified_name,
        key="Autocast",
        owner=CORE,
        distribution=CORE,
        where=location(make),
        level="tensor",
        with_keyset=True,
    )


def install(rules: Mapping[str, tuple[str, ...]]) -> None:
    """Registers the policies of the contract's operators, and those of every operator that is defined from now on."""
    REGISTRY.publish(added=[registration(REGISTRY.find(name), policy) for policy in rules for name in rules[policy]])
    REGISTRY.on_define.append(_defined)


def _defined(op: Operator) -> None:
    if op.autocast in POLICIES:
        REGISTRY.publish(added=[registration(op, op.autocast)])
