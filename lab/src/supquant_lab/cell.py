"""Report: one cell of a comparison: one method measured on one data set at one code length."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from supquant.arrays import Array
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.inputs.parameters import check_choice
from supquant.model.codec import SupervisedCodec
from supquant_lab.machine import describe_machine, peak_memory_mb
from supquant_lab.methods import (
    STEP_NAMES,
    EstimatorMethod,
    Fitted,
    KeptFits,
    Method,
    Settings,
    apply_steps,
    find_method,
    is_own,
)
from supquant_lab.methods.codes import FittedCodes
from supquant_lab.methods.opponents.methods import Opponent
from supquant_lab.methods.opponents.validation import validated
from supquant_lab.probabilities import judge_first_answers
from supquant_lab.problem import Problem, pose
from supquant_lab.quality import RankingQuality, evaluate_scores
from supquant_lab.splits import PROTOCOLS
from supquant_lab.tuning import Tuning, tune

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from supquant_lab.datasets import Dataset
    from supquant_lab.methods import Steps
    from supquant_lab.methods.interface import Callback


TIMED_QUERIES = 50
"""Number of queries that are timed one at a time."""

RANKINGS = ("euclidean", "hamming", "label", "position", "cosine")
"""Names of all rankings; a method has some of them."""


MAX_ROUNDS = 20
"""The same queries are timed at most this many times."""

MAX_SECONDS = 1.0
"""No further round begins after this many seconds."""


@dataclass(frozen=True)
class Cell:
    """What was measured; its fields are those of the JSON record.

    Attributes
    ----------
    dataset, method, bits, protocol, ranking, seed
        Which cell it is. Of methods whose items have the same size at any length, `bits` is the length that was asked for.
    map : float
        MAP of the codes that the method's papers measure: under `paper` these are `map_learned` of quantizers and `classifier`,
        otherwise `map_encoded`. Under `open` this and the MAPs below are harmonic means over queries of known and new classes.
    map_learned, map_encoded : float or None
        MAP of the codes learned with labels, and of those made from the vectors alone. The first is None where the database
        has no learned codes.
    map_tie_aware : float
        The mean of `map` over all orders of items with equal scores. `map_learned_tie_aware` and `map_encoded_tie_aware` are
        the same for the other two.
    map_known, map_new : float or None
        Under `open`: MAP of queries of known classes and of new classes, over the whole database. None under other protocols.
    map_known_only, map_new_only : float or None
        Under `open`: the same, over items of known classes alone and of new classes alone.
    cut : int or None
        R: only this many of the first items count in MAP; all if None.
    precision_at : mapping
        Fraction of true neighbours among the first 1, 10, 100 and 1,000 items.
    precision_at_recall : mapping
        Precision at 20 levels of recall.
    recall_at_10 : float or None
        Fraction of the ten vectors with the greatest cosine to the query that are among its first ten items; the mean over the
        first 2,500 queries.
    recall_within_class : float or None
        The same among items that share a label with the query. Older records have neither.
    distinct_codes : int or None
        Number of different codes in the database.
    quantization_error : float or None
        |S - XP|^2 over the variance of XP, on the database.
    fit_seconds : float
        Seconds of this fit alone; `parameters["chain_seconds"]` includes the shorter codes that it started from.
    truncated : bool
        Whether this fit, or one that it started from, stopped at the time limit.
    convergence : sequence of (float, float)
        Seconds and objective after each step of the fit.
    query_ms : mapping
        Milliseconds of a single query on one thread, the median, by step and in total. Quantizers have the steps features,
        projection, tables and scan; hashing has features, encode and scan.
    calibration : mapping or None
        How well scores that are probabilities agree with the labels, over the first 100 answers of every query: `error`
        (expected calibration error, 15 bins of equal mass), `brier`, and `base_brier`, the Brier score of always giving the mean
        rate. Under `open` also `error_known` and `error_new`.
    index_bytes_per_item, peak_memory_mb, cell_seconds : float
        `cell_seconds` is the time of fitting and measuring together.
    parameters, machine : mapping
        `parameters["fit_rows"]` names the rows that the method was given; `parameters["n_unlabelled"]` counts those without
        labels.
    command : str
        The command that measures the cell again.
    """

    dataset: str
    method: str
    bits: int
    protocol: str
    ranking: str
    seed: int
    map: float
    map_learned: float | None
    map_encoded: float
    map_tie_aware: float
    map_learned_tie_aware: float | None
    map_encoded_tie_aware: float
    cut: int | None
    precision_at: Mapping[str, float]
    precision_at_recall: Mapping[str, float]
    distinct_codes: int | None
    quantization_error: float | None
    fit_seconds: float
    truncated: bool
    convergence: Sequence[tuple[float, float]]
    query_ms: Mapping[str, float]
    index_bytes_per_item: float
    peak_memory_mb: float
    cell_seconds: float
    parameters: Mapping[str, Any]
    machine: Mapping[str, Any]
    map_known: float | None = None
    map_new: float | None = None
    map_known_only: float | None = None
    map_new_only: float | None = None
    recall_at_10: float | None = None
    recall_within_class: float | None = None
    calibration: Mapping[str, float] | None = None
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that `json` can write."""
        return asdict(self)


