"""The CUDA backend of TensorPlay, over CuPy.

Core finds it through its entry point and imports :mod:`tensorplay_cuda.plugin` when a CUDA tensor is first made. CuPy
is imported only after :mod:`tensorplay_cuda.probe` has found a driver and a device.
"""
