"""The numbers of the dispatch keys are public: they are typed out here, from the table of the design."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen import contract
from tensorplay_core.dispatch import keys
from tensorplay_core.dispatch.keys import DispatchKey, backend_key, family_of, key_name, parse_key
from tensorplay_core.errors import RegistrationError

NUMBERS = {
    "CPU": 0,
    "CUDA": 1,
    "Vulkan": 2,
    "Sparse": 3,
    "Meta": 4,
    "Python": 5,
    "DynamicLayerBackMode": 6,
    "AutogradCPU": 7,
    "AutogradCUDA": 8,
    "AutogradVulkan": 9,
    "AutogradSparse": 10,
    "AutogradMeta": 11,
    "AutocastCPU": 12,
    "AutocastCUDA": 13,
    "AutocastVulkan": 14,
    "AutocastSparse": 15,
    "AutocastMeta": 16,
    "VmapCPU": 17,
    "VmapCUDA": 18,
    "VmapVulkan": 19,
    "VmapSparse": 20,
    "VmapMeta": 21,
    "Composite": 22,
    "VmapMode": 23,
    "DynamicLayerFrontMode": 24,
    "EndOfKeys": 25,
}
BACKENDS = ("CPU", "CUDA", "Vulkan", "Sparse", "Meta")


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_number(name, number):
    assert DispatchKey[name] == number
    assert key_name(number) == name if name != "EndOfKeys" else True


def test_there_are_25_keys_and_their_end():
    assert {key.name: key.value for key in DispatchKey} == NUMBERS
    assert len(DispatchKey) == 25 + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("family", "offset"), [("Autograd", 7), ("Autocast", 12), ("Vmap", 17)])
def test_a_derived_key_is_the_backend_key_plus_its_familys_offset(backend, family, offset):
    derived = DispatchKey[backend] + offset
    assert derived == DispatchKey[family + backend]
    assert family_of(derived) == family
    assert keys.OFFSETS[family] == offset
    assert keys.FAMILIES[family] & 1 << derived


def test_only_derived_keys_have_a_family_and_a_family_is_five_steps():
    assert [step for step in range(32) if family_of(step) is None] == [0, 1, 2, 3, 4, 5, 6, *range(22, 32)]
    assert {name: bits.bit_count() for name, bits in keys.FAMILIES.items()} == {"Autograd": 5, "Autocast": 5, "Vmap": 5}
    assert (keys.PAGE, keys.AUTOGRAD) == (32, 0b11111 << 7)


def test_the_generators_names_are_these():
    """The generator must not import the dispatcher, so it has the names a second time."""
    assert set(contract.DISPATCH_KEYS) == {*NUMBERS, "Autograd", "Autocast", "Vmap"} - {"EndOfKeys"}


def test_names_of_keys_shared_slots_and_devices_are_parsed():
    for name, number in NUMBERS.items():
        if name not in ("EndOfKeys", "Python"):
            assert parse_key(name) == number
    assert [parse_key(name) for name in ("Autograd", "Autocast", "Vmap", "Python")] == [
        *("Autograd", "Autocast", "Vmap", "Python")
    ]
    assert [parse_key(name) for name in ("cpu", "cuda", "vulkan", "meta")] == [0, 1, 2, 4]
    assert parse_key(DispatchKey.AutogradCPU) == 7


@pytest.mark.parametrize("wrong", ["AutogradCPUs", "autograd", "EndOfKeys", "", "sparse"])
def test_an_unknown_name_is_answered_with_the_nearest(wrong):
    with pytest.raises(RegistrationError, match="there is no dispatch key") as info:
        parse_key(wrong)
    if wrong == "AutogradCPUs":
        assert "'AutogradCPU'" in str(info.value)


@pytest.mark.parametrize("wrong", [-1, 25, 31, 32 * 1000, True])
def test_a_number_that_is_no_key_is_refused(wrong):
    with pytest.raises(RegistrationError, match="there is no dispatch key of number"):
        parse_key(wrong)


# ------------------------------------------------------------------------------------------------------------- pages


@pytest.fixture
def pages(monkeypatch):
    """The pages of a fresh process."""
    monkeypatch.setattr(keys, "_pages", fresh := {})
    return fresh


def test_built_in_devices_are_on_page_0(pages):
    assert [keys.assign_page(name) for name in ("cpu", "cuda", "vulkan", "meta")] == [0, 0, 0, 0]
    assert pages == {}


def test_pages_are_given_once_in_order_and_never_reused(pages):
    assert [keys.assign_page(name) for name in ("alpha", "beta", "alpha", "gamma", "beta")] == [1, 2, 1, 3, 2]
    assert keys.pages() == {"alpha": 1, "beta": 2, "gamma": 3}
    keys.pages().clear()  # a copy
    assert keys.assign_page("delta") == 4


@pytest.mark.parametrize("page", [1, 2, 3])
def test_keys_of_a_page_are_32_times_the_page_plus_the_step(pages, page):
    for i in range(page):
        keys.assign_page(f"dev{i + 1}")
    device = f"dev{page}"
    name = device.capitalize()
    assert backend_key(device) == 32 * page
    assert keys.device_of_page(page) == device
    for spelled, step in [(name, 0), (f"Sparse{name}", 3), (f"Autograd{name}", 7), (f"Autocast{name}", 12)]:
        assert parse_key(spelled) == 32 * page + step
        assert key_name(32 * page + step) == spelled
    assert parse_key(f"Vmap{name}") == 32 * page + 17
    assert parse_key(f"AutogradSparse{name}") == 32 * page + 10
    assert parse_key(device) == 32 * page
    assert key_name(32 * page + 23) == "VmapMode"  # modes belong to no device


def test_a_device_whose_name_starts_like_a_built_in_one_is_another(pages):
    assert backend_key("cpux") == 32 and backend_key("cudalike") == 64
    assert key_name(32 + 7) == "AutogradCpux" and parse_key("AutogradCudalike") == 64 + 7
    assert backend_key("cpu") == 0 and backend_key("cuda") == 1


@pytest.mark.parametrize("name", ["python", "sparse", "composite", "autograd", "vmap"])
def test_a_device_cannot_take_the_name_of_a_key_that_means_something_else(pages, name):
    with pytest.raises(RegistrationError, match="no device can be called"):
        keys.assign_page(name)


@pytest.mark.parametrize("number", [25, 31, -1, 10_000])
def test_a_number_that_is_no_key_is_refused_and_can_be_named(number):
    assert isinstance(key_name(number), str)
    with pytest.raises(RegistrationError, match="no dispatch key of number"):
        parse_key(number)
