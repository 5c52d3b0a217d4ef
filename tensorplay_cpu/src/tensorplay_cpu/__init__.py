"""The CPU backend of TensorPlay, over NumPy.

Core finds it through its entry point and imports :mod:`tensorplay_cpu.plugin` when a CPU tensor is first made; nothing
here is meant to be called directly.
"""
