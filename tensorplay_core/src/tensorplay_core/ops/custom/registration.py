"""What a program can register for any operator, its own or another's: kernels, fakes, gradients, casts.

Each registration belongs to the module of the function that it brings, so running a notebook cell again replaces what
the cell registered before, and nobody else's. It stays for the process, or for as long as the ``Library`` that it is
given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, parse_key
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.operator import Operator, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, RegistrationError, SchemaError, did_you_mean, fix
from tensorplay_core.ops.custom import kernels
from tensorplay_core.ops.packets import OpOverload, OpPacket, packet_of

if TYPE_CHECKING:
    from tensorplay_core.ops.custom.definition import CustomOpDef

F = TypeVar("F", bound=Callable[..., Any])
Op = Any
"""A name (``"ns::op"``), an operator of ``tp.ops``, or what ``custom_op`` returned."""
DeviceTypes = str | Sequence[str] | None

DEFINITIONS: dict[str, CustomOpDef] = {}
"""What ``custom_op`` has defined, by qualified name; kept for the process."""
_kept: dict[tuple[str, str], Library] = {}
"""Libraries of registrations that were given none, by owner and namespace."""


def find(op: Op) -> Operator:
    """Returns the operator that is meant.

    Raises:
        ArgumentError: it is no operator, or a name with several overloads.
        RegistrationError: there is none of that name.
    """
    if isinstance(op, OpOverload):
        return op._op
    if isinstance(op, OpPacket):
        found = op._operators()
        if len(found) == 1:
            return found[0]
        raise ArgumentError(f"{op!r} has several overloads" + fix(f"name one of {', '.join(op.overloads())}."))
    if isinstance(op, str):
        return _named(op.removesuffix(".default"))
    overload = getattr(op, "_opoverload", None)
    if overload is None:
        raise ArgumentError(
            f"an operator is a name such as 'ns::op', tp.ops.ns.op, or what custom_op returned; not {type(op).__name__}"
        )
    return find(overload)


def _named(name: str) -> Operator:
    namespace, colons, rest = name.rpartition("::")
    overloads = packet_of(namespace if colons else "tp", rest).overloads()
    if overloads and "default" not in overloads:
        if len(overloads) > 1:
            raise ArgumentError(f"{name} has several overloads" + fix(f"name one of {', '.join(overloads)}."))
        name = f"{name}.{overloads[0]}"
    return REGISTRY.find(name)


def split_name(name: str) -> tuple[str, str]:
    """Returns the namespace and the rest of ``ns::op`` or ``ns::op.overload``.

    Raises:
        ArgumentError: it is not such a name.
    """
    namespace, colons, rest = name.partition("::") if isinstance(name, str) else ("", "", "")
    rest = rest.removesuffix(".default")  # what `tp.ops` calls the overload without a name
    parts = [namespace, *rest.split(".")]
    if not colons or len(parts) > 3 or not all(part.isidentifier() for part in parts):
        raise ArgumentError(
            f"an operator's name is 'namespace::name' or 'namespace::name.overload', not {name!r}"
            + fix("take your project's name as the namespace: 'my_project::my_op'.")
        )
    return namespace, rest


def as_tags(tags: str | Sequence[str]) -> tuple[str, ...]:
    """Returns tags as an operator has them; one may be written alone, as in a contract."""
    return (tags,) if isinstance(tags, str) else tuple(tags)


def owner_of(op: Operator, function: Any) -> str:
    """Returns the module that a function's registrations belong to: the operator's, for a callable without one."""
    return getattr(function, "__module__", None) or op.owner or "__main__"


def library_for(op: Operator, owner: str, lib: Library | None) -> Library:
    """Returns the library of a registration: the one given, the operator's own, or one of its owner's."""
    if lib is not None:
        return lib
    definition = DEFINITIONS.get(op.qualified_name)
    if definition is not None and definition._lib.owner == owner:
        return definition._lib
    return kept_library(owner, op.namespace)


def kept_library(owner: str, namespace: str) -> Library:
    """Returns the library of an owner that nobody holds, made at the first call."""
    library = _kept.get((owner, namespace))
    if library is None:
        library = _kept[owner, namespace] = Library(namespace, "FRAGMENT")
        library.owner = owner
    return library


def key_of(device_type: str) -> int:
    """Returns a device's backend key, whether or not its backend is loaded.

    Raises:
        RegistrationError: no device of that type is known; the message offers the nearest.
    """
    from tensorplay_core.plugins.lifecycle import MANAGER

    if not isinstance(device_type, str):
        raise ArgumentError(f"a device type is a string such as 'cpu', not {device_type!r}")
    try:
        slot = parse_key(device_type)
    except RegistrationError:
        known = ["cpu", "cuda", "meta", *(record.name for record in MANAGER.records())]  # describing gives them keys
        try:
            slot = parse_key(device_type)
        except RegistrationError:
            near = did_you_mean(device_type, dict.fromkeys(known)) or f" There are: {', '.join(dict.fromkeys(known))}."
            raise RegistrationError(f"there is no device type {device_type!r}.{near}") from None
    if isinstance(slot, str) or slot % PAGE >= BACKENDS:
        raise RegistrationError(
            f"{device_type!r} is a dispatch key and no device type" + fix("use Library.impl there.")
        )
    return slot


def slots_of(op: Operator, device_types: DeviceTypes) -> list[int]:
    """Returns the slots that a kernel for some device types goes to: Composite when none is named."""
    if device_types is None:
        return [int(DispatchKey.Composite)]
    schema = op.schema
    chooses = any(a.type.holds_tensors or str(a.type.base) == "Device" for a in schema.arguments)
    if not chooses:
        raise RegistrationError(
            f"{op.display_name} has neither a tensor nor a device among its arguments, so no call can choose a kernel "
            f"by device: {schema}" + fix("give it an argument 'device: tp.device', or leave device_types away.")
        )
    types = [device_types] if isinstance(device_types, str) else list(device_types)
    return [key_of(device_type) for device_type in dict.fromkeys(types)]


def _decorated(function: F | None, register: Callable[[F], F]) -> Any:
    return register if function is None else register(function)


def layout_of(op: Operator) -> kernels.Layout:
    """Returns how a user's functions see an operator."""
    definition = DEFINITIONS.get(op.qualified_name)
    return definition._layout if definition is not None and definition._op is op else kernels.Layout(op)


