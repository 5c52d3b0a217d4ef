"""The smallest backend of TensorPlay: a device named ``loopback``, over NumPy.

``tensorplay backends new`` writes one like it, of your own.
"""
