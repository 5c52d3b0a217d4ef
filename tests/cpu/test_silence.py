"""NumPy's floating-point warnings do not reach the user, whatever filters are set; the user's own still do."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from tensorplay_composite.arrays import quietly
from tensorplay_composite.arrays._support import silent


def log_of_zero():
    return np.log(np.zeros(2))


def test_silent_function():
    with pytest.warns(RuntimeWarning):
        log_of_zero()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isneginf(silent(log_of_zero)()).all()
        assert silent(log_of_zero).__module__ == __name__


def test_quietly_reaches_what_the_factory_defines():
    @quietly
    def factory(scale, *, base=1):
        def helper(x):
            return np.divide(x, 0 * x)

        def kernel(x):
            return helper(x) * scale * base

        return {"kernel": kernel, "raw": np.add}

    made = factory(2, base=3)
    assert made["raw"] is np.add and made["kernel"].__module__ == __name__
    results = []

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append(made["kernel"](np.ones(1)).tolist())

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results == [[np.inf], [np.inf]]