def register_kernel(
    op: Op,
    device_types: DeviceTypes,
    func: F | None = None,
    /,
    *,
    lib: Library | None = None,
    override: bool = False,
) -> Any:
    """Registers an implementation for some device types; a decorator when the function is left out.

    Args:
        op: the operator.
        device_types: ``"cpu"``, several, or None for all devices that have no kernel of their own.
        func: takes the operator's arguments, tensors as tensors.
        lib: what the registration leaves with; it stays for the process when None.
        override: may take a slot that another owner has.

    Raises:
        RegistrationError: no such operator or device, or the function does not take the operator's arguments.
        BackendConflict: another owner has the slot.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("doc_kernel::double", mutates_args=())
        ... def double(x: tp.Tensor) -> tp.Tensor:
        ...     return x * 2
        >>> @tp.library.register_kernel("doc_kernel::double", "cpu")
        ... def _(x):
        ...     return tp.from_numpy(x.numpy() + x.numpy())
        >>> double(tp.ones(2))
        tensor([2., 2.])
    """
    operator = find(op)

    def register(function: F) -> F:
        kernel = kernels.kernel(layout_of(operator), function)
        library, where = library_for(operator, owner_of(operator, function), lib), location(function)
        slots = slots_of(operator, device_types)
        library.impl_at(operator.qualified_name, kernel, slots, where, override=override, level="tensor")
        return function

    return _decorated(func, register)


def register_fake(op: Op, func: F | None = None, /, *, lib: Library | None = None, override: bool = False) -> Any:
    """Registers what an operator's result is like, for tensors without data; a decorator without the function.

    Args:
        op: the operator.
        func: takes the operator's arguments with tensors on the device ``meta``, and returns such tensors.
        lib: what the registration leaves with; it stays for the process when None.
        override: may take a slot that another owner has.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("doc_fake::double", mutates_args=())
        ... def double(x: tp.Tensor) -> tp.Tensor:
        ...     return tp.from_numpy(2 * x.numpy())
        >>> @tp.library.register_fake("doc_fake::double")
        ... def _(x):
        ...     return tp.empty_like(x)
        >>> double(tp.ones(2, 3, device="meta")).shape
        (2, 3)
    """
    operator = find(op)

    def register(function: F) -> F:
        kernel = kernels.kernel(layout_of(operator), function, fake=True)
        library = library_for(operator, owner_of(operator, function), lib)
        name, where = operator.qualified_name, location(function)
        library.impl_at(name, kernel, ["Meta"], where, override=override, level="tensor")
        return function

    return _decorated(func, register)


