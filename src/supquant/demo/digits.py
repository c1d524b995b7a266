"""Train on handwritten digits, and compare the answers of two-byte codes with those of other methods."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from supquant import kernels
from supquant.arrays import Array
from supquant.baselines.product import ProductQuantizer
from supquant.metrics import average_precision
from supquant.parallel import single_blas
from supquant.published import PublishedQuantizer
from supquant.published.anchor_kernel import AnchorKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

    Score = Callable[
        [Array], Array
    ]  # from queries (q, p) to the scores (q, n) of all items; smaller is nearer

N_CODEBOOKS = 2
"""Number of bytes of a code."""

ANCHORS = 200
"""Number of anchors of the kernel features."""

SHOWN = 10
"""Number of items that the page shows for a query."""

N_HARDEST = 4
"""Number of queries that the page shows because our codes have the lowest average precision on them."""

TIMED_QUERIES = 50
"""Number of queries over which the median time is taken."""


@dataclass(frozen=True)
class Contender:
    """One way to store the database, and the quality and time of its answers."""

    name: str
    bytes_per_item: float
    map: float
    query_ms: float


@dataclass(frozen=True)
class Answer:
    """A query and the first answers of two contenders, as row numbers of the data set."""

    query: int
    ours: list[int]
    theirs: list[int]


@dataclass(frozen=True)
class Demo:
    """The results of the demonstration."""

    images: Array  # (n, 8, 8) float32, 0 to 1
    labels: Array  # (n,)
    n_training: int
    n_database: int
    n_queries: int
    contenders: list[Contender]
    typical: list[Answer]  # the first query of each digit
    hardest: list[Answer]  # those with the lowest average precision of our codes


def run_demo(*, seed: int = 0, callback: Callable[[Progress], None] | None = None) -> Demo:
    """Train on some of scikit-learn's digits, and search others that were not trained on.

    Parameters
    ----------
    seed : int, default=0
        Seed of the split and of training.
    callback : callable or None, default=None
        Called with a `Progress` after every step of training.

    Returns
    -------
    Demo

    Examples
    --------
    >>> demo = run_demo()
    >>> [contender.name for contender in demo.contenders]
    ['raw vectors', 'product quantization', 'supquant', 'supquant, items labelled']
    """
    pixels, digits = load_digits(return_X_y=True)
    X = (pixels / 16).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(X))
    asked, others = np.split(order, [len(X) // 10])
    training, stored = np.split(others, [len(others) // 2])
    database, queries = X[stored], X[asked]

    product = ProductQuantizer(N_CODEBOOKS, random_state=seed).fit(X[training])
    ours = PublishedQuantizer(
        N_CODEBOOKS,
        features=AnchorKernel(ANCHORS, random_state=seed),
        random_state=seed,
        callback=callback,
    ).fit(X[training], digits[training])
    squares = np.einsum("ij,ij->i", database, database)  # (n,)
    scores: dict[str, Score] = {
        "raw vectors": lambda queries: squares - 2 * (queries @ database.T),
        "product quantization": _scores_of(product, product.encode(database)),
        "supquant": _scores_of(ours, ours.encode(database)),
        "supquant, items labelled": _scores_of(ours, ours.encode(database, digits[stored])),
    }
    orders = {
        name: np.argsort(score(queries), axis=1, kind="stable") for name, score in scores.items()
    }  # (q, n)
    precisions = {  # (q,)
        name: average_precision(digits[stored][order] == digits[asked][:, None])
        for name, order in orders.items()
    }
    contenders = [
        Contender(
            name,
            X.shape[1] * X.itemsize if name == "raw vectors" else N_CODEBOOKS,
            float(precisions[name].mean()),
            _query_ms(score, queries),
        )
        for name, score in scores.items()
    ]

    def answer(query: int) -> Answer:
        return Answer(
            int(asked[query]),
            stored[orders["supquant"][query, :SHOWN]].tolist(),
            stored[orders["product quantization"][query, :SHOWN]].tolist(),
        )

    query_digits = digits[asked]
    worst = np.argsort(precisions["supquant"], kind="stable")[:N_HARDEST]
    first = [int(np.flatnonzero(query_digits == digit)[0]) for digit in np.unique(query_digits)]
    return Demo(
        images=X.reshape(-1, 8, 8),
        labels=digits,
        n_training=len(training),
        n_database=len(stored),
        n_queries=len(asked),
        contenders=contenders,
        typical=[answer(query) for query in first],
        hardest=[answer(int(query)) for query in worst],
    )


def _scores_of(estimator: ProductQuantizer | PublishedQuantizer, codes: npt.NDArray[np.uint8]) -> Score:
    """Return the function from queries (q, p) to the scores (q, n) of codes (n, M); smaller is nearer."""
    codec = estimator.codec_
    return lambda queries: kernels.active().table_sums(codes, codec.query_tables(queries, "euclidean").tables)


def _query_ms(score: Score, queries: Array) -> float:
    """Return the median milliseconds of single queries on one thread."""
    times = []
    with single_blas():
        for query in range(TIMED_QUERIES):
            began = time.perf_counter()
            score(queries[query : query + 1])
            times.append(1000 * (time.perf_counter() - began))
    return float(np.median(times))
