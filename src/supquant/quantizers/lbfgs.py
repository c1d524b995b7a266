"""L-BFGS over the used codewords, shared by the solvers (SciPy's L-BFGS-B, without bounds)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from supquant.arrays import Float64

HISTORY = 10

RELATIVE_RIDGE = 0.1
"""On the diagonal of B'B, in units of its mean: the error does not see a shift of one codebook against another."""


def minimise_codebooks(
    evaluate: Callable[[Float64], tuple[float, Float64]],
    C: Float64,
    *,
    max_iter: int,
    tol: float,
) -> Float64:
    """Minimise a function of the codewords C (u, r), which gives its value and gradient.

    Ends when an iteration gains less than `tol` of the function's first value. The result is never worse than the start.
    """
    start, _ = evaluate(C)
    scale = abs(start) or 1.0  # L-BFGS-B's first step has length one whatever the units

    def function(flat: Float64) -> tuple[float, Float64]:
        value, gradient = evaluate(flat.reshape(C.shape))
        return value / scale, gradient.ravel() / scale

    result = minimize(
        function,
        C.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxcor": HISTORY, "ftol": tol, "gtol": 0.0, "maxfun": 2 * max_iter},
    )
    best: Float64 = result.x.reshape(C.shape)
    return best if evaluate(best)[0] < start else C


def minimise_preconditioned(
    evaluate: Callable[[Float64], tuple[float, Float64]],
    C: Float64,
    bb: Float64,
    energy: float,
    *,
    max_iter: int,
    tol: float,
) -> Float64:
    """Minimise a function of the codewords C (u, r) that grows with |S - Z|^2 for fixed Z, as `minimise_codebooks` does.

    The second derivative of that error by C is B'B (u, u): L-BFGS works on ``V = R'C``, where ``R R'`` is nearly B'B / |Z|^2.
    Then V has no unit either, as it should, since L-BFGS begins with a step of length one.
    """
    ridge = RELATIVE_RIDGE * float(np.diag(bb).mean())
    lower: Float64 = cholesky((bb + ridge * np.eye(len(bb))) / (energy or 1.0), lower=True)

    def codewords(V: Float64) -> Float64:
        words: Float64 = solve_triangular(lower, V, lower=True, trans="T")
        return words

    def function(V: Float64) -> tuple[float, Float64]:
        value, gradient = evaluate(codewords(V))
        return value, solve_triangular(lower, gradient, lower=True)

    return codewords(minimise_codebooks(function, lower.T @ C, max_iter=max_iter, tol=tol))
