"""``custom_op``: a function becomes an operator, with its name in ``tp.ops`` and all that operators have.

The function is the operator's kernel at Composite, explicit: it runs below autograd, with tensors, on any device.
Whoever runs the definition again (a notebook cell) replaces what was there; another signature or another module under
the same name is an error that names both places.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.operator import Operator, location
from tensorplay_core.errors import ArgumentError, RegistrationError, SchemaError, fix
from tensorplay_core.ops.custom import registration
from tensorplay_core.ops.custom.autocast import autocast_at
from tensorplay_core.ops.custom.batching import vmap_at
from tensorplay_core.ops.custom.infer_schema import UNKNOWN, Reader, as_mutates
from tensorplay_core.ops.custom.kernels import Layout
from tensorplay_core.ops.custom.registration import DEFINITIONS, DeviceTypes, register_autograd, register_kernel
from tensorplay_core.ops.packets import OpOverload, overload_of
from tensorplay_core.types.dtype import DType

F = TypeVar("F", bound=Callable[..., Any])


class CustomOpDef:
    """An operator that :func:`custom_op` has defined: callable, and where its other parts are registered.

    It stays for the process, as the operator does.
    """

    __name__: str

    def __init__(self, op: Operator, library: Library, function: Callable[..., Any], tuples: frozenset[str]) -> None:
        """See the class; use :func:`custom_op`."""
        functools.update_wrapper(self, function)
        self._op = op
        self._lib = library
        self._init_fn = function
        self._layout = Layout(op, tuples)
        self._opoverload: OpOverload = overload_of(op)
        self._opoverload.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator."""
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: DeviceTypes, fn: F | None = None, /, *, override: bool = False) -> Any:
        """Registers an implementation for some device types; see :func:`~tensorplay.library.register_kernel`."""
        return register_kernel(self, device_types, fn, override=override)

    def register_fake(self, fn: F, /, *, override: bool = False) -> F:
        """Registers what the result is like; see :func:`~tensorplay.library.register_fake`."""
        registration.register_fake(self, fn, override=override)
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
        override: bool = False,
    ) -> None:
        """Registers the gradient; see :func:`~tensorplay.library.register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context, override=override)

    def register_autocast(self, device_type: str, cast_inputs: DType, *, override: bool = False) -> None:
        """Registers the dtype under autocast; see :func:`~tensorplay.library.register_autocast`."""
        frame = sys._getframe(1)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        owner = str(frame.f_globals.get("__name__"))
        autocast_at(self._op, device_type, cast_inputs, owner, where, None, override)

    def register_vmap(self, func: Any = None, *, override: bool = False) -> Any:
        """Registers the rule under ``vmap``; see :func:`~tensorplay.library.register_vmap`."""
        frame = sys._getframe(1)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        owner = str(frame.f_globals.get("__name__"))

        def register(rule: Any) -> Any:
            vmap_at(self._op, rule, owner, where, None, override)
            return rule

        return register if func is None else register(func)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        """Pickles and copies by name: there is one definition in a process."""
        return definition_of, (self._op.qualified_name,)

    def __repr__(self) -> str:
        """Names the operator."""
        return f"<CustomOpDef({self._op.qualified_name})>"


def definition_of(name: str) -> CustomOpDef:
    """Returns the definition of a name.

    Raises:
        ArgumentError: this process has not run it.
    """
    try:
        return DEFINITIONS[name]
    except KeyError:
        raise ArgumentError(
            f"custom operator {name} is not defined in this process" + fix("import the module that defines it first.")
        ) from None


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] = (),
) -> Callable[[Callable[..., Any]], CustomOpDef]: ...
@overload
def custom_op(
    name: str,
    fn: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] = (),
) -> CustomOpDef: ...
def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] = (),
) -> Callable[[Callable[..., Any]], CustomOpDef] | CustomOpDef:
    """Makes an operator of a function; a decorator, or called with the function.

    Args:
        name: ``"namespace::name"`` or ``"namespace::name.overload"``; the namespace is your project's name.
        fn: an annotated function of tensors and plain values. It may use anything, NumPy too: it runs below autograd.
        mutates_args: the names of the tensors that it writes to, ``"unknown"`` for all of them.
        device_types: the devices that it is for; None for all that have no kernel of their own.
        schema: the signature, ``"(Tensor x) -> Tensor"``, where the hints cannot say it.
        tags: the operator's tags, or one, such as ``"random"``.

    Raises:
        SchemaError: a hint has no counterpart in the schema language.
        RegistrationError: another module has defined the name, or this one has with another signature.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("doc_custom::scaled", mutates_args=())
        ... def scaled(x: tp.Tensor, by: float = 2.0) -> tp.Tensor:
        ...     return tp.from_numpy(x.numpy() * by)
        >>> scaled(tp.ones(2)), tp.ops.doc_custom.scaled(tp.ones(2), by=0.5)
        (tensor([2., 2.]), tensor([0.5000, 0.5000]))
    """
    names = sys._getframe(1).f_locals

    def define(function: Callable[..., Any]) -> CustomOpDef:
        return _define(
            name, function, as_mutates(mutates_args), device_types, schema, registration.as_tags(tags), names
        )

    return define if fn is None else define(fn)


def _define(
    name: str,
    function: Callable[..., Any],
    mutates: str | frozenset[str],
    device_types: DeviceTypes,
    schema: str | None,
    tags: tuple[str, ...],
    names: Mapping[str, Any],
) -> CustomOpDef:
    namespace, rest = registration.split_name(name)
    name = f"{namespace}::{rest}"
    if namespace == "tp":
        raise RegistrationError(
            f"{name}: the namespace tp is the built-in operators'"
            + fix("take your project's name, 'my_project::my_op'.")
        )
    if not callable(function):
        raise ArgumentError(f"{name}: custom_op takes a function, not {function!r}")
    if schema is None:
        reader = Reader(function, names)
        text, tuples = reader.schema(mutates), reader.tuples()
    else:
        text, tuples = _arguments_of(name, schema), frozenset[str]()
        _check_mutates(name, f"{name}{text}", mutates)
    where = location(function)
    before = DEFINITIONS.get(name)
    owner = getattr(function, "__module__", None) or "__main__"
    library = before._lib if before is not None and before._lib.owner == owner else Library(namespace, "FRAGMENT")
    library.owner = owner
    op = library.define_at(f"{name}{text}", where, tags=tags)
    definition = CustomOpDef(op, library, function, tuples)
    earlier = library.take()
    DEFINITIONS[name] = definition
    try:
        register_kernel(definition, device_types, function)
    except BaseException:
        if before is None:
            del DEFINITIONS[name]
            library.close()
        else:
            DEFINITIONS[name] = before
            library.give(earlier)
        raise
    for committed in reversed(earlier):  # the new kernels have replaced their own; what the cell no longer has goes
        committed.undo()
    return definition


def _arguments_of(name: str, schema: str) -> str:
    start = schema.find("(")
    if start < 0 or schema[:start].strip() not in ("", name, name.partition("::")[2]):
        raise SchemaError(f"{name}: schema= is the signature without a name, '(Tensor x) -> Tensor', not {schema!r}")
    return schema[start:]


def _check_mutates(name: str, text: str, mutates: str | frozenset[str]) -> None:
    from tensorplay_core.types.schema import parse_schema

    declared = frozenset(parse_schema(text).mutates)
    if mutates != UNKNOWN and mutates != declared:
        raise SchemaError(
            f"{name}: schema= says that {_listed(declared)} written to, mutates_args that {_listed(mutates)}: {text}"
            + fix("make them agree: Tensor(a!) x in the schema, 'x' in mutates_args.")
        )


def _listed(names: Iterable[str]) -> str:
    return f"{', '.join(sorted(names))} is" if names else "nothing is"