def register_autograd(
    op: Op,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
    override: bool = False,
) -> None:
    """Registers an operator's gradient.

    Args:
        op: the operator.
        backward: ``backward(ctx, *grads)`` is given one gradient per result and returns one per positional input: a
            tensor, or None for what is no tensor or needs none. Written in differentiable operators, it can be
            differentiated again.
        setup_context: ``setup_context(ctx, inputs, output)`` keeps what ``backward`` needs, by
            ``ctx.save_for_backward(...)`` or as attributes. An operator with keyword-only arguments passes
            ``keyword_only_inputs`` too, a dict.
        lib: what the registration leaves with; it stays for the process when None.
        override: may replace the gradient that another owner registered.

    Raises:
        RegistrationError: the operator writes to its arguments, or a function does not take what it is called with.
        BackendConflict: another owner has registered a gradient.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("doc_grad::square", mutates_args=())
        ... def square(x: tp.Tensor) -> tp.Tensor:
        ...     return tp.from_numpy(x.numpy() ** 2)
        >>> def setup_context(ctx, inputs, output):
        ...     ctx.save_for_backward(*inputs)
        >>> def backward(ctx, grad):
        ...     (x,) = ctx.saved_tensors
        ...     return 2 * x * grad
        >>> tp.library.register_autograd("doc_grad::square", backward, setup_context=setup_context)
        >>> x = tp.tensor(3.0, requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor(6.)
    """
    from tensorplay_core.ops.custom.gradient import Formula, autograd_kernel

    operator = find(op)
    formula = Formula(layout_of(operator), backward, setup_context)
    library = library_for(operator, owner_of(operator, backward), lib)
    kernel = autograd_kernel(formula)
    library.impl_at(
        operator.qualified_name,
        kernel,
        ["Autograd"],
        formula.where,
        override=override,
        level="tensor",
        with_keyset=True,
    )


# ------------------------------------------------------------------------------------------ libraries without an object


def define(qualname: str, schema: str, /, *, lib: Library | None = None, tags: str | Sequence[str] = ()) -> None:
    """Defines an operator by its signature.

    Args:
        qualname: ``"ns::op"`` or ``"ns::op.overload"``.
        schema: the rest: ``"(Tensor x, int n=1) -> Tensor"``.
        lib: what the operator leaves with; it stays for the process when None.
        tags: the operator's tags, or one.

    Raises:
        SchemaError: the signature is not in the schema language.
        RegistrationError: another signature, or another owner, has the name; both places are named.

    Example:
        >>> import tensorplay as tp
        >>> tp.library.define("doc_define::double", "(Tensor x) -> Tensor")
        >>> @tp.library.impl("doc_define::double", "default")
        ... def _(x):
        ...     return x + x
        >>> tp.ops.doc_define.double(tp.ones(2))
        tensor([2., 2.])
    """
    namespace, rest = split_name(qualname)
    if not schema.lstrip().startswith("("):
        raise SchemaError(f"{qualname}: the schema begins with its arguments, '(Tensor x) -> Tensor', not {schema!r}")
    frame = sys._getframe(1)
    library = lib if lib is not None else kept_library(str(frame.f_globals.get("__name__")), namespace)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    library.define_at(f"{namespace}::{rest}{schema}", where, tags=as_tags(tags))


def impl(
    qualname: str,
    types: str | Sequence[str],
    func: F | None = None,
    /,
    *,
    lib: Library | None = None,
    override: bool = False,
) -> Any:
    """Registers a function as it is, without the checks of ``register_kernel``; a decorator without the function.

    Args:
        qualname: the operator's name.
        types: device types or dispatch keys; ``"default"`` is Composite.
        func: takes tensors, or raw arrays for a built-in operator at a backend's key.
        lib: what the registration leaves with; it stays for the process when None.
        override: may take a slot that another owner has.
    """
    operator = find(qualname)

    def register(function: F) -> F:
        library = library_for(operator, owner_of(operator, function), lib)
        for key in [types] if isinstance(types, str) else types:
            name = operator.qualified_name
            library.impl(name, function, "Composite" if key == "default" else key, override=override)
        return function

    return _decorated(func, register)
