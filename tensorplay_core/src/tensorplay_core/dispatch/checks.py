"""What is checked when a kernel is registered, so that no call has to: what it takes, and that its signature fits."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.keys import (
    BACKENDS,
    OFFSETS,
    PAGE,
    DispatchKey,
    device_of_page,
    family_of,
    slot_name,
)
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.errors import RegistrationError

if TYPE_CHECKING:
    from tensorplay_core.types.schema import OpSchema


def default_level(slot: int | str) -> str:
    """Returns what kernels of a slot take: raw arrays at backend keys, tensors everywhere else."""
    if isinstance(slot, int) and slot % PAGE < BACKENDS and slot != DispatchKey.Composite:
        return "array"
    return "tensor"


def device_of(slot: int | str) -> str | None:
    """Returns the device type for whose calls alone a slot serves.

    None for the shared slots, the modes and Composite, and for what belongs to no backend: sparse layouts, and meta
    tensors, which every operator has.
    """
    if isinstance(slot, str):
        return None
    page, step = divmod(slot, PAGE)
    family = family_of(step)
    backend = step - OFFSETS[family] if family is not None else step
    if backend >= BACKENDS or backend in (DispatchKey.Sparse, DispatchKey.Meta):
        return None
    return device_of_page(page) if page else DispatchKey(backend).name.lower()


def check_level(slot: int | str, level: str | None, with_keyset: bool) -> str:
    """Returns what a kernel takes, arrays or tensors.

    Raises:
        RegistrationError: arrays where only tensors will do.
    """
    default = default_level(slot)
    if level not in (None, "array", "tensor"):
        raise RegistrationError(f"level is 'array' or 'tensor', not {level!r}")
    if level == "array" and default == "tensor":
        raise RegistrationError(
            f"a kernel at {slot_name(slot)} takes tensors; only backend keys have kernels on arrays"
        )
    if (level or default) == "array" and with_keyset:
        raise RegistrationError("a kernel on raw arrays cannot redispatch; pass level='tensor' to get the key set")
    return level or default


def check_signature(op: Operator, registration: Registration) -> None:
    """Refuses a kernel that the operator's arguments do not fit, and notes which keywords it takes.

    Raises:
        RegistrationError: with both signatures.
    """
    import inspect  # here, because kernels are registered when a backend is first used, not at import

    function = registration.function
    if not callable(function):
        raise RegistrationError(f"a kernel is a callable, not {function!r}")
    if registration.emitted and _takes_anything(function):
        return  # as many are made at once, the schemas of operators that nobody may call are not parsed for them
    schema = op.schema
    positional, keyword_only = schema.positional, schema.keyword_only
    inputs = getattr(function, "nin", None)
    if isinstance(inputs, int):  # a ufunc
        registration.keywords = frozenset()
        if inputs != len(positional):
            takes = f"takes {inputs} array{'s' * (inputs != 1)}"
            name = getattr(function, "__name__", function)
            raise RegistrationError(f"the kernel, the ufunc {name}, {takes}, the operator is {schema}")
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        registration.unchecked = True
        return
    parameters = signature.parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    words = words_of_python(schema, named)
    taken = named.union(words)
    registration.keywords = None if takes_any else frozenset(a.name for a in keyword_only if a.name in taken)
    # An array kernel may omit keyword-only arguments: a call that changes one goes to Composite.
    passed = {a.name: None for a in keyword_only if takes_any or a.name in taken or registration.level == "tensor"}
    arguments = [None] * (len(positional) + registration.with_keyset)
    # A call passes the keywords that it changes, so the kernel must do without those that have a default.
    always = ("dtype", "device") if "creation" in op.tags else ()
    fewest = {a.name: None for a in keyword_only if a.name in passed and (a.default is None or a.name in always)}
    try:
        signature.bind(*arguments, **{words.get(name, name): None for name in passed})
        signature.bind(*arguments, **{words.get(name, name): None for name in fewest})
    except TypeError as error:
        given = ["keys"] * registration.with_keyset + [a.name for a in positional]
        call = ", ".join(given + [f"{words.get(name, name)}=…" for name in passed])
        raise RegistrationError(
            f"the kernel's signature is {signature}, the operator is {schema}: called as kernel({call}): {error}"
        ) from None
    registration.function = taking(function, words)


def words_of_python(schema: OpSchema, parameters: Container[str]) -> dict[str, str]:
    """Returns the keyword-only arguments that no parameter can be called, ``from``, to what it is called: ``from_``.

    Args:
        schema: of the operator.
        parameters: the names that a function has for its parameters.
    """
    names = [a.name for a in schema.keyword_only if keyword.iskeyword(a.name)]
    return {name: f"{name}_" for name in names if f"{name}_" in parameters}


def taking(function: Callable[..., Any], words: Mapping[str, str]) -> Callable[..., Any]:
    """Returns a function that is given keywords by their names in a schema; the function itself where none differ."""
    if not words:
        return function

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{words.get(name, name): value for name, value in kwargs.items()})

    kernel.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
    kernel.__module__ = getattr(function, "__module__", None) or __name__
    return kernel


def _takes_anything(function: Any) -> bool:
    """Whether a function is written ``(*args, **keywords)``."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return False
    star, stars = 0x04, 0x08  # CO_VARARGS and CO_VARKEYWORDS
    return not code.co_argcount and not code.co_kwonlyargcount and bool(code.co_flags & star and code.co_flags & stars)
