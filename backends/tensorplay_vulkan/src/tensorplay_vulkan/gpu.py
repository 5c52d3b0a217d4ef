"""The GPU: buffers, pipelines that were compiled once, and the launch of a shader.

Everything that talks to wgpu is here. wgpu checks a call when it is made, so a shader that does not compile or a buffer
that is too large raises in the call that caused it; what it raises becomes an error of TensorPlay that says what to do.
A shader that runs has no way to fail, except that the GPU is lost, and then every later call says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import wgpu

from tensorplay_core.errors import BackendError, fix
from tensorplay_vulkan.array import ITEMSIZE, Shape, VulkanArray, VulkanDType

WORKGROUP = 256
"""Threads in a workgroup, for shaders whose threads do not work together."""
ROW = 65_535
"""Workgroups in one dim of a launch; what WebGPU promises."""
KEPT = 256
"""How many small buffers of parameters are kept: a program that loops launches the same ones again."""
LOST = ("lost", "destroyed")
BYTES = ("max-storage-buffer-binding-size", "max-buffer-size")
BUFFERS = "max-storage-buffers-per-shader-stage"
USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST


class OutOfMemoryError(BackendError, MemoryError):
    """The GPU cannot hold a tensor."""


class Gpu:
    """One adapter, and what runs on it; it starts when the first array is made.

    Args:
        adapter: a ``wgpu.GPUAdapter``.

    Attributes:
        largest: how many bytes a buffer can have.
        buffers: how many of them a shader can have, its parameters included; 8 or more.
    """

    def __init__(self, adapter: Any) -> None:
        self._limits = {name: adapter.limits[name] for name in (*BYTES, BUFFERS)}
        self.adapter = adapter
        self.largest = min(int(self._limits[name]) for name in BYTES)
        self.buffers = int(self._limits[BUFFERS])
        self._device: Any = None
        self._word: Any = None
        self._pipelines: dict[Any, Any] = {}
        self._parameters: dict[bytes, Any] = {}
        self._lock = threading.RLock()

    @property
    def device(self) -> Any:
        """The ``wgpu.GPUDevice``.

        Raises:
            BackendError: it cannot be started.
        """
        if self._device is None:
            with self._lock:
                if self._device is None:
                    self._start()
        return self._device

    def _start(self) -> None:
        try:
            device = self.adapter.request_device_sync(label="tensorplay", required_limits=self._limits)
            self._word = device.create_buffer(size=ITEMSIZE, usage=USAGE)
        except Exception as error:
            raise BackendError(
                f"vulkan: {self.adapter.info['device']} cannot be started: {' '.join(str(error).split())}"
                + fix("update the GPU's driver, or use device='cpu'.")
            ) from error
        self._device = device

    # -- memory

    def empty(self, shape: Shape, dtype: VulkanDType) -> VulkanArray:
        """Returns an array with a buffer of its own; WebGPU fills it with zeros.

        Raises:
            OutOfMemoryError: it is larger than the device can hold.
        """
        array = VulkanArray(None, tuple(shape), dtype)
        array.buffer = self._buffer(max(array.size, 1) * ITEMSIZE, array)
        return array

    def upload(self, host: Any, dtype: VulkanDType) -> VulkanArray:
        """Returns an array with a NumPy array's elements, which are converted to ``dtype`` as NumPy does."""
        array = VulkanArray(None, tuple(host.shape), dtype)
        if not array.size:
            return self.empty(array.shape, dtype)
        if dtype.name == "bool":
            host = host.astype(bool)
        words = np.ascontiguousarray(host, dtype=dtype.host)
        array.buffer = self._buffer(array.size * ITEMSIZE, array, words)
        return array

    def download(self, array: VulkanArray) -> Any:
        """Returns a NumPy array with the elements of an array in C order without gaps; waits for them."""
        if not array.size:
            return np.empty(array.shape, array.dtype.name)
        with self._lock, told():
            data = self.device.queue.read_buffer(array.buffer, array.offset * ITEMSIZE, array.size * ITEMSIZE)
        words = np.frombuffer(data, dtype=array.dtype.host).reshape(array.shape)
        return words.astype(array.dtype.name)  # a copy that NumPy owns and may write to

    def _buffer(self, size: int, array: VulkanArray, words: Any = None) -> Any:
        if size > self.largest:
            raise OutOfMemoryError(
                f"vulkan: a tensor of shape {array.shape} takes {size:,} bytes, and this device binds buffers of up to "
                f"{self.largest:,}" + fix("compute in parts, or use device='cpu'.")
            )
        with self._lock, told():
            if words is None:
                return self.device.create_buffer(size=size, usage=USAGE)
            return self.device.create_buffer_with_data(data=words, usage=USAGE)

    # -- work

    def launch(
        self,
        key: Any,
        source: Callable[[], str],
        arrays: Sequence[VulkanArray],
        parameters: Sequence[int],
        groups: int,
    ) -> None:
        """Starts a shader.

        Args:
            key: what stands for the source; a pipeline is compiled once for each key.
            source: returns the shader in WGSL, with the entry point ``main``. Binding 0 is the parameters, an
                ``array<u32>`` to read; then come the arrays.
            arrays: what it reads and writes.
            parameters: words.
            groups: how many workgroups there are. More than a launch has in one dim lie in two.
        """
        words = np.array(parameters, dtype=np.int64).astype(np.uint32)  # negative numbers by their bits
        with self._lock, told():
            pipeline, layout = self._pipelines.get(key) or self._compile(key, source())
            buffers = [self._parameter_buffer(words), *[array.buffer for array in arrays]]
            entries = [
                {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
                for i, buffer in enumerate(buffers)
            ]
            encoder = self.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            work.set_pipeline(pipeline)
            work.set_bind_group(0, self.device.create_bind_group(layout=layout, entries=entries))
            work.dispatch_workgroups(min(groups, ROW), -(-groups // ROW))
            work.end()
            self.device.queue.submit([encoder.finish()])

    def wait(self) -> None:
        """Returns when everything that was launched is done.

        What a queue is asked is done in turn, so a word that is read now is read last. (The function that WebGPU has
        for this, ``on_submitted_work_done``, fails in wgpu 0.32 with a TypeError of its own.)
        """
        with self._lock, told():
            queue = self.device.queue
            queue.read_buffer(self._word, 0, ITEMSIZE)

    def _compile(self, key: Any, source: str) -> tuple[Any, Any]:
        module = self.device.create_shader_module(code=source)
        pipeline = self.device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
        self._pipelines[key] = found = (pipeline, pipeline.get_bind_group_layout(0))
        return found

    def _parameter_buffer(self, words: Any) -> Any:
        text = words.tobytes()
        found = self._parameters.get(text)
        if found is None:
            if len(self._parameters) >= KEPT:
                self._parameters.clear()
            found = self.device.create_buffer_with_data(data=words, usage=wgpu.BufferUsage.STORAGE)
            self._parameters[text] = found
        return found


@contextmanager
def told() -> Iterator[None]:
    """Turns what wgpu raises into an error of TensorPlay.

    Raises:
        OutOfMemoryError: the GPU has no memory left.
        BackendError: the GPU was lost, or wgpu refused what it was asked.
    """
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise OutOfMemoryError(
            "vulkan: the GPU has no memory left" + fix("drop tensors that are not needed, or use device='cpu'.")
        ) from error
    except BackendError:
        raise
    except (wgpu.GPUError, RuntimeError) as error:
        text = " ".join(str(error).split())
        if any(word in text for word in LOST):
            raise BackendError(
                "vulkan: the GPU was lost, and with it every tensor on it (its driver was reset, or it was taken out)"
                + fix("start the program anew; if it happens again, update the GPU's driver.")
            ) from error
        raise BackendError(
            f"vulkan: wgpu refused a call: {text}" + fix("report it with the operator and the shapes that you used.")
        ) from error
