"""Whose gradients a scaler unscales, and what steps: an optimizer, or a function with the parameters it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase


def step_and_target(optimizer: Any, kwargs: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
    """Returns what steps, and what has the parameters; ``parameters`` is taken out of the keywords."""
    if hasattr(optimizer, "param_groups") or hasattr(optimizer, "parameters"):
        if callable(getattr(optimizer, "step", None)):
            return optimizer.step, optimizer
    elif callable(optimizer):
        if "parameters" in kwargs:
            return optimizer, kwargs.pop("parameters")
        name = getattr(optimizer, "__name__", repr(optimizer))
        raise ArgumentError(
            f"step: whose gradients are to be unscaled before {name} is called?"
            + fix(f"name them: step({name}, parameters=[...]).")
        )
    raise ArgumentError(
        f"step: takes an object with step() and param_groups or parameters, not {type(optimizer).__name__}"
        + fix("or pass a function that changes the parameters, and parameters=[...].")
    )


def parameters_of(method: str, optimizer: Any) -> list[Tensor]:
    """Returns the parameters of an optimizer, or those that were given in its place."""
    if hasattr(optimizer, "param_groups"):
        found = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    elif isinstance(optimizer, TensorBase):
        found = [optimizer]
    else:
        own: Any = optimizer.parameters if hasattr(optimizer, "parameters") else optimizer
        own = own() if callable(own) else own
        own = own.values() if isinstance(own, Mapping) else own
        found = list(own) if isinstance(own, Iterable) else [own]
    for one in found:
        if not isinstance(one, TensorBase):
            raise ArgumentError(
                f"{method}: parameters are tensors, and {one!r} is none"
                + fix("pass an optimizer with param_groups, or an iterable of tensors.")
            )
    return found
