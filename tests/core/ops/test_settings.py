"""The state of the random numbers: what is read can be set again, and what is no state is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import tensorplay as tp


def draws(device):
    return [
        tp.rand(3, device=device).tolist(), tp.randn(4, device=device).tolist(), tp.randperm(5, device=device).tolist(),
        tp.rand(3, dtype=tp.float64, device=device).tolist(), tp.rand(1, dtype=tp.float16, device=device).tolist(),
    ]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "loopback", "loopback:0"])
def test_a_restored_state_gives_the_same_numbers(device):
    tp.rand(1, device=device)  # half of a 64-bit number is left over, and belongs to the state
    state = tp.get_rng_state(device)
    first = draws(device)
    assert tp.get_rng_state(device) != state
    tp.set_rng_state(pickle.loads(pickle.dumps(state)), device)
    assert tp.get_rng_state(device) == state and draws(device) == first
    tp.manual_seed(1)
    tp.set_rng_state(state, device)
    assert draws(device) == first and tp.initial_seed() == 1


def test_a_state_is_restored_in_another_process_and_on_another_device():
    tp.manual_seed(11)
    tp.rand(7)
    state, numbers = tp.get_rng_state(), None
    program = (
        "import sys, tensorplay as tp\n"
        f"tp.set_rng_state(bytes.fromhex({state.hex()!r}), 'loopback')\n"
        "print(tp.rand(3, device='loopback').tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    numbers = tp.rand(3).tolist()
    assert done.stdout.strip() == str(numbers)


def test_what_is_no_state_is_refused_and_changes_nothing():
    good = tp.get_rng_state()
    damaged = [good[:-6] + b"\x09" + good[-5:], good[:-5] + b"\x02" + good[-4:]]  # a position and a flag out of range
    for bad in (None, 3, [1], bytearray(good), tp.ones(3)):
        with pytest.raises(tp.ArgumentError, match=r"a state is bytes, not \w+\nfix: pass what get_rng_state returned"):
            tp.set_rng_state(bad)
    for bad in (b"", good[:-1], good + b"\0", b"x" + good[1:], *damaged):
        with pytest.raises(tp.ValueRangeError, match=r"(no state of a Philox generator|is damaged)\nfix: "):
            tp.set_rng_state(bad)
    assert tp.get_rng_state() == good


def test_devices_without_a_state_and_devices_that_are_not_there():
    with pytest.raises(tp.BackendError, match="MetaDevice does not implement get_rng_state"):
        tp.get_rng_state("meta")
    with pytest.raises(tp.DeviceUnavailable, match="nosuch"):
        tp.set_rng_state(b"", "nosuch")
    with pytest.raises(tp.ValueRangeError, match="loopback:3"):
        tp.get_rng_state("loopback:3")


def test_the_seed_can_be_asked_for_and_chosen_by_the_system():
    tp.manual_seed(42)
    assert tp.initial_seed() == 42
    tp.manual_seed(-1)
    assert tp.initial_seed() == 2**64 - 1
    one, two = tp.seed(), tp.seed()
    assert one != two == tp.initial_seed() and 0 <= one < 2**64
    first = draws("cpu")
    tp.manual_seed(two)
    assert draws("cpu") == first == (tp.manual_seed(two), draws("loopback"))[1]


def test_set_default_device_takes_what_names_a_device():
    for device in ("loopback", tp.device("loopback"), tp.device("loopback:0")):
        tp.set_default_device(device)
        assert tp.get_default_device() == tp.device("loopback:0")
        tp.set_default_device(None)
        assert tp.get_default_device() == tp.device("cpu")
    for wrong, error in ((0, tp.ArgumentError), ("Loopback", tp.ValueRangeError)):
        with pytest.raises(error):
            tp.set_default_device(wrong)
    assert tp.get_default_device() == tp.device("cpu")
