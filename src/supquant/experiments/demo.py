"""Report: the demonstration, two bytes a digit, and what comes back for a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant.datasets import load
from supquant.evaluation import Problem, evaluate_scores, pose
from supquant.experiments.cell import TIMED_QUERIES, time_queries
from supquant.experiments.methods import METHODS, Settings, Steps, Training, apply_steps
from supquant.experiments.methods.quantization import SupervisedQuantization
from supquant.metrics import average_precision

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

Array = npt.NDArray[Any]
BITS = 16
ANCHORS = 200
SHOWN = 10  # items shown for a query
HARDEST = 4  # queries shown because our codes did worst on them


@dataclass(frozen=True)
class Contender:
    """One way to store the database, and how well it answers."""

    name: str
    bytes_per_item: float
    map: float
    query_ms: float


@dataclass(frozen=True)
class Answer:
    """A query and the first items that two contenders gave back, as row numbers of the data set."""

    query: int
    ours: list[int]
    theirs: list[int]


@dataclass(frozen=True)
class Demo:
    """What the demonstration found."""

    images: Array  # (n, 8, 8) float, 0 to 1
    labels: Array  # (n,)
    n_training: int
    n_database: int
    n_queries: int
    contenders: list[Contender]
    typical: list[Answer]  # the first query of each digit
    hardest: list[Answer]  # those with the lowest average precision of our codes


def run_demo(*, seed: int = 0, callback: Callable[[Progress], None] | None = None) -> Demo:
    """Train on a part of scikit-learn's digits, and search another part that training never saw.

    Examples
    --------
    >>> demo = run_demo()
    >>> [contender.name for contender in demo.contenders]
    ['raw vectors', 'product quantization', 'supquant', 'supquant, items labelled']
    """
    digits = load("digits")
    problem = pose(digits, protocol="unlabelled", seed=seed)
    split, database = problem.split, problem.database
    training = Training(problem.X, problem.y)
    settings = Settings(seed=seed, anchors=ANCHORS)
    search = _Search(problem)

    vectors = METHODS["euclidean"](training, settings).fitted(BITS)
    product = METHODS["pq"](training, settings).fitted(BITS)
    ours = SupervisedQuantization(training, settings, callback).fitted(BITS)
    raw_items, product_codes, our_codes = (method.encoded(database) for method in (vectors, product, ours))
    labelled_codes = ours.estimator.encode(database, digits.y[split.database])
    product_steps, our_steps = product.steps(product_codes, "euclidean"), ours.steps(our_codes, "euclidean")
    contenders = [
        search.contender(
            "raw vectors", vectors.bytes_per_item(raw_items), vectors.steps(raw_items, "euclidean")
        ),
        search.contender("product quantization", product.bytes_per_item(product_codes), product_steps),
        search.contender("supquant", ours.bytes_per_item(our_codes), our_steps),
        search.contender(
            "supquant, items labelled",
            ours.bytes_per_item(labelled_codes),
            ours.steps(labelled_codes, "euclidean"),
        ),
    ]

    our_order, product_order = search.order(our_steps), search.order(product_steps)  # (q, n)

    def answer(query: int) -> Answer:
        return Answer(
            int(split.queries[query]),
            split.database[our_order[query, :SHOWN]].tolist(),
            split.database[product_order[query, :SHOWN]].tolist(),
        )

    query_digits = digits.y[split.queries]
    relevant = digits.y[split.database][our_order] == query_digits[:, None]
    worst = np.argsort(average_precision(relevant), kind="stable")[:HARDEST]
    first = [int(np.flatnonzero(query_digits == digit)[0]) for digit in np.unique(query_digits)]
    return Demo(
        images=digits.X.reshape(-1, 8, 8) / 16,
        labels=digits.y,
        n_training=len(split.training),
        n_database=len(split.database),
        n_queries=len(split.queries),
        contenders=contenders,
        typical=[answer(query) for query in first],
        hardest=[answer(int(query)) for query in worst],
    )


@dataclass(frozen=True)
class _Search:
    """The queries and labels that all contenders share."""

    problem: Problem

    def contender(self, name: str, bytes_per_item: float, steps: Steps) -> Contender:
        problem = self.problem
        quality = evaluate_scores(
            lambda queries: apply_steps(steps, queries),
            problem.queries,
            problem.query_labels,
            problem.database_labels,
        )
        milliseconds = time_queries(steps, problem.queries[:TIMED_QUERIES])["total"]
        return Contender(name, bytes_per_item, quality.map, milliseconds)

    def order(self, steps: Steps) -> Array:
        return np.argsort(apply_steps(steps, self.problem.queries), axis=1, kind="stable")
