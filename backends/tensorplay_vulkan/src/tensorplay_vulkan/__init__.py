"""The Vulkan backend of TensorPlay: compute shaders in WGSL, over wgpu.

Core finds it through its entry point and imports :mod:`tensorplay_vulkan.plugin` when a Vulkan tensor is first made.
wgpu is imported by :mod:`tensorplay_vulkan.probe`, and by nothing before it.
"""
