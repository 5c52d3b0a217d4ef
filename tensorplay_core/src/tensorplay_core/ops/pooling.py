"""Pools with ``return_indices=``."""
