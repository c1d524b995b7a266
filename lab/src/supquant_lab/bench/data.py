"""Report: the rows that benchmarks run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant_lab.datasets import Dataset, load
from supquant_lab.problem import pose

if TYPE_CHECKING:
    import numpy.typing as npt

    from supquant.inputs.labels import Labels

QUICK_ROWS = 3000
"""Number of rows of a quick run."""


@dataclass(frozen=True)
class BenchmarkData:
    """MNIST, divided as under protocol `paper` with seed 0; the digits of scikit-learn if MNIST is not there."""

    name: str
    X: npt.NDArray[Any]  # (n, d) float32
    y: npt.NDArray[Any]  # (n,)
    labels: Labels
    queries: npt.NDArray[Any]  # (q, d) float32
    query_labels: Labels


def benchmark_data(*, quick: bool = False) -> BenchmarkData:
    """Return the rows; `quick` takes 3,000 of them.

    Examples
    --------
    >>> benchmark_data(quick=True).X.shape[0] > 1000
    True
    """
    try:
        dataset: Dataset = load("mnist")
        if quick:
            dataset = dataset.sample(QUICK_ROWS)
    except InputError:
        dataset = load("digits")
    problem = pose(dataset)
    return BenchmarkData(
        dataset.name,
        problem.X,
        problem.y,
        problem.database_labels,
        problem.queries,
        problem.query_labels,
    )
