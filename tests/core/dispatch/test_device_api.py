"""What a backend's device may leave out, and what it has then."""

from __future__ import annotations

import pytest

from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.errors import BackendError


class Bare(DeviceAPI):
    pass


REQUIRED = {
    "as_array": (1,), "dtype_name": (1,), "from_list": ([1], None), "from_host": (1, 0), "to_host": (1,),
    "cast": (1, None), "copy": (1,),
}  # fmt: skip
OPTIONAL = {
    "get_rng_state": (0,), "set_rng_state": (b"", 0), "memory_stats": (0,), "reset_peak_memory_stats": (0,),
    "memory_info": (0,), "current_stream": (0,), "set_stream": (None,), "from_buffer": (b"", None, (0,)),
    "from_dlpack": (None,), "new_generator": (1,),
}  # fmt: skip


@pytest.mark.parametrize(("method", "args"), [*REQUIRED.items(), *OPTIONAL.items()])
def test_what_a_device_lacks_is_named_with_its_class(method, args):
    with pytest.raises(BackendError, match=rf"Bare does not implement {method}(\n|$)") as caught:
        getattr(Bare(), method)(*args)
    assert (
        f"\nfix: do without it on this device; its backend can add it, see DeviceAPI.{method}." in str(caught.value)
    ) is (method in OPTIONAL)


def test_everything_else_has_a_default():
    api = Bare()
    assert (api.freeze(1), api.may_alias(1, 1), api.is_contiguous(1), api.overlaps_itself(1)) == (
        None,
        False,
        True,
        False,
    )
    assert (api.manual_seed(1), api.synchronize(0), api.set_device(0), api.empty_cache()) == (None,) * 4
    assert api.device_name(0) == "Bare" and api.survives_fork is True
    with api.device(0):
        pass
    public = {name for name, value in vars(DeviceAPI).items() if callable(value) and not name.startswith("_")}
    assert public == {*REQUIRED, *OPTIONAL} | {
        *(
            "freeze",
            "may_alias",
            "to_list",
            "is_contiguous",
            "strides",
            "storage_offset",
            "overlaps_itself",
            "manual_seed",
            "synchronize",
        ),
        *("set_device", "empty_cache", "device_name", "device", "array_class"),
    }
