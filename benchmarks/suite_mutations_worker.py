"""Runs the suite on one device and says whether anything failed; ``suite_mutations.py`` has it done over a mutation.

Every run has a process of its own, forked from one that has imported this module and with it all of the suite; what
can be mutated is imported afterwards.
"""

from __future__ import annotations

import builtins
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import chain
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import array_api_strict
import numpy
from array_api_strict import _array_object

import tensorplay as tp
from tensorplay_core.testing.suite import checks
from tensorplay_core.testing.suite.outcome import FAILED, Gaps
from tensorplay_core.testing.suite.subject import Subject, operators

MUTATED = ("tensorplay_composite", "tensorplay_cpu")
"""What a mutation may be in."""
LOADING = "loading"
"""What is reached before the first operator is checked."""
STRICT = "strict"
"""The devices over array-api-strict: no NumPy spellings, arrays that count as immutable, and :func:`loosened`."""
NARROW = "narrow"
"""A device over the same with dtypes of 32 bits and fewer, as a module of another name and :func:`unraising`."""
FIXED = "fixed"
"""A device over NumPy whose arrays must not be written to, though they have strides, and zeros among them."""
NARROW_DTYPES = ("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "complex64")

SLOWEST, FEW = ("index_backward", "large"), 3
"""What takes those without a scatter two thirds of the time: left out where more than a few are checked."""


def answer(sending: Connection, folder: str, base: str, asked: dict[str, Any]) -> None:
    """Runs what was asked for over the packages of two folders, the first of which may hold a changed one.

    It sends ``failed``, empty where nothing did, ``reached``, the places of the package's source that each operator
    came through, where the package tells them, and ``seconds``, the processor time that it took. The process ends
    where that is more than it was given.
    """
    if asked["seconds"]:
        resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"]))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    early = [name for name in sys.modules if name.partition(".")[0] in MUTATED]
    assert not early, f"{early[0]} was imported before it could be changed"
    sys.path[:0] = [folder, base]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, base])
    os.chdir(folder)
    reached: set[str] = set()
    builtins.__reached__ = reached.add  # type: ignore[attr-defined]
    found: dict[str, list[str]] = {}
    try:
        failed = run(asked, reached, found)
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    sending.send({"failed": failed, "reached": found, "seconds": time.process_time()})


def run(asked: dict[str, Any], reached: set[str], found: dict[str, list[str]]) -> str:
    """Runs what was asked for until something fails, which is returned."""
    name = asked["device"]
    if name == STRICT:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever ignores warnings while a device is made, may not later
            tp.backends.from_namespace(loosened(), STRICT, device_count=2)
    elif name == NARROW:
        xp = unraising(loosened())
        tp.backends.from_namespace(xp, NARROW, dtypes={name: getattr(xp, name) for name in NARROW_DTYPES})
    elif name == FIXED:
        tp.backends.from_namespace(numpy, FIXED, mutable=False)
    subject = Subject(name, seed=asked["seed"], quick=asked["quick"], profile=checks.profile_of(name))
    tp.zeros(2, device=name) + 1  # what is made at first use is made
    gaps, known = Gaps(subject.profile), operators()
    found[LOADING] = sorted(reached)
    wanted = [*checks.ON_THE_DEVICE, *known] if asked["names"] is None else asked["names"]
    for one in wanted:
        reached.clear()
        if one in checks.ON_THE_DEVICE:
            outcomes = checks.check_device(one, subject, gaps)
        else:
            steps = checks.steps({one: known[one]}, device=False, quick=subject.quick)
            if name in (STRICT, NARROW) and len(wanted) > FEW:
                steps = [step for step in steps if step != SLOWEST]
            outcomes = chain.from_iterable(checks.check(known[one], area, subject, gaps) for _, area in steps)
        for outcome in outcomes:
            if outcome.status == FAILED:
                where = " ".join(part for part in (outcome.operator, outcome.area, outcome.dtype) if part)
                return f"{where}: {outcome.what}"
        found[one] = sorted(reached)
    return ""


