"""Watching calls: which operators ran, through which keys and kernels, and how long they took."""
