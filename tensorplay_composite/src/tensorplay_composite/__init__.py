"""General implementations for TensorPlay: operators made of operators, and kernels over any NumPy-like module.

:mod:`tensorplay_composite.arrays` is for authors of backends; :mod:`tensorplay_composite.operators` is registered at
the Composite key when a device is first used.
"""