def run_cells(
    dataset: Dataset,
    *,
    problem: Problem | None = None,
    method: str = "sq",
    bits: Sequence[int] = (16,),
    protocol: str = "paper",
    ranking: str | None = None,
    n_queries: int | None = None,
    fit_rows: str | None = None,
    settings: Settings | None = None,
    tuning: str | Tuning | None = None,
    tuning_file: str | Path | None = None,
    tuning_rows: int = 20_000,
    kept: KeptFits | None = None,
    callback: Callback | None = None,
) -> Iterator[Cell]:
    """Measure one method at several code lengths, and yield a cell for each.

    Parameters
    ----------
    dataset : Dataset
    problem : Problem, optional
        What `pose` returns for this data set, protocol, seed, `n_queries` and `fit_rows`, if the caller has it.
    method : str
        A name in `METHODS`, or your own class as ``package.module:Class``.
    bits : sequence of int
        Multiples of 8. `sq` fits a longer code from the shorter one, which is fitted first.
    protocol : {"paper", "unlabelled", "unseen", "open"}
    ranking : {"euclidean", "hamming", "label", "position", "cosine"}, optional
        The method's own by default.
    n_queries : int, optional
    fit_rows : {"labelled", "all"}, optional
        Whether the method is also given the rows of the database, without labels; `supquant_lab.splits.resolve_fit_rows` has
        the default. Unsupervised methods and `sq` with its label ranking use these rows; others ignore them.
    settings : Settings, optional
        Its `seed` is also the seed of the split.
    tuning : "validate", Tuning or None
        "validate" chooses the parameters of the method's `grid` by validation on the training rows, at the first length. A
        `Tuning` gives its best point. None keeps the parameters of `settings`.
    tuning_file : path, optional
        The file in which "validate" keeps finished points.
    tuning_rows : int, default=20000
        Maximum number of training rows that "validate" uses.
    kept : KeptFits, optional
        Keeps fits; a fit that is there is not made again.
    callback : callable, optional
        Gets `Progress` events.

    Yields
    ------
    Cell
        One for each length, in the order given.

    Examples
    --------
    >>> from supquant_lab.datasets import load
    >>> (cell,) = run_cells(load("digits").sample(500), method="euclidean")
    >>> cell.index_bytes_per_item, cell.map > 0.5
    (256.0, True)
    """
    settings = settings or Settings()
    ranking = check_cells(method, bits, protocol, ranking)
    settings = replace(settings, ranking=ranking)
    kind = find_method(method)
    if problem is None:
        problem = pose(dataset, protocol=protocol, seed=settings.seed, n_queries=n_queries, fit_rows=fit_rows)
    training = problem.training
    budget: dict[str, Any] = {"points": 0}
    if tuning is not None:
        if isinstance(tuning, str):
            check_choice(tuning, "tuning", ("validate",))
            tuning = _validated(
                kind(training, settings, callback),
                bits[0],
                protocol=protocol,
                ranking=ranking,
                n_validation=len(problem.queries),
                max_rows=tuning_rows,
                resume=tuning_file,
            )
        settings = replace(settings, parameters={**settings.parameters, **tuning.parameters})
        budget = {
            "points": len(tuning.points),
            "seconds": tuning.fit_seconds,
            "found": dict(tuning.parameters),
        }
    fitter = kind(training, settings, callback, kept)
    last: Fitted | None = None
    measured: dict[str, Any] = {}
    for length in bits:
        began = time.perf_counter()
        fitted = fitter.fitted(length)
        if fitted is not last:  # methods of one size return the same fit at any length
            measured = _measure(problem, fitted, ranking, kind.published, settings.n_jobs)
        last = fitted
        yield Cell(
            dataset=dataset.name,
            method=method,
            bits=length,
            protocol=protocol,
            ranking=ranking,
            seed=settings.seed,
            fit_seconds=fitted.fit_seconds,
            truncated=fitted.truncated,
            convergence=fitted.convergence,
            cut=problem.cut,
            parameters={
                **fitted.parameters,
                "chain_seconds": fitted.chain_seconds,
                "fit_rows": problem.split.fit_rows,
                "n_training": len(problem.X),
                "n_unlabelled": len(problem.unlabelled),
                "n_database": len(problem.database),
                "n_queries": len(problem.queries),
                "tuning": budget,
            },
            machine=describe_machine(),
            **measured,
            peak_memory_mb=peak_memory_mb(),
            cell_seconds=time.perf_counter() - began,
        )


