"""The operators: generated functions with their fast path, the readable slow path, and the methods of a tensor."""
