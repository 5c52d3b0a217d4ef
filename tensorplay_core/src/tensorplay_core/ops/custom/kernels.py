"""Kernels of custom operators: what is given to a user's function, and what is asked of its result.

The function gets every argument, lists as lists. Its result is compared with the schema at every call, because a result
that shares memory with an input, undeclared, would be a wrong gradient later: there is no error to find it by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.checks import taking, words_of_python
from tensorplay_core.dispatch.operator import Operator, location
from tensorplay_core.errors import KernelError, KernelMissing, NoDataError, RegistrationError, fix
from tensorplay_core.ops.arguments import Plan, named_tensors, plan_of, python_scalar, tensors_in
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import share_memory, version_of
from tensorplay_core.tensor.views import FUNCTION, is_part_of, relate

_NUMBERS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "SymInt": (int,),
    "bool": (bool,),
    "float": (float, int),
    "Scalar": (bool, int, float, complex),
}
_IN_WORDS = {
    "Tensor": "a Tensor",
    "Tensor[]": "a list of Tensors",
    "int": "an int",
    "SymInt": "an int",
    "bool": "a bool",
    "float": "a float",
    "Scalar": "a number",
}


class Layout:
    """How a user's functions see an operator's arguments and results.

    Args:
        op: the operator.
        tuples: the list arguments that are handed over as tuples, because the function's hints say so.
    """

    def __init__(self, op: Operator, tuples: frozenset[str] = frozenset()) -> None:
        """Reads the schema."""
        plan, self.op = plan_of(op), op
        self.plan: Plan = plan
        self.lists = tuple(i for i, spec in enumerate(plan.positional) if spec.is_list and spec.name not in tuples)
        self.keyword_lists = tuple(spec.name for spec in plan.keyword if spec.is_list and spec.name not in tuples)
        self.defaults = {spec.name: spec.default for spec in plan.keyword if not spec.required}
        self.returns = op.schema.returns
        self.returns_new = plan.returns_tensor and op.schema.returns[0].alias is None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the positional arguments as a user's function takes them."""
        if not self.lists:
            return args
        return tuple([list(v) if i in self.lists and v is not None else v for i, v in enumerate(args)])

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns all keyword-only arguments, those too that a call left at their default."""
        if not self.defaults and not kwargs:
            return kwargs
        found = {**self.defaults, **kwargs}
        for name in self.keyword_lists:
            found[name] = None if found[name] is None else list(found[name])
        return found


def bound(op: Operator, function: Callable[..., Any], role: str) -> Callable[..., Any]:
    """Returns a function as it can be called with all of an operator's arguments by their names in the schema.

    Raises:
        RegistrationError: they do not fit; with both signatures and the function's line.
    """
    import inspect  # here, because it costs a third of the import of the package

    if not callable(function):
        raise RegistrationError(f"{op.display_name}: a {role} is a callable, not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    schema = op.schema
    words = words_of_python(schema, signature.parameters)
    try:
        signature.bind(*schema.positional, **{words.get(a.name, a.name): a for a in schema.keyword_only})
    except TypeError as error:
        raise RegistrationError(
            f"{op.display_name}: the {role}'s signature is {signature} ({location(function)}), the operator is "
            f"{schema}: {error}" + fix("give the function the operator's arguments, in its order.")
        ) from None
    return taking(function, words)


def kernel(layout: Layout, function: Callable[..., Any], *, fake: bool = False) -> Callable[..., Any]:
    """Returns a user's function as a kernel on tensors.

    Args:
        layout: of the operator.
        function: what to run.
        fake: it tells only what the result is like, so the memory that it shares means nothing.
    """
    called = bound(layout.op, function, "fake" if fake else "kernel")

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            result = called(*layout.inputs(args), **layout.keywords(kwargs))
        except NoDataError as error:
            raise (_needs_data if fake else _no_fake)(layout.op, function) from error
        if not fake and layout.returns_new and result.__class__ is Tensor and _is_new(result, args, kwargs):
            return result
        result = _as_promised(layout, function, result, "fake" if fake else "kernel")
        if fake:
            return _told(layout, function, result)
        _check_memory(layout, function, result, args, kwargs)
        return result

    run.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
    run.__module__ = getattr(function, "__module__", None) or __name__
    return run


def _no_fake(op: Operator, function: Callable[..., Any]) -> KernelMissing:
    name = op.qualified_name
    return KernelMissing(
        f"{op.display_name}: its kernel ({location(function)}) needs the data of its arguments, which meta tensors lack"
        + fix(f'say what the result is like: @tp.library.register_fake("{name}"), on a function that returns it empty.')
    )


def _needs_data(op: Operator, function: Callable[..., Any]) -> NoDataError:
    return NoDataError(
        f"{op.display_name}: its fake ({location(function)}) asks for elements of a tensor, and meta tensors have none"
        + fix(
            "decide from shapes, dtypes and numbers alone; a result whose shape depends on elements cannot be told "
            "without them, so such an operator has no fake."
        )
    )


def _told(layout: Layout, function: Callable[..., Any], result: Any) -> Any:
    """Returns what a fake told, as tensors of their own: giving back the argument is a way of saying "like this"."""

    def own(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [own(item) for item in value]
        if not isinstance(value, TensorBase):
            return value
        if value._type.device.type != "meta":
            what = f"returned a tensor on {value._type.device}, where a fake's are on meta"
            raise wrong(layout.op, function, what, "make it like an argument, with tp.empty_like(x).", "fake")
        return wrap(value._array, value._type)

    if len(layout.returns) == 1:
        return result if layout.returns[0].alias is not None else own(result)
    pairs = zip(layout.returns, result, strict=True) if layout.returns else ()
    values = [value if promised.alias is not None else own(value) for promised, value in pairs]
    return layout.plan.result_class(values) if layout.returns else None


def wrong(op: Operator, function: Callable[..., Any], what: str, remedy: str, role: str = "kernel") -> KernelError:
    """Returns the error for a function that did not do what its operator's schema says."""
    name = getattr(function, "__name__", type(function).__name__)
    return KernelError(
        f"{op.display_name}: its {role} {name} ({location(function)}) {what}; the schema is {op.schema}" + fix(remedy)
    )