def check_cells(method: str, bits: Sequence[int], protocol: str, ranking: str | None) -> str:
    """Return the ranking of cells, the method's own if None; raise an error if there can be no such cells.

    Examples
    --------
    >>> check_cells("sdh", [16, 32], "paper", None)
    'hamming'
    """
    kind = find_method(method)
    check_choice(protocol, "protocol", PROTOCOLS)
    ranking = kind.rankings[0] if ranking is None else ranking
    if not is_own(method):
        check_choice(ranking, "ranking", RANKINGS)
    if ranking not in kind.rankings:
        raise InputError(f"method {method} has no ranking {ranking!r}; it has {', '.join(kind.rankings)}")
    for length in bits:
        if length < 8 or length % 8:
            raise InputError(f"bits must be a multiple of 8, one byte per codebook; got {length}")
    return ranking


def _measure(
    problem: Problem, fitted: Fitted, ranking: str, published: str, n_jobs: int | None
) -> dict[str, Any]:
    def quality(items: Any, *, published: bool) -> RankingQuality:
        return evaluate_scores(
            partial(apply_steps, fitted.steps(items, ranking)),
            problem.queries,
            problem.query_labels,
            problem.database_labels,
            cut=problem.cut,
            vectors=(problem.queries, problem.database) if published else None,
            new=problem.new,
            n_jobs=n_jobs,
        )

    encoded = fitted.encoded(problem.database)
    learned = fitted.learned() if problem.learned else None
    by_vectors = learned is None or published == "encoded"
    of_encoded = quality(encoded, published=by_vectors)
    of_learned = None if learned is None else quality(learned, published=not by_vectors)
    items, best = (encoded, of_encoded) if of_learned is None or by_vectors else (learned, of_learned)
    return {
        **_maps("map", best),
        **_maps("map_learned", of_learned),
        **_maps("map_encoded", of_encoded),
        "map_known": best.open and best.open.known.map,
        "map_new": best.open and best.open.new.map,
        "map_known_only": best.open and best.open.known.map_only,
        "map_new_only": best.open and best.open.new.map_only,
        "precision_at": {str(k): precision for k, precision in best.precision_at.items()},
        "precision_at_recall": {
            f"{level:.2f}": precision for level, precision in best.precision_at_recall.items()
        },
        "recall_at_10": best.recall_at_10,
        "recall_within_class": best.recall_within_class,
        "distinct_codes": fitted.distinct(items),
        "quantization_error": fitted.quantization_error(problem.database, items),
        "query_ms": time_queries(fitted.steps(items, ranking), problem.queries[:TIMED_QUERIES]),
        "index_bytes_per_item": fitted.bytes_per_item(items),
        "calibration": _calibration(problem, fitted, items, ranking),
    }


