"""The device under test: its dtypes, its operators, and where the random inputs of a run come from.

A run is fixed by its seed, so what it finds can be found again; each operator, area and dtype draws from a stream of
its own, so that running one of them alone gives the same inputs.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensorplay_core import public
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import PAGE
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, BackendError, did_you_mean, fix
from tensorplay_core.testing.suite.given import place
from tensorplay_core.testing.suite.outcome import Profile
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import by_name

QUICK = ("float32", "float16", "int32", "uint8", "bool", "complex64")
"""The dtypes of a quick run; where a device has none of a kind, its first dtype of that kind stands in their place."""
BITS = 32
"""A seed's bits: short enough to be typed again."""


class Subject:
    """A device under test.

    Args:
        name: the device type, which is the backend's name.
        seed: what the random inputs are drawn from; None draws one.
        quick: fewer dtypes and samples.
        profile: what its backend declares.

    Attributes:
        tp: the public names, as ``import tensorplay as tp`` gives them.
        api: the device's own API.
        dtypes: the names of the dtypes that it has.
        integer: the dtype of indices and of sums of integers: int64, or the widest signed one where it has no int64.
        place: how a tensor's device reads.

    Raises:
        DeviceUnavailable, BackendError: the device cannot be used here.
        ArgumentError: the seed is no integer, or the profile names what does not exist.
    """

    tp: Any = public

    def __init__(
        self, name: str, *, seed: int | None = None, quick: bool = False, profile: Profile | None = None
    ) -> None:
        """Loads the device."""
        if seed is not None and seed.__class__ is not int:
            raise ArgumentError(f"the seed of a run is an integer, not {seed!r}")
        if profile is not None and not isinstance(profile, Profile):
            raise ArgumentError(f"PROFILE must be a Profile, not {type(profile).__name__}")
        self.device, self.quick, self.profile = name, quick, profile or Profile()
        self.seed = secrets.randbits(BITS) if seed is None else seed
        self.place = place(name)
        self._read()
        self.profile.check_names([*operators()], self.dtypes)

    def _read(self) -> None:
        api = devices.entry(self.device).api
        self.dtypes = tuple(one.name for one in dt.ALL if one.name in api.dtypes)
        if not self.dtypes:
            what = f"device {self.device!r} has none of TensorPlay's dtypes: {', '.join(one.name for one in dt.ALL)}"
            raise BackendError(
                f"{what}; its own are {[*api.dtypes]}" + fix(f"name them so in dtypes of {type(api).__name__}.")
            )
        self.mutable, self.views = api.mutable, api.views
        signed = [one for one in dt.ALL if one.kind == "i" and one.name in self.dtypes]
        self.integer = "int64" if "int64" in self.dtypes or not signed else max(signed, key=lambda d: d.itemsize).name

    @property
    def api(self) -> Any:
        """The device's API, that of now: the backend may have been loaded again."""
        return devices.entry(self.device).api

    @property
    def checked_dtypes(self) -> tuple[str, ...]:
        """The dtypes that forward checks go through."""
        if not self.quick:
            return self.dtypes
        kinds = {_kind(name): name for name in (*self.dtypes[::-1], *QUICK) if name in self.dtypes}
        return tuple(name for name in self.dtypes if name in QUICK or name == kinds[_kind(name)])

    def kernel(self, op: Operator) -> Registration | None:
        """Returns the device's own kernel of an operator; None where it is left to Composite."""
        kind = public.zeros(1, dtype=by_name(self.dtypes[0]), device=self.device)._type
        return op.kernel_at(PAGE * kind.page + kind.key)

    def rng(self, *what: str) -> random.Random:
        """Returns the stream of random numbers of one check."""
        return random.Random(f"{self.seed} {' '.join(what)}")

    def has(self, *dtypes: str) -> bool:
        """Whether the device has all of these dtypes."""
        return all(name in self.dtypes for name in dtypes)


def _kind(dtype: str) -> str:
    return by_name(dtype).kind.replace("u", "i")  # one kind of integers stands for both


def operators() -> dict[str, Operator]:
    """Returns the operators of the contract by name; in-place variants go with the operator they are a form of."""
    return {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp" and op.functional is None}


def inplace_of(op: Operator) -> Operator | None:
    """Returns the in-place variant of an operator, or None."""
    found = REGISTRY.operators.get(f"tp::{op.name}_{'.' + op.overload if op.overload else ''}")
    return found if found is not None and found.functional is op else None


def chosen(names: tuple[str, ...]) -> dict[str, Operator]:
    """Returns the operators of some names, all where there are none; ``add_`` means ``add``, ``max`` its overloads too.

    Raises:
        ArgumentError: there is no such operator; the message offers the nearest.
    """
    known = operators()
    if not names:
        return known
    found: dict[str, Operator] = {}
    for name in names:
        plain = name if name in known else name.removesuffix("_")
        match = {one: op for one, op in known.items() if one == plain or one.partition(".")[0] == plain}
        if not match:
            raise ArgumentError(f"there is no operator {name!r}.{did_you_mean(name, known)}")
        found |= match
    return found


@contextmanager
def strict() -> Iterator[None]:
    """A scope in which a missing kernel is an error, whatever ``TENSORPLAY_FALLBACK`` says: no cpu stands in."""
    from tensorplay_core.dispatch import fallbacks

    before, fallbacks.mode = fallbacks.mode, "raise"
    try:
        yield
    finally:
        fallbacks.mode = before
