"""``functional_call``: an object with tensors for attributes, called as if some of them were others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from tensorplay_core.errors import ArgumentError, ShapeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor, TensorBase

Tensors = Mapping[str, Tensor]


def _owner(module: Any, path: str) -> tuple[Any, str]:
    """Returns the object that has an attribute, and the attribute's name, given a path such as ``layers.0.weight``."""
    *parents, name = path.split(".")
    owner = module
    for part in parents:
        try:
            owner = owner[int(part)] if part.isdigit() and hasattr(owner, "__getitem__") else getattr(owner, part)
        except (AttributeError, IndexError, KeyError) as error:
            raise ArgumentError(f"functional_call: {type(module).__name__} has no {path!r}: {error}") from None
    return owner, name


def _get(module: Any, path: str) -> Any:
    """Returns what is at a path, where it can be replaced."""
    owner, name = _owner(module, path)
    if name.isdigit() and isinstance(owner, tuple):
        raise ArgumentError(
            f"functional_call: {path} of {type(module).__name__} is in a tuple, where nothing can be replaced"
            + fix("keep these tensors in a list.")
        )
    if name.isdigit() and isinstance(owner, list) and int(name) < len(owner):
        return owner[int(name)]
    if not hasattr(owner, name):
        known = [key for key, value in getattr(owner, "__dict__", {}).items() if isinstance(value, TensorBase)]
        raise ArgumentError(
            f"functional_call: {type(module).__name__} has no {path!r}.{did_you_mean(name, known)}"
            + fix("name the attributes that are tensors, as in {'weight': w}.")
        )
    return getattr(owner, name)


def _set(module: Any, path: str, value: Any) -> None:
    owner, name = _owner(module, path)
    if name.isdigit() and isinstance(owner, list):
        owner[int(name)] = value
    else:
        setattr(owner, name, value)


@contextmanager
def _replaced(module: Any, tensors: Tensors) -> Iterator[None]:
    before = {path: _get(module, path) for path in tensors}
    try:
        for path, value in tensors.items():
            _set(module, path, value)
        yield
    finally:
        for path, value in before.items():
            _set(module, path, value)


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls an object as if some of the tensors in it were others; afterwards it is as it was, whatever was raised.

    Args:
        module: anything that can be called and keeps its tensors in attributes; of its own, of objects in attributes
            (``"encoder.weight"``), or in lists (``"layers.0.weight"``).
        parameter_and_buffer_dicts: the tensors by such paths; a sequence of dicts is as all of them together.
        args: its arguments; a value that is no tuple is the only one.
        kwargs: its keyword arguments.
        tie_weights: a tensor that the object has in several places is replaced in all of them.
        strict: refuse to call the object with a tensor of its own that is not given.

    Raises:
        ArgumentError: the object has no such attribute, it is given twice, or ``strict`` misses one.

    Example:
        >>> import tensorplay as tp
        >>> class Line:
        ...     def __init__(self):
        ...         self.weight, self.bias = tp.ones(2), tp.zeros(1)
        ...
        ...     def __call__(self, x):
        ...         return x @ self.weight + self.bias
        >>> line, x = Line(), tp.tensor([[1.0, 2.0]])
        >>> tp.func.functional_call(line, {"weight": tp.tensor([10.0, 1.0])}, x)
        tensor([12.])
        >>> tp.func.grad(lambda w: tp.func.functional_call(line, w, x).sum())({"weight": line.weight})
        {'weight': tensor([1., 2.])}
    """
    several = parameter_and_buffer_dicts
    dicts = [several] if isinstance(several, Mapping) else list(several)
    if not callable(module):
        raise ArgumentError(f"functional_call: {type(module).__name__} cannot be called")
    tensors: dict[str, Any] = {}
    for one in dicts:
        if twice := sorted(tensors.keys() & one.keys()):
            raise ArgumentError(f"functional_call: {', '.join(twice)} is given twice")
        tensors.update(one)
    if tie_weights:
        tensors = {**_tied(module, tensors), **tensors}
    missing = [path for path, _ in named_tensors(module) if path not in tensors] if strict else []
    if missing:
        raise ArgumentError(
            f"functional_call: strict=True, and {', '.join(missing)} of {type(module).__name__} is not given"
            + fix("give every tensor; or leave strict out, and the others stay what they are.")
        )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, tensors):
        return module(*arguments, **(kwargs or {}))


def _tied(module: Any, tensors: Tensors) -> dict[str, Any]:
    """Returns what stands for tensors that are found elsewhere in the object, too."""
    by_tensor = {id(_get(module, path)): value for path, value in tensors.items()}
    return {path: by_tensor[id(t)] for path, t in named_tensors(module) if id(t) in by_tensor}


def named_tensors(module: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors in an object's attributes with their paths, those in lists and in objects within it too."""
    seen: set[int] = set()

    def visit(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
        if isinstance(value, Tensor):
            yield path, value
        elif id(value) not in seen and isinstance(value, (list, tuple)):
            seen.add(id(value))
            for i, item in enumerate(value):
                yield from visit(item, f"{path}.{i}" if path else str(i))
        elif (
            id(value) not in seen
            and hasattr(value, "__dict__")
            and not isinstance(value, (type, ModuleType, FunctionType))
        ):
            seen.add(id(value))
            for name, item in vars(value).items():
                yield from visit(item, f"{path}.{name}" if path else name)

    yield from visit(module, "")


def stack_module_state(modules: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns the tensors of several alike objects, stacked along a new first dim, for an ensemble under ``vmap``.

    Args:
        modules: objects of one class, with tensors of the same shapes.

    Returns:
        Those that require grad, and the others, by path; the first require grad.

    Raises:
        ArgumentError, ShapeError: there is none, or they are not alike.
    """
    if not modules:
        raise ArgumentError("stack_module_state: there is no module" + fix("pass at least one."))
    if len({type(module) for module in modules}) > 1:
        raise ArgumentError("stack_module_state: the modules are of several classes")
    states = [dict(named_tensors(module)) for module in modules]
    if any(state.keys() != states[0].keys() for state in states):
        raise ArgumentError("stack_module_state: the modules have different tensors")
    parameters, buffers = {}, {}
    for path, first in states[0].items():
        shapes = {state[path].shape for state in states}
        if len(shapes) > 1:
            raise ShapeError(f"stack_module_state: {path} has several shapes: {', '.join(map(str, sorted(shapes)))}")
        stacked = F.stack([state[path].detach() for state in states], 0)
        if first.requires_grad:
            parameters[path] = stacked.requires_grad_()
        else:
            buffers[path] = stacked
    return parameters, buffers
