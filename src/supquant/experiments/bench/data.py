"""Report: the rows that benchmarks run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supquant.datasets import Dataset, load
from supquant.errors import InputError
from supquant.evaluation import split_rows
from supquant.labels import Labels, read_labels

if TYPE_CHECKING:
    import numpy.typing as npt

QUICK_ROWS = 3000


@dataclass(frozen=True)
class BenchmarkData:
    """MNIST, split as under `paper` with seed 0; the digits if MNIST is not there."""

    name: str
    X: npt.NDArray[Any]  # (n, d) float32
    y: npt.NDArray[Any]  # (n,)
    labels: Labels
    queries: npt.NDArray[Any]  # (q, d) float32
    query_labels: Labels


def benchmark_data(*, quick: bool = False) -> BenchmarkData:
    """Load the rows; `quick` takes a few thousand of them.

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
    split = split_rows(len(dataset), protocol="paper", seed=0)
    ready = dataset.prepare(dataset.X[split.training])
    labels = read_labels(dataset.y)
    return BenchmarkData(
        dataset.name,
        ready(dataset.X[split.training]),
        dataset.y[split.training],
        labels.take(split.training),
        ready(dataset.X[split.queries]),
        labels.take(split.queries),
    )
