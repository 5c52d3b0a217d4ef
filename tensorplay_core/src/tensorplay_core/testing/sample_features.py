"""What samples try that goes wrong in practice, and the samples that a table leaves out.

A gradient is right only if it is right for tensors without dims, without elements, with gaps in memory, with equal
elements and zeros. A table of samples need not think of all of these: where no sample of an operator has equal
elements, zeros or gaps, one is derived from those that it has.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Described
from tensorplay_core.testing.sample_specs import PYTHON, Sample, TensorSpec, nest
from tensorplay_core.types.dtype import by_name
from tensorplay_core.types.schema import Argument, BaseType

FEATURES = ("0-d", "empty", "broadcast", "strided", "ties", "zeros", "negative dim")
OF_MEMORY = frozenset({"as_strided", "as_strided_scatter"})
"""Operators whose result is of the memory of a tensor, gaps included, not of its elements alone."""
HERMITIAN = frozenset({"linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh"})
"""Operators on Hermitian matrices that read one triangle and have the gradient of both: a step of a difference must
keep a matrix Hermitian."""
_TIES = (0, 1, 1, 2)
_ENOUGH = 6  # elements of the sample that others are derived from


def in_domain(op: Described, args: list[Any]) -> list[Any]:
    """Returns a call's arguments where its operator is defined: a matrix as a Hermitian one."""
    if op.schema.name in HERMITIAN:
        x = args[0].transpose(-2, -1)
        args[0] = (args[0] + (x.conj() if x.is_complex() else x)) / 2
    return args


def names_dims(argument: Argument) -> bool:
    """Whether an argument is a dim or a list of them."""
    name = argument.name
    named = "dim" in name.split("_") or name in ("dims", "dim0", "dim1", "source", "destination")
    return named and argument.type.base in (BaseType.INT, BaseType.SYMINT)


def completed(op: Described, found: Iterable[Sample]) -> Iterator[Sample]:
    """Yields samples, and after them those that they lack."""
    seen: set[str] = set()
    basis: Sample | None = None
    for sample in found:
        yield sample
        seen |= features(op, sample)
        if sample.smooth and _size(basis) < min(_size(sample), _ENOUGH):
            basis = sample
    if basis is None:
        return
    if "strided" not in seen and op.schema.name not in OF_MEMORY:
        yield _changed(basis, _spread)._replace(name="gaps in memory")
    if not {"ties", "zeros"} <= seen:
        yield _changed(basis, _tied)._replace(name="equal elements and zeros", smooth=False)


def _size(sample: Sample | None) -> int:
    sizes = [math.prod(spec.shape) for spec in specs(sample.args) if _is_inexact(spec)] if sample is not None else []
    return max(sizes, default=0)


def _spread(spec: TensorSpec) -> TensorSpec:
    """Returns a tensor with gaps between its rows; one row alone has none."""
    return spec._replace(layout="strided") if spec.shape and spec.shape[0] > 1 else spec


def _tied(spec: TensorSpec) -> TensorSpec:
    python = PYTHON[by_name(spec.dtype).kind]
    values = [python(_TIES[i % len(_TIES)]) for i in range(math.prod(spec.shape))]
    return spec._replace(data=nest(values, spec.shape), layout="c") if values else spec


def _changed(sample: Sample, change: Callable[[TensorSpec], TensorSpec]) -> Sample:
    def changed(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return change(value) if _is_inexact(value) else value
        return [changed(item) for item in value] if isinstance(value, list) else value

    return sample._replace(
        args=tuple(map(changed, sample.args)), kwargs={name: changed(value) for name, value in sample.kwargs.items()}
    )


def specs(values: Any) -> Iterator[TensorSpec]:
    """Yields the descriptions of tensors in nested values."""
    for value in values:
        if isinstance(value, TensorSpec):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from specs(value)


def elements(data: Any) -> Iterator[Any]:
    """Yields the numbers of nested lists."""
    if isinstance(data, list):
        for item in data:
            yield from elements(item)
    else:
        yield data


def is_finite(sample: Sample) -> bool:
    """Whether no tensor of a sample holds an infinity or NaN, where a gradient means nothing."""
    return all(
        cmath.isfinite(value)  # abs of a complex NaN may raise, see references/ieee.py
        for spec in specs((*sample.args, *sample.kwargs.values()))
        for value in elements(spec.data)
        if isinstance(value, (float, complex))
    )


def features(op: Described, sample: Sample) -> set[str]:
    """Returns which of :data:`FEATURES` a sample has."""
    found = set()
    tensors = [s for s in specs((*sample.args, *sample.kwargs.values())) if _is_inexact(s)]
    for spec in tensors:
        values = list(elements(spec.data))
        if spec.shape == ():
            found.add("0-d")
        if 0 in spec.shape:
            found.add("empty")
        if spec.layout != "c":
            found.add("strided")
        if len(set(values)) < len(values) and spec.layout != "expanded":
            found.add("ties")
        if any(value == 0 for value in values):
            found.add("zeros")
    if len({spec.shape for spec in tensors}) > 1:
        found.add("broadcast")
    given = [*zip(op.schema.positional, sample.args, strict=False)]
    given += [(a, sample.kwargs[a.name]) for a in op.schema.arguments if a.name in sample.kwargs]
    for argument, value in given:
        if names_dims(argument) and any(type(n) is int and n < 0 for n in elements(_listed(value))):
            found.add("negative dim")
    return found


def _is_inexact(spec: TensorSpec) -> bool:
    return by_name(spec.dtype).is_inexact


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) and not isinstance(value, TensorSpec) else value
