"""L-BFGS over the used codewords, shared by the solvers (SciPy's L-BFGS-B, without bounds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from supquant.algebra import positive_factor
from supquant.arrays import Float64
from supquant.interrupts import check_interrupt

HISTORY = 10
"""Number of past steps that L-BFGS remembers."""

RELATIVE_RIDGE = 0.1
"""This fraction of the mean diagonal of B'B is added to its diagonal. B'B is singular, because the error stays the same when one
codebook is shifted and another is shifted back."""


def minimise_codebooks(
    evaluate: Callable[[Float64], tuple[float, Float64]],
    C: Float64,
    *,
    max_iter: int,
    tol: float,
) -> Float64:
    """Minimise a function of the codewords C (u, r).

    Parameters
    ----------
    evaluate : callable
        Returns the function's value and its gradient (u, r) at some codewords.
    C : (u, r) float64
        Start.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The search stops when an iteration gains less than this fraction of the function's initial value.

    Returns
    -------
    (u, r) float64
        Never worse than the start.
    """
    last = _Evaluated(C, *evaluate(C))
    start = last.value
    scale = abs(start) or 1.0  # the first step of L-BFGS-B has length one, whatever the units

    def evaluated(flat: Float64) -> _Evaluated:
        """Evaluate at C (u r,), unless it is the last point again, as it is for every gradient."""
        nonlocal last
        words = flat.reshape(C.shape)
        if not np.array_equal(words, last.words):
            last = _Evaluated(words.copy(), *evaluate(words))
        return last

    def value(flat: Float64) -> float:
        check_interrupt()
        return evaluated(flat).value / scale

    def gradient(flat: Float64) -> Float64:
        return evaluated(flat).gradient.ravel() / scale

    result = minimize(
        value,
        C.ravel(),
        jac=gradient,  # `jac=True` would compare and copy every point again
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxcor": HISTORY, "ftol": tol, "gtol": 0.0, "maxfun": 2 * max_iter},
    )
    best = evaluated(result.x)
    return best.words if best.value < start else C


class _Evaluated(NamedTuple):
    """A point with the function's value and gradient there."""

    words: Float64  # (u, r)
    value: float
    gradient: Float64  # (u, r)


def minimise_preconditioned(
    evaluate: Callable[[Float64], tuple[float, Float64]],
    C: Float64,
    bb: Float64,
    energy: float,
    *,
    max_iter: int,
    tol: float,
) -> Float64:
    """Minimise a function of the codewords C (u, r) that contains |S - Z|^2 for fixed Z.

    The second derivative of that error by C is B'B. L-BFGS works on ``V = R'C``, where ``R R'`` is nearly B'B / |Z|^2. So V has
    no unit, which suits L-BFGS, whose first step has length one.

    Parameters
    ----------
    evaluate, C, max_iter, tol
        As for `minimise_codebooks`.
    bb : (u, u) float64
        B'B.
    energy : float
        |Z|^2.

    Returns
    -------
    (u, r) float64
        Never worse than the start.
    """
    ridge = RELATIVE_RIDGE * float(np.diag(bb).mean())
    lower = positive_factor((bb + ridge * np.eye(len(bb))) / (energy or 1.0))

    def codewords(V: Float64) -> Float64:
        words: Float64 = solve_triangular(lower, V, lower=True, trans="T")
        return words

    def function(V: Float64) -> tuple[float, Float64]:
        value, gradient = evaluate(codewords(V))
        return value, solve_triangular(lower, gradient, lower=True)

    return codewords(minimise_codebooks(function, lower.T @ C, max_iter=max_iter, tol=tol))
