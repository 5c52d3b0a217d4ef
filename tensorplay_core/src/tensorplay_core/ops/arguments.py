"""A call's arguments against its schema: checked, normalised, and searched for tensors.

The plan of an operator is read from its schema once. Everything here serves the slow path; on the fast path arguments
go to the kernel as they are, and whatever is wrong with them ends up here.
"""

from __future__ import annotations

import keyword
import numbers
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError, did_you_mean
from tensorplay_core.ops.generators import check_generator
from tensorplay_core.ops.shape_checks import as_int, as_ints
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import as_dtype, in_schema
from tensorplay_core.types.promotion import NOT_PROMOTED, SCALARS

if TYPE_CHECKING:
    from tensorplay_core.types.schema import Alias, Argument


class Spec(NamedTuple):
    """What a plan knows of one argument."""

    name: str
    kind: str
    optional: bool
    is_list: bool
    items_optional: bool
    sized: int | None
    default: Any
    required: bool


class Plan:
    """How an operator's arguments are read.

    Attributes:
        positional, keyword: its arguments.
        by_name: all of them.
        spelled: how those are written in Python whose name is a word of it: ``from_`` for ``from``.
        result_class: makes one value of several results.
        view: the result shares the memory of the first argument.
        writes: the first argument is written to.
        several_views: the result is a list of views of the first argument.
        written: the names of all arguments that are.
        takes_lists: there are lists of tensors among the positional ones.
        returns, returns_tensor: how many results there are; whether it is one, and a tensor.
        results: the types of the results, as text.
        returned: for each result the argument that it is, which was written to; None for a new value.
    """

    def __init__(self, op: Operator) -> None:
        """Reads the schema."""
        schema = op.schema
        self.positional = tuple(_spec(a) for a in schema.positional)
        self.keyword = tuple(_spec(a) for a in schema.keyword_only)
        self.by_name = {spec.name: spec for spec in (*self.positional, *self.keyword)}
        self.spelled = {f"{name}_": name for name in self.by_name if keyword.iskeyword(name)}
        first = schema.arguments[0] if schema.arguments else None
        self.several_views = schema.is_multi_view
        self.writes = first is not None and first.is_write
        self.written = tuple(a.name for a in schema.arguments if a.is_write)
        self.view = first is not None and first.alias is not None and not first.is_write
        self.tensor_positions = tuple(i for i, s in enumerate(self.positional) if s.kind == "Tensor")
        self.takes_lists = any(s.kind == "Tensor" and s.is_list for s in self.positional)
        self.returns = len(schema.returns)
        self.results = tuple(str(r.type) for r in schema.returns)
        self.returned = tuple(
            next((a.name for a in schema.arguments if a.is_write and r.alias and _shares(a.alias, r.alias)), None)
            for r in schema.returns
        )
        self.returns_tensor = [str(r.type) for r in schema.returns] == ["Tensor"]
        self.result_class = _result_class(op, tuple(r.name for r in schema.returns))