def loosened() -> Any:
    """Returns array-api-strict with what the standard leaves open done otherwise than by NumPy, which it is made of.

    NumPy refuses an index that is out of range in ``x[i]`` and ``take``, which counts a negative one from the end; it
    lets a slice reach out of an array, and an array be written to; ``reshape`` takes every negative size for -1, and
    reductions an axis of an array of 0 dims; NaN is the largest and the smallest to ``argmax`` and ``argmin``; integers
    are shifted by any number of bits. The standard promises none of that, so the kernels must do without.
    """
    refusing, taking, shaping = _array_object.Array.__getitem__, array_api_strict.take, array_api_strict.reshape

    def clipping(self: Any, key: Any) -> Any:
        if isinstance(key, tuple):
            sized = [*with_sizes(key, self.shape)]
            parts = [(i, n) for i, n in sized if i.__class__ is slice]
            if any(not -n <= (end or 0) <= n for i, n in parts for end in (i.start, i.stop)):
                raise IndexError(f"{key} reaches out of {self.shape}")
            key = tuple(min(max(i, -n), n - 1) if i.__class__ is int and n else i for i, n in sized)
        return refusing(self, key)

    def writing(self: Any, key: Any, value: Any) -> None:
        raise TypeError("the arrays of this module are not written to")

    def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
        last = x.shape[axis or 0] - 1
        inside = numpy.clip(indices._array, 0, max(last, 0)) if last >= 0 else indices._array
        return taking(x, x._new(inside, device=x.device), axis=axis)

    def reshape(x: Any, /, shape: Any, **options: Any) -> Any:
        if min(shape, default=0) < -1:
            raise ValueError(f"no size is {min(shape)}")
        return shaping(x, shape, **options)

    def with_dims(function: Any) -> Any:
        def called(x: Any, /, *args: Any, axis: Any = None, **options: Any) -> Any:
            if axis not in (None, ()) and not x.ndim:
                raise ValueError(f"an array of 0 dims has no axis {axis}")
            return function(x, *args, axis=axis, **options)

        return called

    def skipping(function: Any, last: float) -> Any:
        def called(x: Any, /, **options: Any) -> Any:
            x = array_api_strict.where(array_api_strict.isnan(x), last, x) if "float" in str(x.dtype) else x
            return function(x, **options)

        return called

    def wrapping(function: Any) -> Any:
        def called(x: Any, count: Any, /) -> Any:
            most = array_api_strict.asarray(array_api_strict.iinfo(x.dtype).bits - 1, dtype=count.dtype)
            return function(x, array_api_strict.bitwise_and(count, most))

        return called

    for name, last in (("argmax", -numpy.inf), ("argmin", numpy.inf)):
        setattr(array_api_strict, name, skipping(getattr(array_api_strict, name), last))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        setattr(array_api_strict, name, wrapping(getattr(array_api_strict, name)))
    for name in ("all", "any", "argmax", "argmin", "flip", "max", "mean", "min", "prod", "sum"):
        setattr(array_api_strict, name, with_dims(getattr(array_api_strict, name)))
    _array_object.Array.__getitem__ = clipping  # type: ignore[method-assign]
    _array_object.Array.__setitem__ = writing  # type: ignore[method-assign]
    array_api_strict.reshape = reshape
    array_api_strict.take = take
    return array_api_strict


def with_sizes(key: tuple[Any, ...], shape: tuple[int, ...]) -> Iterator[tuple[Any, int]]:
    """Yields each item of an index with the size of the dim that it is for; 0 where it is for none."""
    count, sizes = sum(item is not None and item is not ... for item in key), iter(shape)
    for item in key:
        if item is ...:
            for _ in range(len(shape) - count):
                next(sizes)
        yield item, 0 if item is None or item is ... else next(sizes, 0)


def unraising(xp: Any) -> Any:
    """Returns a module with the functions of array-api-strict, and a ``linalg`` that gives NaN instead of raising.

    Of a matrix that has no inverse or no factor JAX says so by NaN, and by nothing else; and its Cholesky factor is
    that of both triangles, of which each is half. It has no version of its own.
    """
    made, linalg = ModuleType(NARROW), ModuleType(f"{NARROW}.linalg")
    for target, source in ((made, xp), (linalg, xp.linalg)):
        vars(target).update({name: value for name, value in vars(source).items() if not name.startswith("__")})
    made.__array_namespace_info__ = xp.__array_namespace_info__  # type: ignore[attr-defined]

    def one_by_one(function: Any) -> Any:
        def called(a: Any, *rest: Any, **options: Any) -> Any:
            try:
                return function(a, *rest, **options)
            except numpy.linalg.LinAlgError:
                if a.ndim == 2:
                    return xp.full((rest[0] if rest else a).shape, xp.nan, dtype=a.dtype)
                items = [[array[i, ...] for array in (a, *rest)] for i in range(a.shape[0])]
                return xp.stack([called(*item, **options) for item in items])

        return called

    def cholesky(a: Any, /, *, upper: bool = False) -> Any:
        turned = xp.matrix_transpose(a)
        return xp.linalg.cholesky((a + (xp.conj(turned) if "complex" in str(a.dtype) else turned)) / 2, upper=upper)

    for name, function in (("inv", xp.linalg.inv), ("solve", xp.linalg.solve), ("cholesky", cholesky)):
        setattr(linalg, name, one_by_one(function))
    made.linalg = linalg  # type: ignore[attr-defined]
    return made
