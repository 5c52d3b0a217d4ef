"""The demonstration behind ``tensorplay demo``: a small network that learns to read handwritten digits.

It uses nothing that a user's program could not use, so its modules are also an example: ``data`` reads the images,
``network`` is the model and its training, ``show`` prints.
"""

from __future__ import annotations

from tensorplay.demo.show import run

__all__ = ["run"]
