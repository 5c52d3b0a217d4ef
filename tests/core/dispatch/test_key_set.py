"""Key sets: bitmaps of 25 steps on one page, whose highest bit is the key that is asked first."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import keys
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey, backend_key
from tensorplay_core.dispatch.tensor_type import intern

CPU, CUDA, AUTOGRAD_CPU, VMAP_CPU = (DispatchKey[name] for name in ("CPU", "CUDA", "AutogradCPU", "VmapCPU"))
MEMBERS = [key for key in DispatchKey if key not in (DispatchKey.Composite, DispatchKey.EndOfKeys)]


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(MEMBERS, 2))[::7])
def test_the_highest_bit_is_the_highest_key(a, b):
    assert KeySet.of(a, b).highest == max(a, b) and KeySet.of(a, b).lowest == min(a, b)
    assert KeySet.of(a, b).bits == (1 << a) + (1 << b)


def test_composite_is_never_a_member():
    for make in (
        lambda: KeySet.of(DispatchKey.Composite),
        lambda: KeySet(1 << 22),
        lambda: KeySet((1 << 25) - 1),
    ):
        with pytest.raises(AssertionError, match="never a member"):
            make()
    for device, dtype, layout, inference, wrapper in itertools.product(
        ("cpu", "loopback"), (tp.float32, tp.int64), ("strided", "sparse"), (False, True), (None, "batched")
    ):
        assert DispatchKey.Composite not in intern(tp.device(device), dtype, layout, inference, wrapper).key_set


def test_iteration_length_and_membership():
    found = KeySet.of(CPU, VMAP_CPU, AUTOGRAD_CPU)
    assert list(found) == [17, 7, 0] and len(found) == 3 and found
    assert AUTOGRAD_CPU in found and CUDA not in found
    assert repr(found) == "KeySet(VmapCPU, AutogradCPU, CPU)"


def test_union_difference_and_below():
    found = KeySet.of(CPU, AUTOGRAD_CPU, VMAP_CPU)
    assert KeySet.of(CPU) | KeySet.of(AUTOGRAD_CPU, VMAP_CPU) == found
    assert found - KeySet.of(AUTOGRAD_CPU) == KeySet.of(CPU, VMAP_CPU)
    assert found.below(VMAP_CPU) == KeySet.of(CPU, AUTOGRAD_CPU)
    assert found.below(AUTOGRAD_CPU) == KeySet.of(CPU)
    assert not found.below(CPU)


@pytest.mark.parametrize("family", ["Autograd", "Autocast", "Vmap"])
def test_excluding_a_family_excludes_all_its_steps_on_every_page(family):
    steps = [DispatchKey[f"{family}{backend}"] for backend in ("CPU", "CUDA", "Vulkan", "Sparse", "Meta")]
    for page in (0, 1, 5):
        whole = KeySet(sum(1 << key for key in MEMBERS), page)
        rest = whole - keys.FAMILIES[family]
        assert not any(32 * page + step in rest for step in steps)
        assert len(rest) == len(whole) - 5


def test_the_empty_set_has_no_highest_key_and_no_page():
    assert not KeySet(0) and KeySet(0, 3) == KeySet(0) and hash(KeySet(0, 3)) == hash(KeySet(0))
    with pytest.raises(LookupError, match="empty"):
        KeySet(0).highest  # noqa: B018  the property raises


def test_key_sets_never_mix_pages():
    here, there = KeySet.of(CPU), KeySet(1, 1)
    assert here != there and hash(here) != hash(there)
    assert CPU not in there and 32 in there
    with pytest.raises(AssertionError, match="never mixes pages"):
        _ = here | there
    with pytest.raises(AssertionError, match="never mixes pages"):
        KeySet.of(CPU, 32)
    assert KeySet(0, 1) | here == here  # nothing is mixed


def test_modes_and_python_are_on_every_page():
    keys = KeySet.of(32 + 0, DispatchKey.VmapMode, DispatchKey.Python)
    assert keys.page == 1 and DispatchKey.Python in keys and DispatchKey.VmapMode in keys
    assert [key % 32 for key in keys] == [23, 5, 0]


# ------------------------------------------------------------------------------------ the key set of a tensor's type

CPU_DEVICE = tp.device("cpu")


def test_a_plain_tensor_has_its_backend_and_autograd():
    assert tp.ones(2)._type.key_set == KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU)
    assert tp.ones(2)._type.key_set.bits == 1 << 0 | 1 << 7


def test_an_inference_tensor_has_no_autograd():
    with tp.inference_mode():
        x = tp.ones(2)
    assert x._type.key_set == KeySet.of(DispatchKey.CPU)


def test_a_sparse_tensor_has_the_sparse_backend():
    sparse = intern(CPU_DEVICE, tp.float32, layout="sparse")
    assert sparse.key_set == KeySet.of(DispatchKey.Sparse, DispatchKey.AutogradSparse)
    assert intern(CPU_DEVICE, tp.float32, layout="sparse", inference=True).key_set == KeySet.of(DispatchKey.Sparse)


def test_a_batched_tensor_has_vmap_in_place_of_autograd():
    batched = intern(CPU_DEVICE, tp.float32, wrapper="batched")
    assert batched.key_set == KeySet.of(DispatchKey.CPU, DispatchKey.VmapCPU)
    both = intern(CPU_DEVICE, tp.float32, layout="sparse", wrapper="batched")
    assert both.key_set == KeySet.of(DispatchKey.Sparse, DispatchKey.VmapSparse)


def test_a_third_partys_tensors_have_the_same_steps_on_their_page():
    base = backend_key("loopback")
    assert base >= 32 and base % 32 == 0
    device = tp.device("loopback")
    assert tp.ones(2, device=device)._type.key_set == KeySet.of(base, base + 7)
    assert intern(device, tp.float32, inference=True).key_set == KeySet.of(base)
    assert intern(device, tp.float32, layout="sparse").key_set == KeySet.of(base + 3, base + 10)
    assert intern(device, tp.float32, wrapper="batched").key_set == KeySet.of(base, base + 17)
    assert "AutogradLoopback" in repr(tp.ones(2, device=device)._type.key_set)


# -------------------------------------------------------------------------------------------------------- in a pickle


def test_names_and_not_numbers_of_pages_are_pickled():
    """In another process the device has another page, and the key set is still the device's."""
    tp.ones(1, device="loopback")
    page = keys.assign_page("loopback")
    text = pickle.dumps(KeySet.of(32 * page, 32 * page + 7))
    assert b"loopback" in text
    code = (
        "import pickle, sys\n"
        "from tensorplay_core.dispatch import keys\n"
        "for i in range(7): keys.assign_page(f'other{i}')\n"
        f"found = pickle.loads({text!r})\n"
        "assert found.page == 8 == keys.assign_page('loopback'), found.page\n"
        "print(found)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "KeySet(AutogradLoopback, Loopback)", done.stderr
    built_in = KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU)
    assert pickle.loads(pickle.dumps(built_in)) == built_in
