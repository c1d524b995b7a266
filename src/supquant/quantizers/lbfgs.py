"""L-BFGS over the used codewords, shared by both solvers (SciPy's L-BFGS-B, without bounds)."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import minimize

from supquant.statistics import Float

HISTORY = 10


def minimise_codebooks(
    evaluate: Callable[[Float], tuple[float, Float]], C: Float, *, max_iter: int, tol: float
) -> Float:
    """Minimise a function of the codewords C (u, r), which gives its value and gradient.

    Ends when an iteration gains less than `tol` of the function's first value. The result is never worse than the start.
    """
    start, _ = evaluate(C)
    scale = abs(start) or 1.0  # L-BFGS-B's first step has length one whatever the units

    def function(flat: Float) -> tuple[float, Float]:
        value, gradient = evaluate(flat.reshape(C.shape))
        return value / scale, gradient.ravel() / scale

    result = minimize(
        function,
        C.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxcor": HISTORY, "ftol": tol, "gtol": 0.0, "maxfun": 2 * max_iter},
    )
    best: Float = result.x.reshape(C.shape)
    return best if evaluate(best)[0] < start else C
