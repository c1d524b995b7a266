"""Report: the processor time of default fits on one thread, beside work of other libraries on the same rows.

Processor time on one thread does not count other programs of the machine, so a ratio of two such times is steadier than one of
seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.model.quantizer import SupervisedQuantizer
from supquant.parallel import single_blas
from supquant_lab.datasets import load
from supquant_lab.problem import pose

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

BITS = 64
"""Length of a code."""

REGRESSION_ROWS, REGRESSION_C, REGRESSION_LIMIT = 8000, 10.0, 2.0
"""Rows of Banking77, C of the logistic regression, and the largest number of times that a fit should take as long."""

TOLERANCES = (1e-6, 1e-4)
"""Tolerances of the logistic regression: the first one has converged, the second is scikit-learn's default."""

PRODUCT_SHAPE, PRODUCT_LIMIT = (69_000, 4_000), 1.5
"""Shape of the float32 matrix X whose product X'X a fit of MNIST stands beside, and the largest ratio that it should have."""

QUICK_ROWS = 400
"""Rows of a quick run, which takes the digits of scikit-learn, and of its matrix."""

LABELS_COMMAND = "supquant bench labels --labels 1000 --bits 16"
"""The command that measures a fit of a thousand labels beside one X'X."""


@dataclass(frozen=True)
class _Fitted:
    """One fit: its rows, its processor time, and the qualities that the model itself expects."""

    record: dict[str, Any]
    X: Array
    y: Array

    @property
    def seconds(self) -> float:
        return float(self.record["fit_seconds"])


def bench_default_fits(
    *, quick: bool = False, callback: Callable[[Progress], None] | None = None
) -> dict[str, dict[str, Any]]:
    """Fit Banking77 beside a logistic regression, and MNIST beside one matrix product; leave out data that are not there.

    Parameters
    ----------
    quick : bool
        Whether to fit the digits of scikit-learn instead, in a few seconds.
    callback : callable, optional
        Gets the fits' `Progress`.

    Returns
    -------
    dict
        By the name of the data set, a record with `fit_seconds`, `ratio` and `ratio_limit`. All times are processor time on one
        thread.
    """
    records = {}
    with single_blas():
        for name, beside in (("banking77", _beside_regression), ("mnist", _beside_product)):
            try:
                fitted = _fit(name, quick=quick, callback=callback)
            except InputError:  # the data are not there
                continue
            records[name] = fitted.record | beside(fitted, quick=quick)
    return records


def _fit(name: str, *, quick: bool, callback: Callable[[Progress], None] | None) -> _Fitted:
    problem = pose(load("digits").sample(QUICK_ROWS) if quick else load(name))
    X, y = problem.X, problem.y
    if name == "banking77":
        chosen = np.random.default_rng(0).permutation(len(X))[:REGRESSION_ROWS]
        X, y = X[chosen], y[chosen]
    model = SupervisedQuantizer(BITS // 8, random_state=0, n_jobs=1, callback=callback)
    seconds = processor_seconds(lambda: model.fit(X, y))
    summary = model.summary_
    assert summary is not None
    record = {
        "rows": len(X),
        "dimensions": int(X.shape[1]),
        "bits": BITS,
        "threads": 1,
        "fit_seconds": seconds,
        "map_labelled": summary.map_labelled,
        "map_unlabelled": summary.map_unlabelled,
        "map_new": summary.map_new,
    }
    return _Fitted(record, X, y)


def _beside_regression(fitted: _Fitted, *, quick: bool) -> dict[str, Any]:
    """Time scikit-learn's logistic regression on the same rows, once for each tolerance."""
    del quick
    X = fitted.X.astype(np.float64)
    regressions = []
    for tolerance in TOLERANCES:
        model = LogisticRegression(C=REGRESSION_C, tol=tolerance, max_iter=100_000)
        seconds = processor_seconds(partial(model.fit, X, fitted.y))
        regressions.append(
            {
                "tolerance": tolerance,
                "seconds": seconds,
                "iterations": int(model.n_iter_[0]),
                "ratio": fitted.seconds / seconds,
            }
        )
    return {"regressions": regressions, "ratio": regressions[0]["ratio"], "ratio_limit": REGRESSION_LIMIT}


def _beside_product(fitted: _Fitted, *, quick: bool) -> dict[str, Any]:
    """Time one product X'X of a float32 matrix, the median of three."""
    rows, columns = (QUICK_ROWS, QUICK_ROWS) if quick else PRODUCT_SHAPE
    X = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
    seconds = median(processor_seconds(lambda: X.T @ X) for _ in range(3))
    return {
        "product_shape": [rows, columns],
        "product_seconds": seconds,
        "ratio": fitted.seconds / seconds,
        "ratio_limit": PRODUCT_LIMIT,
    }


def processor_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call in seconds.

    Examples
    --------
    >>> processor_seconds(lambda: sum(range(100_000))) > 0
    True
    """
    began = time.process_time()
    call()
    return time.process_time() - began
