"""Report: time, memory and quality of short codes with many labels, on classes for which the best answers are known.

Each number of labels and each code length is measured in a fresh process, so that the peak memory is that of one fit. Each
quality is compared with the best possible one: the classifier with the Bayes rule, items with labels with stored labels, and
items without labels with the float probabilities of the same classifier.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from supquant.arrays import Array, Float32
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, check_nonnegative, check_positive, resolve_jobs
from supquant.metrics import average_precision
from supquant.model import SupervisedQuantizer
from supquant.parallel import single_blas
from supquant_lab.bench.data import SEVERAL_SPREAD, GaussianClasses, spread_for
from supquant_lab.bench.process import run_fresh
from supquant_lab.bench.timing import seconds_of
from supquant_lab.machine import describe_machine, peak_memory_mb, resident_memory_mb
from supquant_lab.quality import precision_at, ranked, relevance

SIZES = {
    100: (20_000, 64),
    400: (8_000, 64),
    1_000: (200_000, 384),
    10_000: (200_000, 128),
    100_000: (1_000_000, 128),
}
"""Default numbers of rows and dimensions, by the number of labels, where a row carries one label."""

SEVERAL_LABELS = 5_000
"""Number of labels of the set whose rows carry several labels."""

SEVERAL_SIZE = (100_000, 128)
"""Numbers of rows and dimensions of that set."""

MAX_ITEMS = 20_000
"""Maximum number of items of a ranking."""

MIN_PER_CLASS = 5
"""If classes would have fewer items than this on average, items and queries come from fewer classes: ten items per class."""

RANKING_QUERIES, ACCURACY_QUERIES, TIMED_QUERIES = 200, 1000, 100
"""Numbers of queries for rankings, for the accuracy of classifiers, and for times."""

PRODUCTS = 5
"""The product X'X is timed this number of times before a fit, and again after it: on a busy machine its time changes from second
to second."""

MIN_ROWS = 256
"""Minimum number of training rows: one for every word of a codebook."""

MAX_DIMENSIONS = 10_000
"""Maximum number of dimensions; with more, `spread_for` finds no spread."""

_TRAINING, _ACCURACY, _RANKING, _UNLABELLED = range(4)  # streams of random rows


@dataclass(frozen=True)
class Case:
    """One set of rows and one code length, which one process measures."""

    labels: int
    several: bool  # whether a row carries several labels
    rows: int
    dimensions: int
    spread: float
    bits: int
    new_classes: float | None
    seed: int

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.labels:,} labels{', several per row' if self.several else ''}, {self.bits} bits"


def bench_labels(
    labels: Sequence[int],
    *,
    several: bool = False,
    rows: int | None = None,
    dimensions: int | None = None,
    spread: float | None = None,
    bits: Sequence[int] = (16, 64),
    new_classes: float | None = 0.0,
    seed: int = 0,
    on_case: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit Gaussian classes, and measure time, memory and quality.

    Parameters
    ----------
    labels : sequence of int
        Numbers of labels, where a row carries one.
    several : bool
        Whether to measure also a set of `SEVERAL_LABELS` labels, 1 to 5 per row.
    rows, dimensions : int, optional
        Numbers of rows and dimensions of every set; by default those of `SIZES` and `SEVERAL_SIZE`.
    spread : float, optional
        Standard deviation of the means of classes. By default the Bayes rule is right for 99 of 100 rows; with several labels
        per row it is 1.
    bits : sequence of int
        Code lengths, multiples of 8.
    new_classes : float, optional
        Fraction of items of new classes that the fit expects. It is 0 by default, since there are no new classes. With None the
        library estimates it, and ranks items without labels also by position.
    seed : int
        Seed of rows and fits.
    on_case : callable, optional
        Gets the name of each case before it is measured.

    Returns
    -------
    dict
        A record for `json`.
    """
    sets = [(each, False) for each in labels] + [(SEVERAL_LABELS, True)] * several
    if not sets or not bits:
        raise InputError("there is nothing to measure: give numbers of labels, and of bits")
    check_integer(seed, "seed", 0)
    for each in bits:
        if check_integer(each, "bits", 8, 512) % 8:
            raise InputError(f"bits must be a multiple of 8, got {each}")
    if new_classes is not None and check_nonnegative(new_classes, "new_classes") >= 1:
        raise InputError(f"new_classes must be at least 0 and below 1, got {new_classes}")
    sizes = [_size(*each, rows, dimensions, spread) for each in sets]
    cases = [Case(*size, each, new_classes, seed) for size in sizes for each in bits]
    load = os.getloadavg()[0]
    measured = []
    for case in cases:
        if on_case is not None:
            on_case(case.name)
        fields = asdict(case)
        measured.append(fields | run_fresh(measure, fields, purpose=f"measure {case.name}"))
    return {
        "benchmark": "labels",
        "seed": seed,
        "new_classes": new_classes,
        "ranking_queries": RANKING_QUERIES,
        "accuracy_queries": ACCURACY_QUERIES,
        "threads": resolve_jobs(None),
        "measured": measured,
        "load_before": load,
        "machine": describe_machine(),
    }