def _result_class(op: Operator, names: tuple[str | None, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Returns what makes the results of a call one value: a named tuple where the schema names them."""
    named = [name for name in names if name is not None]
    if len(named) < 2 or len(named) < len(names):
        return tuple
    results: Any = namedtuple(op.name, named)  # type: ignore[misc]
    return results._make


def _shares(one: Alias | None, other: Alias) -> bool:
    return one is not None and not set(one.before).isdisjoint(other.before)


def _dtypes(default: Any) -> Any:
    """Returns a default with dtypes in the place of their names."""
    if isinstance(default, tuple):
        return tuple(map(_dtypes, default))
    return in_schema(default) if isinstance(default, str) else default


def _spec(argument: Argument) -> Spec:
    type = argument.type
    default: Any = None if argument.default is None else argument.default.plain
    if type.base.value == "ScalarType":
        default = _dtypes(default)
    return Spec(
        name=argument.name,
        kind="int" if type.base.value == "SymInt" else type.base.value,
        optional=type.is_optional,
        is_list=type.is_list,
        items_optional=type.is_list and type.item.is_optional,
        sized=type.list_size,
        default=default,
        required=argument.default is None,
    )


def plan_of(op: Operator) -> Plan:
    """Returns an operator's plan, made at the first call."""
    plan = op.__dict__.get("plan")
    if plan is None:
        plan = op.__dict__["plan"] = Plan(op)
    return plan


def bind(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns all positional arguments, defaults filled in, and the keyword-only ones that were given.

    Raises:
        ArgumentError: one is missing, unexpected or given twice.
    """
    plan = plan_of(op)
    if len(args) > len(plan.positional):
        raise ArgumentError(
            f"{op.display_name}: takes {len(plan.positional)} positional arguments, got {len(args)}: {op.schema}"
        )
    positional = list(args)
    rest = {plan.spelled.get(name, name): value for name, value in kwargs.items()} if plan.spelled else dict(kwargs)
    for i, spec in enumerate(plan.positional):
        if spec.name in rest:
            if i < len(args):
                raise ArgumentError(f"{op.display_name}: argument {spec.name!r} is given twice")
            positional.append(rest.pop(spec.name))
        elif i >= len(args):
            if spec.required:
                raise ArgumentError(f"{op.display_name}: argument {spec.name!r} is missing: {op.schema}")
            positional.append(spec.default)
    for name in rest:
        if name not in plan.by_name:
            raise ArgumentError(
                f"{op.display_name}: unexpected argument {name!r}.{did_you_mean(name, plan.by_name)} {op.schema}"
            )
    return tuple(positional), rest


def normalise(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments in one canonical form; keywords that equal their default are left out.

    Raises:
        ArgumentError: an argument has the wrong type.
    """
    plan = plan_of(op)
    positional = tuple(
        [
            value
            if value.__class__ is Tensor and spec.kind == "Tensor" and not spec.is_list
            else _value(op, spec, value)
            for spec, value in zip(plan.positional, args, strict=True)
        ]
    )
    changed = {}
    for name, value in kwargs.items():
        spec = plan.by_name[name]
        if value is None and not spec.required and (spec.optional or spec.default is None):
            continue
        value = _value(op, spec, value)
        if spec.required or not (value.__class__ is spec.default.__class__ and value == spec.default):
            changed[name] = value
    return positional, changed


def _value(op: Operator, spec: Spec, value: Any) -> Any:
    if value is None:
        if spec.optional or (not spec.required and spec.default is None):
            return None
        if spec.is_list and not spec.required and spec.default == ():  # PyTorch's way to leave a list out
            return ()
        raise ArgumentError(f"{op.display_name}: {spec.name} must be {_wanted(spec)}, not None")
    if spec.kind == "Tensor":
        return _tensors(op, spec, value)
    if spec.kind == "int":
        if not spec.is_list:
            return as_int(op.display_name, value, spec.name)
        if spec.sized and not isinstance(value, (tuple, list)):
            return as_int(op.display_name, value, spec.name)
        return as_ints(op.display_name, value, spec.name)
    if not spec.is_list:
        return _one(op, spec, value)
    if spec.sized and not isinstance(value, (tuple, list)):
        one = _one(op, spec, value)
        return (one,) * spec.sized if spec.kind == "bool" else one
    if isinstance(value, (str, TensorBase)) or not hasattr(value, "__iter__"):
        raise ArgumentError(f"{op.display_name}: {spec.name} must be {_wanted(spec)}, not {type(value).__name__}")
    items = tuple([None if v is None and spec.items_optional else _one(op, spec, v) for v in value])
    if spec.kind == "bool" and spec.sized is not None and len(items) != spec.sized:  # sizes and dims the rules count
        raise ArgumentError(f"{op.display_name}: {spec.name} must be a list of {spec.sized} bools, not of {len(items)}")
    return items


def _one(op: Operator, spec: Spec, value: Any) -> Any:
    if spec.kind == "Scalar":
        number = python_scalar(value)
        if number is None:
            raise ArgumentError(f"{op.display_name}: {spec.name} must be a number, not {type(value).__name__}")
        return number
    if spec.kind == "ScalarType":
        return as_dtype(value)
    if spec.kind == "Device":
        return value if value.__class__ is Device else Device(value)
    if spec.kind == "float":
        if isinstance(value, numbers.Real):
            return float(value)
    elif spec.kind == "bool":
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return bool(value)
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
    elif spec.kind == "Generator":
        return check_generator(op.display_name, value)
    elif spec.kind != "str" or isinstance(value, str):
        return value
    raise ArgumentError(f"{op.display_name}: {spec.name} must be {_wanted(spec)}, not {value!r}")


def _wanted(spec: Spec) -> str:
    kind = {"int": "an int", "bool": "a bool", "float": "a float", "str": "a string"}.get(spec.kind, f"a {spec.kind}")
    return f"a list of {spec.kind}s" if spec.is_list else kind


def _tensors(op: Operator, spec: Spec, value: Any) -> Any:
    if spec.is_list:
        if isinstance(value, TensorBase) or not isinstance(value, (list, tuple)):
            raise ArgumentError(
                f"{op.display_name}: {spec.name} must be a list or tuple of tensors, not {type(value).__name__}"
            )
        return tuple([_tensor(op, spec, v, f"{spec.name}[{i}]") for i, v in enumerate(value)])
    return _tensor(op, spec, value, spec.name)


def _tensor(op: Operator, spec: Spec, value: Any, name: str) -> Any:
    if isinstance(value, TensorBase) or (value is None and spec.items_optional):
        return value
    number = python_scalar(value)
    alone = spec.is_list or spec.name in NOT_PROMOTED
    if number is None or op.promote in ("none", "keep", "sum", "index", "real") or alone:
        hint = " Convert it with tp.tensor(...)." if hasattr(value, "__array__") or isinstance(value, list) else ""
        raise ArgumentError(f"{op.display_name}: {name} must be a Tensor, not {type(value).__name__}.{hint}")
    return number


def python_scalar(value: Any) -> Any:
    """Returns a Python number for a Python or NumPy scalar, None for anything else.

    Example:
        >>> python_scalar(True), python_scalar(2.5), python_scalar("x")
        (True, 2.5, None)
    """
    if value.__class__ in SCALARS:
        return value
    if isinstance(value, SCALARS):
        return value.item() if hasattr(value, "item") else value  # numpy.float64 is a float
    if isinstance(value, TensorBase):
        return None
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
        return number if number.__class__ in SCALARS else None
    return None


def written_tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the tensors of a call that its operator writes to."""
    plan = plan_of(op)
    values = [v for spec, v in zip(plan.positional, args, strict=True) if spec.name in plan.written]
    return list(tensors_in((*values, *(v for name, v in kwargs.items() if name in plan.written)), {}))


def named_tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the tensors of a call with the names of their arguments: ``x``, ``xs[1]``."""
    pairs = [(spec.name, value) for spec, value in zip(plan_of(op).positional, args, strict=True)]
    found = []
    for name, value in [*pairs, *kwargs.items()]:
        several = isinstance(value, (list, tuple))
        for i, tensor in enumerate(tensors_in((tuple(value) if several else value,), {})):
            found.append((f"{name}[{i}]" if several else name, tensor))
    return found


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yields the tensors of a call, those in lists too."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, TensorBase):
            yield value
        elif value.__class__ is tuple:
            for item in value:
                if isinstance(item, TensorBase):
                    yield item