def _as_promised(layout: Layout, function: Callable[..., Any], result: Any, role: str) -> Any:
    """Returns a result whose number and classes are the schema's."""
    op, returns = layout.op, layout.returns
    if not returns:
        if result is not None:
            what, remedy = f"returned {_described(result)}", "return nothing, or annotate what it returns."
            raise wrong(op, function, what, remedy, role)
        return None
    if len(returns) == 1:
        return _one(layout, function, result, 0, role)
    if not isinstance(result, (tuple, list)) or len(result) != len(returns):
        raise wrong(op, function, f"returned {_described(result)}", f"return a tuple of {len(returns)}.", role)
    return layout.plan.result_class([_one(layout, function, value, i, role) for i, value in enumerate(result)])


def _one(layout: Layout, function: Callable[..., Any], value: Any, index: int, role: str) -> Any:
    type = layout.returns[index].type
    if type.base.value == "Tensor":
        if not type.is_list:
            if value.__class__ is Tensor or isinstance(value, TensorBase):
                return value
        elif isinstance(value, (list, tuple)) and all(isinstance(item, TensorBase) for item in value):
            return value
    else:
        number = python_scalar(value)
        if number.__class__ in _NUMBERS.get(type.base.value, ()):
            return number
    which = f" as result {index}" if len(layout.returns) > 1 else ""
    remedy = f"return {_IN_WORDS.get(str(type), f'a {type}')}."
    raise wrong(layout.op, function, f"returned {_described(value)}{which}", remedy, role)


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        strangers = [f"{_described(item)} at {i}" for i, item in enumerate(value) if not isinstance(item, TensorBase)]
        return f"a {type(value).__name__} of {len(value)}{f', with {strangers[0]}' if strangers else ''}"
    return "None" if value is None else type(value).__name__


# --------------------------------------------------------------------------------------------------------------- memory


def shared(a: Any, b: Any) -> bool:
    """Whether two tensors share memory, or are one."""
    return a is b or (a._type.api is b._type.api and a._type.api.may_alias(a._array, b._array))


