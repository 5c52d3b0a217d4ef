"""The smallest backend of TensorPlay: a device named ``loopback``, over NumPy. Copy it to start your own."""
