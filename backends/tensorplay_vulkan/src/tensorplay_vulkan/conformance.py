"""What this backend does not do yet, for the conformance suite: each gap with its reason."""

from __future__ import annotations

from typing import Final

from tensorplay_core.testing.suite import Profile

_PIVOTS = "elimination with pivots chooses rows by their values; no shader does that yet"
_SWEEPS = "it is iterative, and no shader does its sweeps yet"
_REFLECTIONS = "no shader computes Householder's reflections yet"
_MINORS = "it must tell which matrix of a batch fails without raising, and no shader does that yet"
_SOME = "some of its forms take a decomposition that has no shader yet"

PROFILE: Final = Profile(
    not_yet={
        **dict.fromkeys(
            ("linalg_solve", "linalg_inv", "inverse", "linalg_det", "det", "linalg_slogdet", "slogdet", "logdet"),
            _PIVOTS,
        ),
        **dict.fromkeys(
            ("linalg_eigh", "linalg_eigvalsh", "linalg_svd", "linalg_svdvals", "linalg_pinv",
             "linalg_pinv.atol_rtol_float", "linalg_lstsq"), _SWEEPS,
        ),
        "linalg_qr": _REFLECTIONS,
        "linalg_cholesky_ex": _MINORS,
        **dict.fromkeys(
            ("linalg_cond", "linalg_cond.p_str", "linalg_matrix_power[float32]", "linalg_matrix_norm",
             "linalg_matrix_norm.str_ord"), _SOME,
        ),
    }
)  # fmt: skip