def _is_new(result: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a result is of this call alone, its memory too; the usual case, told without words for another."""
    api, array = result._type.api, result._array
    return result._node is None and not any(
        t is result or (t._type.api is api and api.may_alias(t._array, array)) for t in tensors_in(args, kwargs)
    )


def undeclared_alias(
    op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str] | None:
    """Returns what is wrong with the memory of an operator's results, and the remedy; None when all is declared."""
    inputs = named_tensors(op, args, kwargs)
    schema = op.schema
    results = result if len(schema.returns) > 1 else (result,) * len(schema.returns)
    fresh: list[tuple[str, Any]] = []
    for i, (promised, value) in enumerate(zip(schema.returns, results, strict=True)):
        whole = f"its result {i}" if len(schema.returns) > 1 else "its result"
        allowed = set(promised.alias.before) if promised.alias is not None else set()
        several = isinstance(value, (list, tuple))
        for place, tensor in enumerate(tensors_in((tuple(value) if several else value,), {})):
            which = f"item {place} of {whole}" if several else whole
            for name, other in inputs:
                argument = schema.argument(name.partition("[")[0])
                if argument is not None and argument.alias is not None and allowed & set(argument.alias.before):
                    continue
                if shared(tensor, other):
                    return _alias_of(op, which, name, tensor is other)
            if promised.alias is not None:
                continue
            for before, other in fresh:
                if shared(tensor, other):
                    return f"{which} shares memory with {before}", "clone() one of them before returning it"
            fresh.append((which, tensor))
    return None


def _alias_of(op: Operator, which: str, name: str, same: bool) -> tuple[str, str]:
    plain = name.partition("[")[0]
    what = f"{which} is the argument {name} itself" if same else f"{which} shares memory with the argument {name}"
    if (argument := op.schema.argument(plain)) is not None and argument.is_write:
        return what, "return a clone() of it, or nothing: the caller has the argument already"
    return what, f"return a clone() of it, or declare in schema= that it is a view: Tensor(a) {plain}, -> Tensor(a)"


def _check_memory(
    layout: Layout, function: Callable[..., Any], result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    op = layout.op
    found = undeclared_alias(op, result, args, kwargs)
    if found is not None:
        what, remedy = found
        raise wrong(op, function, f"is wrong: {what}", f"{remedy}.")
    results = result if len(layout.returns) > 1 else (result,)
    for promised, value in zip(layout.returns, results, strict=False):
        if promised.alias is None:
            _check_unrecorded(op, function, value)
            continue
        if not isinstance(value, TensorBase):
            continue
        for argument, tensor in _sharing(op, promised.alias.before, args, kwargs):
            if argument.is_write and value is not tensor:
                raise wrong(op, function, f"did not return its argument {argument.name}", f"return {argument.name}.")
            if not share_memory(value, tensor):
                _share(op, tensor, value, args, kwargs)


def _share(op: Operator, base: Any, view: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Makes a result a view of an argument if it is one; only that of the first can have its node made anew."""
    if is_part_of(base, view._array):
        view._version = version_of(base)
        first = bool(args) and base is args[0]
        relate(base, view, op, args[1:], kwargs, restricted="" if first else FUNCTION)


def _check_unrecorded(op: Operator, function: Callable[..., Any], value: Any) -> None:
    """Refuses what has a node already, which this call's would replace: the gradient of another call would be lost."""
    if op.composite == "implicit":  # its kernel is above Autograd, and what it calls records
        return
    for tensor in tensors_in((tuple(value) if isinstance(value, (list, tuple)) else value,), {}):
        if tensor._node is not None:
            what = "returned a tensor that requires grad already: one that another call has returned, or a leaf"
            raise wrong(op, function, what, "return a new tensor, or a detach().clone() of that one.")


def _sharing(
    op: Operator, sets: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[Any, Any]]:
    """Returns the arguments that are in an alias set, each with its tensor."""
    pairs = [(op.schema.argument(name), tensor) for name, tensor in named_tensors(op, args, kwargs)]
    return [(a, t) for a, t in pairs if a is not None and a.alias is not None and set(sets) & set(a.alias.before)]