def _maps(name: str, quality: RankingQuality | None) -> dict[str, float | None]:
    """Return MAP and tie-aware MAP; under `open` they are harmonic means over both kinds of queries. None without a quality."""
    judged = None if quality is None else quality.open or quality
    return {
        name: None if judged is None else judged.map,
        f"{name}_tie_aware": None if judged is None else judged.map_tie_aware,
    }


def _calibration(problem: Problem, fitted: Fitted, items: Any, ranking: str) -> dict[str, float] | None:
    """Return the calibration of scores that are probabilities; None for other scores."""
    if ranking != "label" or not isinstance(fitted, FittedCodes):
        return None
    codec = fitted.estimator.codec_
    if not isinstance(codec, AdditiveCodec | SupervisedCodec):
        return None
    return asdict(
        judge_first_answers(
            codec,
            items,
            problem.queries,
            problem.query_labels,
            problem.database_labels,
            new_queries=problem.new_queries,
        )
    )


def _validated(
    method: Method,
    bits: int,
    *,
    protocol: str,
    ranking: str | None,
    n_validation: int,
    max_rows: int,
    resume: str | Path | None,
) -> Tuning:
    """Return the tuning of a method on its training rows, with as many validation queries as the problem has queries.

    Opponents have a validation of their own, which is that of the protocol.
    """
    if isinstance(method, Opponent):
        found = validated(type(method), method.training, method.settings, bits, protocol)
        if found is not None:
            return found
    if not method.grid or not isinstance(method, EstimatorMethod):
        raise InputError(f"{type(method).__name__} has nothing to tune")
    return tune(
        method.estimator(bits),
        method.grid,
        method.vectors(method.training.X),
        method.training.y,
        codes=method.published,
        ranking=ranking,
        n_validation=min(n_validation, max_rows, len(method.training.X)),
        max_rows=max_rows,
        random_state=method.settings.seed,
        n_jobs=method.settings.n_jobs,
        resume=resume,
        callback=method.callback,
    )


def time_queries(steps: Steps, queries: Array) -> dict[str, float]:
    """Return the milliseconds of each step of a single query on one thread, and their sum.

    A time is the median over queries, in the fastest of several rounds: other work of the machine can only make it longer.

    Examples
    --------
    >>> sorted(time_queries({"scan": lambda query: query @ np.ones((2, 3))}, np.ones((5, 2))))
    ['encode', 'features', 'projection', 'scan', 'tables', 'total']
    """
    rounds: list[dict[str, float]] = []
    until = time.perf_counter() + MAX_SECONDS
    with threadpool_limits(1):
        while not rounds or (len(rounds) < MAX_ROUNDS and time.perf_counter() < until):
            rounds.append(_time_once(steps, queries))
    least = {name: min(each.get(name, 0.0) for each in rounds) for name in STEP_NAMES}
    return {**least, "total": sum(least.values())}


def _time_once(steps: Steps, queries: Array) -> dict[str, float]:
    """Return the median milliseconds of each step over queries, one at a time."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for row in range(len(queries)):
        value = queries[row : row + 1]
        for name, step in steps.items():
            began = time.perf_counter()
            value = step(value)
            spent[name].append(1000 * (time.perf_counter() - began))
    return {name: float(np.median(times)) for name, times in spent.items()}
