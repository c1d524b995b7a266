"""Report: what many labels cost, and what short codes keep of them, on classes for which the best answers are known.

Everything is measured for each number of labels and each length of code in a fresh process, so that the peak of memory is that
of one fit. Each figure stands beside what it could be at the best: the classifier beside the Bayes rule, items with labels
beside storing the label, items without beside the float probabilities of the same classifier.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from supquant.arrays import Array, Float32
from supquant.errors import InputError
from supquant.evaluation.ordering import ranked
from supquant.index import CodeIndex
from supquant.labels import Labels
from supquant.metrics import average_precision, precision_at, relevance
from supquant.parallel import single_blas
from supquant.quantizers import SupervisedQuantizer
from supquant.validation import check_integer, check_nonnegative, check_positive, resolve_jobs
from supquant_experiments.bench.gaussian_classes import SEVERAL_SPREAD, GaussianClasses, spread_for
from supquant_experiments.machine import describe_machine, peak_memory_mb, resident_memory_mb

SIZES = {
    100: (20_000, 64),
    400: (8_000, 64),
    1_000: (200_000, 384),
    10_000: (200_000, 128),
    100_000: (1_000_000, 128),
}
"""Rows and dimensions by the number of labels, one a row, where the caller does not say them."""

SEVERAL_LABELS = 5_000
SEVERAL_SIZE = (100_000, 128)
"""Labels, and rows and dimensions, of the set whose rows carry several labels."""

ITEMS = 20_000
"""Items of one ranking at the most."""

FEWEST_OF_CLASS = 5
"""Where a class had fewer items than this on average, items and queries are of some classes only: ten items a class."""

RANKING_QUERIES, ACCURACY_QUERIES, TIMED_QUERIES = 200, 1000, 100
FEWEST_ROWS = 256  # a row for every word of a codebook
MOST_DIMENSIONS = 10_000  # of more, `spread_for` finds no spread

_TRAINING, _ACCURACY, _RANKING, _UNLABELLED = range(4)  # streams of rows


@dataclass(frozen=True)
class Case:
    """One set of rows and one length of code: what a process is told."""

    labels: int
    several: bool  # labels a row
    rows: int
    dimensions: int
    spread: float
    bits: int
    new_classes: float | None
    seed: int

    @property
    def name(self) -> str:
        """What a reader knows it by."""
        return f"{self.labels:,} labels{', several a row' if self.several else ''}, {self.bits} bits"


@dataclass(frozen=True)
class Judged:
    """How good rankings are, beside the best that the same classifier could do, over the queries that have a true neighbour."""

    queries: int
    map: float
    map_best: float
    map_ratio: float
    precision_at_10: float
    precision_at_10_best: float


@dataclass(frozen=True)
class Measured:
    """What one process measured."""

    fit_seconds: float
    product_seconds: float  # of one float32 X'X, the best of three
    fit_ratio: float
    peak_memory_mb: float  # above what the process held before the fit
    accuracy: float  # share of queries whose most probable label is one that they carry
    bayes_accuracy: float | None  # None where rows carry several labels
    accuracy_ratio: float | None
    items: int
    item_labels: int  # that items may have
    labelled: Judged  # beside storing the labels
    unlabelled: Judged  # beside products of float probabilities
    tables_ms: float  # from one vector to its look-up tables, on one thread
    answers_ms: float  # and to the first ten items
    distinct_codes: int  # of items with labels


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
    """Fit Gaussian classes, and measure what it takes and what codes keep.

    Parameters
    ----------
    labels : sequence of int
        How many labels there are, one a row.
    several : bool
        Whether a set of `SEVERAL_LABELS` labels is measured too, 1 to 5 a row.
    rows, dimensions : int, optional
        Of every set; by default as `SIZES` and `SEVERAL_SIZE` have them.
    spread : float, optional
        Of the means of classes. By default the Bayes rule is right for 99 rows of 100; with several labels a row it is 1.
    bits : sequence of int
        Of a code, multiples of 8.
    new_classes : float, optional
        The share of new classes that the fit is told to expect, 0 by default: there are none. None lets the library estimate
        it; position then counts beside labels, and items without labels are ranked by both.
    seed : int
        Of rows and fits.
    on_case : callable, optional
        Told what is measured next.

    Returns
    -------
    dict
        Ready for `json`.
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
        measured.append(asdict(case) | asdict(_in_a_process(case)))
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
    """Check the size of one set and fill in what was not given, in the order of the fields of `Case`."""
    check_integer(labels, "labels", 2)
    usual = SEVERAL_SIZE if several else SIZES.get(labels)
    if usual is None and (rows is None or dimensions is None):
        sizes = ", ".join(map(str, SIZES))
        raise InputError(f"rows and dimensions must be given for {labels} labels; they are known for {sizes}")
    rows = check_integer(usual[0] if usual and rows is None else rows, "rows", FEWEST_ROWS)
    dimensions = check_integer(
        usual[1] if usual and dimensions is None else dimensions, "dimensions", 1, MOST_DIMENSIONS
    )
    if rows < labels:
        raise InputError(f"there must be a row for every label, got {rows} rows for {labels} labels")
    if spread is None:
        spread = SEVERAL_SPREAD if several else spread_for(labels, dimensions)
    return labels, several, rows, dimensions, check_positive(spread, "spread")


def _in_a_process(case: Case) -> Measured:
    command = [sys.executable, "-m", __name__, json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"could not measure {case.name}: {done.stderr.strip().splitlines()[-1:]}")
    found = json.loads(done.stdout)
    return Measured(**found | {kind: Judged(**found[kind]) for kind in ("labelled", "unlabelled")})


