"""Dispatch keys and their arithmetic, and pages: how any number of third-party devices gets keys.

The numbers are public and fixed. A larger number has priority, and a derived key is arithmetic on the backend key. The
five backend keys are taken by name; every other device gets a page, where the key of step ``s`` is ``32 * page + s``.
"""

from __future__ import annotations

import threading
from enum import IntEnum

from tensorplay_core.errors import RegistrationError, did_you_mean


class DispatchKey(IntEnum):
    """The keys of page 0, which are the steps of every page."""

    CPU = 0
    CUDA = 1
    Vulkan = 2
    Sparse = 3
    Meta = 4
    Python = 5
    DynamicLayerBackMode = 6
    AutogradCPU = 7
    AutogradCUDA = 8
    AutogradVulkan = 9
    AutogradSparse = 10
    AutogradMeta = 11
    AutocastCPU = 12
    AutocastCUDA = 13
    AutocastVulkan = 14
    AutocastSparse = 15
    AutocastMeta = 16
    VmapCPU = 17
    VmapCUDA = 18
    VmapVulkan = 19
    VmapSparse = 20
    VmapMeta = 21
    Composite = 22
    VmapMode = 23
    DynamicLayerFrontMode = 24
    EndOfKeys = 25


PAGE = 32
BACKENDS = 5
OFFSETS: dict[str, int] = {"Autograd": 7, "Autocast": 12, "Vmap": 17}
FAMILIES: dict[str, int] = {name: 0b11111 << offset for name, offset in OFFSETS.items()}
"""The bitmap of all steps of a family; excluding a family excludes all of them."""
AUTOGRAD = FAMILIES["Autograd"]
SHARED = ("Autograd", "Autocast", "Vmap", "Python")
"""Slots of an operator that serve every device; an exact key overrides them."""
MODES = (DispatchKey.DynamicLayerBackMode, DispatchKey.VmapMode, DispatchKey.DynamicLayerFrontMode)
EVERYWHERE = frozenset({int(DispatchKey.Python), *map(int, MODES)})
"""Keys that are the same on every page: they belong to no device."""

_BUILT_IN = {"cpu": DispatchKey.CPU, "cuda": DispatchKey.CUDA, "vulkan": DispatchKey.Vulkan, "meta": DispatchKey.Meta}
_pages: dict[str, int] = {}
_lock = threading.Lock()


def assign_page(device_type: str) -> int:
    """Returns the page of a device, giving it the next free one at the first call.

    Pages are never renumbered nor reused in a process, and never leave it: names are pickled, not numbers.

    Raises:
        RegistrationError: the name of the device's backend key is taken, as for a device called ``python``.

    Example:
        >>> assign_page("cuda")
        0
    """
    if device_type in _BUILT_IN:
        return 0
    if (name := device_type.capitalize()) in DispatchKey.__members__ or name in SHARED:
        raise RegistrationError(f"no device can be called {device_type!r}: {name} is a dispatch key of another meaning")
    with _lock:
        return _pages.setdefault(device_type, len(_pages) + 1)


def pages() -> dict[str, int]:
    """Returns the devices that have a page of their own, with its number."""
    return dict(_pages)


def device_of_page(page: int) -> str | None:
    """Returns the device type that has a page; None for page 0, which is the built-in ones'."""
    return next((device_type for device_type, number in _pages.items() if number == page), None)


def backend_key(device_type: str) -> int:
    """Returns the backend key of a device: 0–4 for the built-in ones, step 0 of its page for any other."""
    known = _BUILT_IN.get(device_type)
    return int(known) if known is not None else PAGE * assign_page(device_type)


def family_of(step: int) -> str | None:
    """Returns ``"Autograd"``, ``"Autocast"`` or ``"Vmap"`` for a functional step, None for any other.

    Example:
        >>> family_of(7), family_of(16), family_of(3)
        ('Autograd', 'Autocast', None)
    """
    for family, offset in OFFSETS.items():
        if offset <= step < offset + BACKENDS:
            return family
    return None


def _prefixes(device_type: str) -> dict[str, int]:
    name = device_type.capitalize()
    return {
        name: 0,
        f"Sparse{name}": int(DispatchKey.Sparse),
        **{f"{family}{name}": offset for family, offset in OFFSETS.items()},
        **{f"{family}Sparse{name}": offset + DispatchKey.Sparse for family, offset in OFFSETS.items()},
    }


def key_name(key: int) -> str:
    """Returns the name of a key on any page, such as ``AutogradCPU`` or ``AutogradLoopback``."""
    page, step = divmod(key, PAGE)
    if (page == 0 or step in EVERYWHERE) and step <= DispatchKey.EndOfKeys:
        return DispatchKey(step).name
    for device_type, number in _pages.items():
        if number == page:
            for name, offset in _prefixes(device_type).items():
                if offset == step:
                    return name
    return f"page{page}:{step}"


def valid_names() -> list[str]:
    """Returns every name that :func:`parse_key` takes now."""
    names = [key.name for key in DispatchKey if key is not DispatchKey.EndOfKeys]
    names += [*SHARED[:3], *_BUILT_IN, *_pages]
    return names + [name for device_type in _pages for name in _prefixes(device_type)]


def parse_key(name: str | int) -> int | str:
    """Returns the table slot that a name means: a key's number, or the name of a shared slot.

    Raises:
        RegistrationError: there is no such key; the message offers the nearest names.

    Example:
        >>> parse_key("AutogradCPU"), parse_key("cuda"), parse_key("Autograd")
        (7, 1, 'Autograd')
    """
    if isinstance(name, int):
        known = 0 <= name < PAGE * (len(_pages) + 1) and name % PAGE < DispatchKey.EndOfKeys
        if isinstance(name, bool) or not known:
            raise RegistrationError(f"there is no dispatch key of number {name!r}; pass a key's name")
        return int(name)
    if name in SHARED:
        return name
    if name in DispatchKey.__members__ and name != "EndOfKeys":
        return int(DispatchKey[name])
    if name in _BUILT_IN or name in _pages:
        return backend_key(name)
    for device_type, page in _pages.items():
        if (step := _prefixes(device_type).get(name)) is not None:
            return PAGE * page + step
    near = did_you_mean(name, valid_names()) or (
        " A key is a device's type, once its backend is installed, or a name that 'tensorplay ops keys' lists."
    )
    raise RegistrationError(f"there is no dispatch key {name!r}.{near}")


def slot_name(slot: int | str) -> str:
    """Returns the name of a table slot: a key's, or the shared slot's own."""
    return slot if isinstance(slot, str) else key_name(slot)