def _size(
    labels: int, several: bool, rows: int | None, dimensions: int | None, spread: float | None
) -> tuple[int, bool, int, int, float]:
    """Return the checked size of one set with defaults filled in, in the order of the fields of `Case`."""
    check_integer(labels, "labels", 2)
    usual = SEVERAL_SIZE if several else SIZES.get(labels)
    if usual is None and (rows is None or dimensions is None):
        sizes = ", ".join(map(str, SIZES))
        raise InputError(f"rows and dimensions must be given for {labels} labels; they are known for {sizes}")
    rows = check_integer(usual[0] if usual and rows is None else rows, "rows", MIN_ROWS)
    dimensions = check_integer(
        usual[1] if usual and dimensions is None else dimensions, "dimensions", 1, MAX_DIMENSIONS
    )
    if rows < labels:
        raise InputError(f"there must be a row for every label, got {rows} rows for {labels} labels")
    if spread is None:
        spread = SEVERAL_SPREAD if several else spread_for(labels, dimensions)
    return labels, several, rows, dimensions, check_positive(spread, "spread")


def measure(fields: dict[str, Any]) -> dict[str, Any]:
    """Draw rows, fit and measure them in this process, for the fields of a `Case`."""
    case = Case(**fields)
    classes = GaussianClasses(case.labels, case.dimensions, case.spread, case.several, case.seed)
    X, labels = classes.draw(case.rows, stream=_TRAINING, every=True)
    product_seconds = [seconds_of(lambda: X.T @ X) for _ in range(PRODUCTS)]
    model = SupervisedQuantizer(case.bits // 8, new_classes=case.new_classes, random_state=case.seed)
    before = resident_memory_mb()
    fit_seconds = seconds_of(lambda: model.fit(X, _as_given(labels)))
    peak = peak_memory_mb() - before
    product_seconds += [seconds_of(lambda: X.T @ X) for _ in range(PRODUCTS)]
    accuracy, bayes = _accuracies(model, classes)

    rng = np.random.default_rng([case.seed, 2])
    n_items = min(MAX_ITEMS, case.rows)
    among = _classes_of_items(case, n_items, rng)
    some = _rows_of(labels, among, n_items, rng)
    Q, asked = classes.draw(RANKING_QUERIES, stream=_RANKING, among=among)
    p = model.predict_proba(Q)  # (q, L)
    codes = model.encode(X[some], _as_given(labels.take(some)))
    index = CodeIndex(model).add_codes(codes)  # all items have labels, so the index knows that none is new
    labelled = _judged(
        index, Q, labels.take(some).sparse() @ p.T, relevance(asked, labels.take(some), 0, len(Q))
    )
    others, carried = classes.draw(n_items, stream=_UNLABELLED, among=among)
    products = [model.predict_proba(others[start:stop]) @ p.T for start, stop in classes.blocks(n_items)]
    without = CodeIndex(model).add_codes(model.encode(others))
    unlabelled = _judged(without, Q, np.concatenate(products), relevance(asked, carried, 0, len(Q)))
    tables_ms, answers_ms = query_times(model, index, Q[:TIMED_QUERIES])
    return {
        "fit_seconds": fit_seconds,
        "product_seconds": median(product_seconds),  # of one float32 product X'X
        "fit_ratio": fit_seconds / median(product_seconds),
        "peak_memory_mb": peak,  # above the memory of the process before the fit
        "accuracy": accuracy,  # fraction of queries whose most probable label is one of theirs
        "bayes_accuracy": bayes,  # None where rows carry several labels
        "accuracy_ratio": None if bayes is None else accuracy / bayes,
        "items": len(some),
        "item_labels": len(among),  # number of labels among which those of items are drawn
        "labelled": labelled,  # compared with stored labels
        "unlabelled": unlabelled,  # compared with products of float probabilities
        "tables_ms": tables_ms,  # from one vector to its look-up tables, on one thread
        "answers_ms": answers_ms,  # from one vector to its first ten items
        "distinct_codes": len(np.unique(codes, axis=0)),  # of items with labels
    }


def _accuracies(model: SupervisedQuantizer, classes: GaussianClasses) -> tuple[float, float | None]:
    """Return the fractions of new queries for which the most probable label and the Bayes rule are right."""
    Q, labels = classes.draw(ACCURACY_QUERIES, stream=_ACCURACY)
    found = [model.predict_proba(Q[start:stop]).argmax(axis=1) for start, stop in classes.blocks(len(Q))]
    carried = labels.sparse()  # (q, L)
    every = np.arange(len(Q))
    right = float(carried[every, np.concatenate(found)].mean())
    return right, None if classes.several else float(carried[every, classes.bayes(Q)].mean())


def _classes_of_items(case: Case, n_items: int, rng: np.random.Generator) -> Array:
    """Return the classes of items and queries, few enough for queries to have true neighbours."""
    if case.several or n_items >= MIN_PER_CLASS * case.labels:
        return np.arange(case.labels)
    return np.sort(rng.permutation(case.labels)[: max(n_items // 10, 1)])


def _rows_of(labels: Labels, among: Array, n_items: int, rng: np.random.Generator) -> Array:
    """Return the row numbers of `n_items` training rows of these classes, or of all if there are fewer."""
    rows = np.arange(len(labels))
    if labels.indices is not None:
        rows = rows[np.isin(labels.indices, among)]
    return np.sort(rng.permutation(rows)[:n_items])


def _judged(index: CodeIndex, Q: Float32, best: Array, relevant: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Return the quality of an index with n items, and that of the order by the best scores (n, q), largest first.

    Queries without a true neighbour do not count.
    """
    asked = relevant.any(axis=1)
    order = index.search(Q, len(index))[1]
    orders = (np.take_along_axis(relevant, order, axis=1), ranked(-best.T, relevant)[1])
    ours, theirs = (float(average_precision(each[asked]).mean()) for each in orders)
    ours_at_10, theirs_at_10 = (float(precision_at(each[asked], [10]).mean()) for each in orders)
    return {
        "queries": int(asked.sum()),
        "map": ours,
        "map_best": theirs,
        "map_ratio": ours / theirs,
        "precision_at_10": ours_at_10,
        "precision_at_10_best": theirs_at_10,
    }


def query_times(model: SupervisedQuantizer, index: CodeIndex, Q: Float32) -> tuple[float, float]:
    """Return the median milliseconds from one vector to its tables and to its first ten items, on one thread."""
    steps = (partial(model.codec_.query_tables, n_jobs=1), partial(index.search, k=10, n_jobs=1))
    with single_blas():
        for step in steps:
            step(Q[:1])
        spent = [[seconds_of(partial(step, query[None])) for step in steps] for query in Q]
    tables, answers = zip(*spent, strict=True)
    return 1e3 * median(tables), 1e3 * median(answers)


def _as_given(labels: Labels) -> Any:
    """Return labels in the form that users give them: class numbers (n,) or a sparse indicator (n, L)."""
    return labels.indices if labels.indices is not None else labels.indicator