def measure(case: Case) -> Measured:
    """Draw rows, fit, and measure, in this process."""
    classes = GaussianClasses(case.labels, case.dimensions, case.spread, case.several, case.seed)
    X, labels = classes.draw(case.rows, stream=_TRAINING, every=True)
    product_seconds = min(_seconds(lambda: X.T @ X) for _ in range(3))
    model = SupervisedQuantizer(case.bits // 8, new_classes=case.new_classes, random_state=case.seed)
    before = resident_memory_mb()
    fit_seconds = _seconds(lambda: model.fit(X, _as_given(labels)))
    peak = peak_memory_mb() - before
    accuracy, bayes = _accuracies(model, classes)

    rng = np.random.default_rng([case.seed, 2])
    n_items = min(ITEMS, case.rows)
    among = _classes_of_items(case, n_items, rng)
    some = _rows_of(labels, among, n_items, rng)
    Q, asked = classes.draw(RANKING_QUERIES, stream=_RANKING, among=among)
    p = model.predict_proba(Q)  # (q, L)
    codes = model.encode(X[some], _as_given(labels.take(some)))
    index = CodeIndex(model).add_codes(codes)  # sees that all items have labels, so that nothing is new
    labelled = _judged(
        index, Q, labels.take(some).sparse() @ p.T, relevance(asked, labels.take(some), 0, len(Q))
    )
    others, carried = classes.draw(n_items, stream=_UNLABELLED, among=among)
    products = [model.predict_proba(others[start:stop]) @ p.T for start, stop in classes.blocks(n_items)]
    without = CodeIndex(model).add_codes(model.encode(others))
    unlabelled = _judged(without, Q, np.concatenate(products), relevance(asked, carried, 0, len(Q)))
    tables_ms, answers_ms = _query_times(model, index, Q[:TIMED_QUERIES])
    return Measured(
        fit_seconds=fit_seconds,
        product_seconds=product_seconds,
        fit_ratio=fit_seconds / product_seconds,
        peak_memory_mb=peak,
        accuracy=accuracy,
        bayes_accuracy=bayes,
        accuracy_ratio=None if bayes is None else accuracy / bayes,
        items=len(some),
        item_labels=len(among),
        labelled=labelled,
        unlabelled=unlabelled,
        tables_ms=tables_ms,
        answers_ms=answers_ms,
        distinct_codes=len(np.unique(codes, axis=0)),
    )


def _accuracies(model: SupervisedQuantizer, classes: GaussianClasses) -> tuple[float, float | None]:
    """Return how often the most probable label is one of a fresh query, and how often the Bayes rule is right."""
    Q, labels = classes.draw(ACCURACY_QUERIES, stream=_ACCURACY)
    found = [model.predict_proba(Q[start:stop]).argmax(axis=1) for start, stop in classes.blocks(len(Q))]
    carried = labels.sparse()  # (q, L)
    every = np.arange(len(Q))
    right = float(carried[every, np.concatenate(found)].mean())
    return right, None if classes.several else float(carried[every, classes.bayes(Q)].mean())


def _classes_of_items(case: Case, n_items: int, rng: np.random.Generator) -> Array:
    """Return the classes that items and queries are of: so few that queries have some true neighbours."""
    if case.several or n_items >= FEWEST_OF_CLASS * case.labels:
        return np.arange(case.labels)
    return np.sort(rng.permutation(case.labels)[: max(n_items // 10, 1)])


def _rows_of(labels: Labels, among: Array, n_items: int, rng: np.random.Generator) -> Array:
    """Return the numbers of so many training rows of these classes, or of all there are."""
    rows = np.arange(len(labels))
    if labels.indices is not None:
        rows = rows[np.isin(labels.indices, among)]
    return np.sort(rng.permutation(rows)[:n_items])


def _judged(index: CodeIndex, Q: Float32, best: Array, relevant: npt.NDArray[np.bool_]) -> Judged:
    """Judge the order that an index gives its n items, beside that by the best scores (n, q), most first."""
    asked = relevant.any(axis=1)
    order = index.search(Q, len(index))[1]
    orders = (np.take_along_axis(relevant, order, axis=1), ranked(-best.T, relevant)[1])
    ours, theirs = (float(average_precision(each[asked]).mean()) for each in orders)
    ours_at_10, theirs_at_10 = (float(precision_at(each[asked], [10]).mean()) for each in orders)
    return Judged(
        queries=int(asked.sum()),
        map=ours,
        map_best=theirs,
        map_ratio=ours / theirs,
        precision_at_10=ours_at_10,
        precision_at_10_best=theirs_at_10,
    )


def _query_times(model: SupervisedQuantizer, index: CodeIndex, Q: Float32) -> tuple[float, float]:
    """Return the milliseconds from a vector alone to its tables, and to the first ten items: medians, on one thread."""
    steps = (
        partial(model.codec_.query_tables, n_jobs=1),
        partial(index.search, k=10, n_jobs=1),
    )
    with single_blas():
        for step in steps:
            step(Q[:1])
        spent = [[_seconds(partial(step, query[None])) for step in steps] for query in Q]
    tables, answers = zip(*spent, strict=True)
    return 1e3 * median(tables), 1e3 * median(answers)


def _as_given(labels: Labels) -> Any:
    """Return labels as a caller has them: class numbers (n,), or a sparse indicator (n, L)."""
    return labels.indices if labels.indices is not None else labels.indicator


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(measure(Case(**json.loads(sys.argv[1]))))))
