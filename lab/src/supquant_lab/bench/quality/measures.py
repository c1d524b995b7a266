"""Report: what is measured of one fit of the default model.

Fits have the defaults of `SupervisedQuantizer`. Figures are named after what they measure; `known` and `new` are queries, or
items, of known and of new classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min
from sklearn.metrics.cluster import contingency_matrix

from supquant.arrays import Array, Flags, Float32, RowNumbers
from supquant.index import CodeIndex
from supquant.inputs.labels import Labels, read_labels
from supquant.model import SupervisedQuantizer
from supquant_lab.bench.labels import TIMED_QUERIES, query_times
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.bench.quality.plan import Case
from supquant_lab.bench.timing import seconds_of
from supquant_lab.datasets import Dataset, load
from supquant_lab.machine import peak_memory_mb, resident_memory_mb
from supquant_lab.methods import Fitted, Settings, Training, apply_steps, find_method
from supquant_lab.methods.codes import FittedCodes
from supquant_lab.methods.compared import FittedProbabilities
from supquant_lab.probabilities import OpenCalibration, judge_first_answers
from supquant_lab.problem import Problem, pose
from supquant_lab.quality import RankingQuality, evaluate_scores

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "new_classes=0": {"new_classes": 0},
    "fit_rows=all": {},
}
"""Parameters of the quantizer by variant; with `fit_rows=all`, the fit is also given the database without labels."""

LEFT_OUT: Mapping[str, Callable[[int], int]] = {"one": lambda _: 1, "fifth": lambda n: max(1, n // 5)}
"""How many of n classes have no row in the fit that is extended, by variant."""

EXTENDING_ROWS = 5
"""Number of labelled rows of each class that `extend` gets."""

FIT_THREADS = 2
"""Number of threads of a timed fit."""

CLUSTERING_STARTS, MAX_CLUSTERING_ROUNDS = 3, 100
"""How often k-means starts, of which the best run counts, and the maximum number of its rounds."""

Figures = dict[str, float]

Numbers = NDArray[np.signedinteger[Any]]


def measure(case: Case, n_jobs: int | None = None) -> Figures:
    """Return the figures of a cell.

    Examples
    --------
    >>> from supquant_lab.bench.quality.plan import Line
    >>> figures = measure(Case(Line("paper", "digits", 600, "", 16), seed=0))
    >>> sorted(figures)
    ['calibration', 'float', 'forecast', 'map', 'ratio', 'recall_within_class']
    """
    by_kind = {"extend": measure_extending, "discover": measure_discovery, "fit": measure_fit}
    return by_kind.get(case.line.kind, measure_ranking)(case, n_jobs)


@cache
def _dataset(name: str, rows: int | None) -> Dataset:
    data = load(name)
    return data if rows is None or rows >= len(data) else data.sample(rows)


def _pose(case: Case, protocol: str) -> Problem:
    fit_rows = "all" if case.line.variant == "fit_rows=all" else None
    return pose(
        _dataset(case.line.data, case.line.rows), protocol=protocol, seed=case.seed, fit_rows=fit_rows
    )


def _fit(case: Case, training: Training, n_jobs: int | None) -> FittedCodes:
    parameters = VARIANTS.get(case.line.variant, {})
    settings = Settings(seed=case.seed, ranking="label", n_jobs=n_jobs, parameters=parameters)
    fitted = find_method("sq")(training, settings).fitted(case.line.bits)
    assert isinstance(fitted, FittedCodes)
    return fitted


# rankings ----------------------------------------------------------------------------------------------------------------


def measure_ranking(case: Case, n_jobs: int | None) -> Figures:
    """Return MAP and calibration under a protocol, and what other items reach on the same split.

    `float` ranks by products of the float probabilities of the same classifier, or of the labels of items that have some; `pq` by
    product quantization of the same size, and `cosine` by the vectors. `ratio` is the MAP of codes over that of `float`, and
    `forecast` what the summary of the fit expects of it.
    """
    problem = _pose(case, case.line.kind)
    fitted = _fit(case, problem.training, n_jobs)
    codes = fitted.learned() if problem.learned else fitted.encoded(problem.database)
    quality = _quality(problem, fitted, codes, n_jobs)
    figures = _map_figures("map", quality)
    floats = FittedProbabilities(fitted, problem.y)
    best = floats.learned() if problem.learned else floats.encoded(problem.database)
    figures |= _map_figures("float", _quality(problem, floats, best, n_jobs))
    which = "" if problem.new is None else "_known"
    figures[f"ratio{which}"] = figures[f"map{which}"] / figures[f"float{which}"]
    expected = fitted.estimator.summary_
    assert expected is not None
    foretold = {
        "paper": ("", expected.map_labelled),
        "unlabelled": ("", expected.map_unlabelled),
        "open": ("_new", expected.map_new),
    }
    where, forecast = foretold.get(case.line.kind, ("", None))
    if forecast is not None:
        figures[f"forecast{where}"] = forecast
    if problem.learned:
        assert quality.recall_within_class is not None
        figures["recall_within_class"] = quality.recall_within_class
    if problem.new is not None or case.line.kind == "unseen":
        for name in ("pq", "cosine"):
            method = find_method(name)(problem.training, Settings(seed=case.seed, n_jobs=n_jobs))
            other = method.fitted(case.line.bits)
            items = other.encoded(problem.database)
            figures |= _map_figures(name, _quality(problem, other, items, n_jobs, method.rankings[0]))
    calibration = judge_first_answers(
        fitted.estimator.codec_,
        codes,
        problem.queries,
        problem.query_labels,
        problem.database_labels,
        new_queries=problem.new_queries,
    )
    if isinstance(calibration, OpenCalibration):
        errors = {"calibration_known": calibration.error_known, "calibration_new": calibration.error_new}
        return figures | errors
    return figures | {"calibration": calibration.error}


def _quality(
    problem: Problem, fitted: Fitted, items: Array, n_jobs: int | None, ranking: str = "label"
) -> RankingQuality:
    return evaluate_scores(
        partial(apply_steps, fitted.steps(items, ranking)),
        problem.queries,
        problem.query_labels,
        problem.database_labels,
        cut=problem.cut,
        vectors=(problem.queries, problem.database) if problem.learned else None,
        new=problem.new,
        n_jobs=n_jobs,
    )


def _map_figures(name: str, quality: RankingQuality) -> Figures:
    """Return MAP by its name in a record; with new classes, the harmonic mean, and those of known and of new queries."""
    if quality.open is None:
        return {name: quality.map}
    return {
        name: quality.open.map,
        f"{name}_known": quality.open.known.map,
        f"{name}_new": quality.open.new.map,
    }


# new classes -------------------------------------------------------------------------------------------------------------


def measure_extending(case: Case, n_jobs: int | None) -> Figures:
    """Return accuracy and MAP before and after a fit learns classes that it had left out, from a few rows of each.

    Items of all classes are encoded once, without labels. The accuracy is that of `predict` over the items.
    """
    problem = _pose(case, "unlabelled")
    classes = problem.database_labels.classes
    left_out = np.random.default_rng(case.seed).permutation(len(classes))
    left_out = left_out[: LEFT_OUT[case.line.variant](len(classes))]
    given = read_labels(problem.y, classes=classes).indices  # (n,)
    assert given is not None
    is_new = np.isin(given, left_out)
    fitted = _fit(case, Training(problem.X[~is_new], problem.y[~is_new]), n_jobs)
    codes = fitted.encoded(problem.database)
    before = _extending_figures(problem, fitted, codes, left_out, n_jobs)
    few = np.concatenate([np.flatnonzero(given == label)[:EXTENDING_ROWS] for label in left_out])
    fitted.estimator.extend(problem.X[few], problem.y[few])
    after = _extending_figures(problem, fitted, codes, left_out, n_jobs)
    return {f"{name}_before": value for name, value in before.items() if name != "accuracy_new"} | after


def _extending_figures(
    problem: Problem, fitted: FittedCodes, codes: Array, left_out: RowNumbers, n_jobs: int | None
) -> Figures:
    asked, carried = problem.query_labels.indices, problem.database_labels.indices
    assert asked is not None
    assert carried is not None
    new_queries, new_items = np.isin(asked, left_out), np.isin(carried, left_out)
    right = fitted.estimator.predict(problem.database) == problem.database_labels.classes[carried]
    quality = evaluate_scores(
        partial(apply_steps, fitted.steps(codes, "label")),
        problem.queries,
        problem.query_labels,
        problem.database_labels,
        new=(new_queries, new_items),
        n_jobs=n_jobs,
    ).open
    assert quality is not None
    return {
        "accuracy_known": float(right[~new_items].mean()),
        "accuracy_new": float(right[new_items].mean()),
        "map_known": quality.known.map,
        "map_new": quality.new.map,
    }


def measure_discovery(case: Case, n_jobs: int | None) -> Figures:
    """Return the clustering accuracy of rows without labels, of known and of new classes, for several ways to find classes.

    The k-means methods are told the true number of classes; `discover` of the quantizer is not. `groups` is the number of classes
    that it found, and `classes` that of the new ones.
    """
    problem = _pose(case, "open")
    labels, X = problem.database_labels, problem.unlabelled
    assert labels.indices is not None
    assert problem.new_items is not None
    rng = np.random.default_rng(case.seed)
    kmeans = KMeans(labels.n_labels, n_init=CLUSTERING_STARTS, random_state=case.seed)
    found = {"kmeans": kmeans.fit_predict(X), "semi_kmeans": _semi_supervised_kmeans(problem, rng)}
    found["discover"] = _discovered(_fit(case, problem.training, n_jobs), X, labels)
    figures = {
        "groups": float(len(np.unique(found["discover"][found["discover"] >= labels.n_labels]))),
        "classes": float(len(np.unique(labels.indices[problem.new_items]))),
    }
    for name, clusters in found.items():
        right = clustered_rightly(clusters, labels.indices)
        for which, rows in (("", ...), ("_known", ~problem.new_items), ("_new", problem.new_items)):
            figures[f"{name}{which}"] = float(right[rows].mean())
    return figures


def _discovered(fitted: FittedCodes, X: Float32, labels: Labels) -> RowNumbers:
    """Return a cluster (n,) for each row: the number of its label if it is known, or a higher number for a found class."""
    clusters: RowNumbers = np.asarray(fitted.estimator.discover(X)) + labels.n_labels
    known = clusters < labels.n_labels
    predicted = read_labels(fitted.estimator.predict(X[known]), classes=labels.classes).indices
    assert predicted is not None
    clusters[known] = predicted
    return clusters


def _semi_supervised_kmeans(problem: Problem, rng: np.random.Generator) -> RowNumbers:
    """Return a cluster (u,) for each row without a label; rows with labels stay in the cluster of their class.

    "Generalized Category Discovery" (CVPR 2022), on the vectors as they are.
    """
    labels, X = problem.database_labels, problem.unlabelled
    given = read_labels(problem.y, classes=labels.classes).indices  # (n,), the known classes come first
    assert given is not None
    every_row = problem.training.every_row
    centres = _means(problem.X, given, np.zeros((int(given.max()) + 1, X.shape[1])))
    while len(centres) < labels.n_labels:  # as k-means++ does
        distances = pairwise_distances_argmin_min(X, centres, metric="sqeuclidean")[1].astype(np.float64)
        centres = np.vstack([centres, X[rng.choice(len(X), p=distances / distances.sum())]])
    clusters: RowNumbers = np.zeros(0, dtype=np.int64)
    for _ in range(MAX_CLUSTERING_ROUNDS):
        last, clusters = clusters, pairwise_distances_argmin(X, centres)
        if np.array_equal(last, clusters):
            break
        centres = _means(every_row, np.concatenate([given, clusters]), centres)
    return clusters


def _means(X: Float32, clusters: Numbers, centres: Array) -> Array:
    """Return the means (k, p) of the rows of each cluster; the centre of a cluster without rows stays."""
    rows = np.arange(len(X))
    members = csr_array((np.ones(len(X)), (clusters, rows)), shape=(len(centres), len(X)))
    counts = members.sum(axis=1)[:, None]
    return np.where(counts > 0, members @ X / np.maximum(counts, 1), centres).astype(np.float32)


def clustered_rightly(clusters: Numbers, classes: Numbers) -> Flags:
    """Return whether each row is in the cluster of its class, for the best assignment of clusters to classes.

    Examples
    --------
    >>> clustered_rightly(np.array([7, 7, 7, 2, 2]), np.array([0, 0, 1, 1, 1]))
    array([ True,  True, False,  True,  True])
    """
    names, numbers = np.unique(clusters, return_inverse=True)
    best = np.full(len(names), -1)
    found, meant = linear_sum_assignment(contingency_matrix(classes, clusters).T, maximize=True)
    best[found] = np.unique(classes)[meant]
    return np.asarray(best[numbers] == classes)


# time --------------------------------------------------------------------------------------------------------------------


def measure_fit(case: Case, _n_jobs: int | None) -> Figures:
    """Return the seconds and the memory of a fit to labelled rows in a fresh process, and the time of a query on one thread.

    The memory is the peak above that of the process before the fit. `search_us` is the time from a vector to its first ten items
    among the training rows, `tables_us` that of features and tables alone, in microseconds.
    """
    problem = _pose(case, "paper")
    with temporary_folder() as folder:
        np.savez(folder / "rows.npz", X=problem.X, y=problem.y, queries=problem.queries[:TIMED_QUERIES])
        return run_fresh(
            fit_file, folder / "rows.npz", case.line.bits, case.seed, purpose=f"measure {case.name}"
        )


def fit_file(path: str, bits: int, seed: int) -> Figures:
    """Fit the rows of a file in this process, and return the figures of `measure_fit`."""
    with np.load(Path(path)) as file:
        X, y, queries = file["X"], file["y"], file["queries"]
    model = SupervisedQuantizer(bits // 8, random_state=seed, n_jobs=FIT_THREADS)
    before = resident_memory_mb()
    seconds = seconds_of(lambda: model.fit(X, y))
    peak_mb = peak_memory_mb() - before
    tables_ms, search_ms = query_times(model, CodeIndex(model).add_codes(model.training_codes_), queries)
    return {
        "fit_seconds": seconds,
        "peak_mb": peak_mb,
        "search_us": 1e3 * search_ms,
        "tables_us": 1e3 * tables_ms,
    }
