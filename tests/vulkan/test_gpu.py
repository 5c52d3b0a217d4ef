"""The launch: shaders that have more workgroups than a launch has in one dim, and what wgpu refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import BackendError

pytestmark = pytest.mark.usefixtures("adapter")


def there(array):
    return tp.tensor(array, device="vulkan")


@pytest.mark.parametrize("row", [1, 3, 4])
def test_more_workgroups_than_a_launch_has_in_one_dim(row, monkeypatch, rng):
    """65,535 is the limit of WebGPU; here it is so small that every kind of shader is over it."""
    monkeypatch.setattr("tensorplay_vulkan.gpu.ROW", row)
    array = rng.normal(size=(7, 300)).astype("float32")
    x = there(array)
    assert (x + 1).tolist() == (array + np.float32(1)).tolist()
    assert x.t().contiguous().tolist() == array.T.tolist()
    assert np.allclose(x.sum(1).cpu().numpy(), array.sum(axis=1), atol=1e-4)
    assert np.allclose(x.t()[:, :3].sum(1).cpu().numpy(), array.T[:, :3].sum(axis=1), atol=1e-6)
    assert np.allclose(there(np.tile(array, (1, 30))).sum().item(), 30 * array.sum(dtype="float64"), atol=1e-2)
    assert x.max(1)[1].tolist() == array.argmax(axis=1).tolist() and x.argmax().item() == array.argmax()
    product = (x @ x.t()).cpu().numpy(), (x.t() @ x).cpu().numpy()
    assert np.allclose(product[0], array @ array.T, atol=1e-3) and np.allclose(product[1], array.T @ array, atol=1e-3)
    places = rng.integers(-7, 7, 9)
    y = x.detach().requires_grad_()
    gathered = y[places.tolist()]
    assert gathered.tolist() == array[places].tolist()
    gathered.sum().backward()
    assert y.grad[:, 0].tolist() == np.bincount(places % 7, minlength=7).tolist()


def test_a_wrong_shader_raises_in_the_call_that_starts_it():
    from tensorplay_vulkan.array import FLOAT32

    gpu = tp.ones(1, device="vulkan")._type.api.gpu
    result = gpu.empty((3,), FLOAT32)
    with pytest.raises(BackendError, match=r"(?s)wgpu refused a call: .*parsing error.*fix: report it"):
        gpu.launch("wrong", lambda: "fn main( {", [result], [3], 1)
    shader = "@group(0) @binding(0) var<storage, read> p: array<u32>;\n@compute @workgroup_size(1) fn main() {}"
    with pytest.raises(BackendError, match="wgpu refused a call"):
        gpu.launch("unbound", lambda: shader, [result], [3], 1)
    assert tp.ones(2, device="vulkan").sum().item() == 2
