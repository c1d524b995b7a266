"""Report: one cell of a comparison, from a data set to a record of everything measured."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from supquant.arrays import Array
from supquant.codec import AdditiveCodec, SemanticCodec
from supquant.errors import InputError
from supquant.evaluation import (
    PROTOCOLS,
    RetrievalQuality,
    Tuning,
    evaluate_scores,
    judge_first_answers,
    tune,
)
from supquant.validation import check_choice
from supquant_experiments.machine import describe_machine, peak_memory_mb
from supquant_experiments.methods import (
    METHODS,
    STEP_NAMES,
    EstimatorMethod,
    Fitted,
    KeptFits,
    Method,
    Settings,
    Steps,
    Training,
    apply_steps,
)
from supquant_experiments.methods.codes import FittedCodes
from supquant_experiments.problem import Problem, pose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from supquant_experiments.datasets import Dataset
    from supquant_experiments.methods.interface import Callback

TIMED_QUERIES = 50
TIMED_ROUNDS, TIMED_SECONDS = 20, 1.0
"""So often the same queries are timed, unless that takes longer."""

RANKINGS = ("euclidean", "hamming", "semantic", "position", "cosine")


@dataclass(frozen=True)
class Cell:
    """What was measured; its fields are those of the JSON file.

    Attributes
    ----------
    dataset, method, bits, protocol, ranking, seed
        Which cell it is. The length of methods whose items are no codes, and of `classifier`, is what was asked for; their
        size is in `index_bytes_per_item`.
    map : float
        Of the codes that the method's published figures are about: under `paper` those learned with the
        labels for quantizers and `classifier`, else those made from the vectors alone. Under `open` it is the harmonic mean
        of `map_known` and `map_new`, and so is every other MAP below, unless something else is said.
    map_learned, map_encoded : float or None
        Each of the two; the first is None where there are no learned codes of the database.
    map_tie_aware : float
        `map` over all orders of items that score equal; `map_learned_tie_aware` and `map_encoded_tie_aware`
        are those of the other two.
    map_known, map_new : float or None
        Under `open`: MAP over the whole database, of the queries of known classes and of those of new ones. Under other
        protocols None.
    map_known_only, map_new_only : float or None
        Under `open`: the same over the items of that kind alone.
    cut : int or None
        R: only so many of the first items count in any MAP; all if None.
    precision_at : mapping
        The share of true neighbours among the first 1, 10, 100 and 1,000.
    precision_at_recall : mapping
        Precision where so much of the true neighbours has been found, at 20 levels.
    recall_at_10 : float or None
        The share of the ten vectors of greatest cosine to a query, as they were made ready, that is among the first ten items
        that `map` was measured on; the mean over queries, of which the first 2,500 are asked.
    recall_within_class : float or None
        The same among the items that share a label with the query. Both are None in files that were written before they
        were measured.
    distinct_codes : int or None
        Different codes in the database that `map` was measured on.
    quantization_error : float or None
        |S - XP|^2 over the variance of XP on that database.
    fit_seconds : float
        Of this fit alone; `parameters["chain_seconds"]` has that of the whole chain.
    truncated : bool
        Whether the time limit ended the fit, or one that it started from.
    convergence : sequence of (float, float)
        Seconds and objective after each step of the fit.
    query_ms : mapping
        Median over single queries on one thread, by step and in total: features (the kernel), projection, tables
        and scan of quantizers; features, encode (projection and bits) and scan of hashing.
    calibration : mapping or None
        Of the scores of every query's first 100 answers, where they are probabilities: `error` (expected calibration error in
        15 bins of equal mass), `brier`, and `base_brier`, that of the rate of all. Under `open` also `error_known` and
        `error_new`, over the queries of each kind.
    index_bytes_per_item, peak_memory_mb, cell_seconds : float
        The last is the time of everything, with those fits that were made for it.
    parameters, machine : mapping
        Of the parameters, `fit_rows` says which rows the method was given, `n_unlabelled` how many of them without labels.
    command : str
        What makes the cell again.
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
        """Give a dictionary that `json` can write."""
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
    """Measure one method at several code lengths; lengths of one chain are fitted once.

    Parameters
    ----------
    dataset : Dataset
    problem : Problem, optional
        The data set as `pose` divides it for this protocol, seed, `n_queries` and `fit_rows`, where it is at hand already.
    method : str
        A name in `METHODS`.
    bits : sequence of int
        Multiples of 8. `sq` fits a longer code from the shorter one, whether that one was asked for or not.
    protocol : {"paper", "unlabelled", "unseen", "open"}
    ranking : {"euclidean", "hamming", "semantic", "position", "cosine"}, optional
        The method's own by default.
    n_queries : int, optional
    fit_rows : {"labelled", "all"}, optional
        Whether the rows of the database are given to the method too, without labels; see
        `supquant.evaluation.resolve_fit_rows` for the default. Unsupervised methods are fitted to them, and so is `sq`
        ranked by meaning on features of its own; others take no notice of them.
    settings : Settings, optional
        Its `seed` is the seed of the split too.
    tuning : "validate", Tuning or None
        Choose what the method's `grid` names by validation on the training rows, at the first of the lengths;
        take the best of points found before; or leave the parameters of `settings`.
    tuning_file : path, optional
        Where "validate" remembers the points it has finished.
    tuning_rows : int
        Training rows that "validate" uses at the most.
    kept : KeptFits, optional
        Where fits are kept; one that is there is not made again.
    callback : callable, optional
        Gets `Progress` events.

    Yields
    ------
    Cell
        One for each length, in the order given.

    Examples
    --------
    >>> from supquant_experiments.datasets import load
    >>> (cell,) = run_cells(load("digits").sample(500), method="euclidean")
    >>> cell.index_bytes_per_item, cell.map > 0.5
    (256.0, True)
    """
    settings = settings or Settings()
    ranking = check_cells(method, bits, protocol, ranking)
    settings = replace(settings, ranking=ranking)
    kind = METHODS[method]
    if problem is None:
        problem = pose(dataset, protocol=protocol, seed=settings.seed, n_queries=n_queries, fit_rows=fit_rows)
    training = Training(problem.X, problem.y, problem.unlabelled)
    budget: dict[str, Any] = {"points": 0}
    if tuning is not None:
        if isinstance(tuning, str):
            check_choice(tuning, "tuning", ("validate",))
            tuning = _validated(
                kind(training, settings, callback),
                bits[0],
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
        if fitted is not last:  # some methods are the same at any length
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
    """Refuse cells that cannot be, before anything is loaded; give the ranking, the method's own if None.

    Examples
    --------
    >>> check_cells("sdh", [16, 32], "paper", None)
    'hamming'
    """
    kind = METHODS[check_choice(method, "method", tuple(METHODS))]
    check_choice(protocol, "protocol", PROTOCOLS)
    ranking = check_choice(kind.rankings[0] if ranking is None else ranking, "ranking", RANKINGS)
    if ranking not in kind.rankings:
        raise InputError(f"method {method} has no ranking {ranking!r}; it has {', '.join(kind.rankings)}")
    for length in bits:
        if length < 8 or length % 8:
            raise InputError(f"bits must be a multiple of 8, one byte a codebook; got {length}")
    return ranking


def _measure(
    problem: Problem, fitted: Fitted, ranking: str, published: str, n_jobs: int | None
) -> dict[str, Any]:
    def quality(items: Any, *, published: bool) -> RetrievalQuality:
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


def _maps(name: str, quality: RetrievalQuality | None) -> dict[str, float | None]:
    """MAP and tie-aware MAP: over all queries, or the harmonic mean of both kinds; None where nothing was measured."""
    judged = None if quality is None else quality.open or quality
    return {
        name: None if judged is None else judged.map,
        f"{name}_tie_aware": None if judged is None else judged.map_tie_aware,
    }


def _calibration(problem: Problem, fitted: Fitted, items: Any, ranking: str) -> dict[str, float] | None:
    """Judge the probabilities of codes that know what they mean."""
    if ranking != "semantic" or not isinstance(fitted, FittedCodes):
        return None
    codec = fitted.estimator.codec_
    if not isinstance(codec, AdditiveCodec | SemanticCodec):
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


def time_queries(steps: Steps, queries: Array) -> dict[str, float]:
    """Time single queries on one thread: the milliseconds of each step, and their sum.

    Of each step the median over queries, in the best of several rounds: what else a machine does only adds to a time.

    Examples
    --------
    >>> sorted(time_queries({"scan": lambda query: query @ np.ones((2, 3))}, np.ones((5, 2))))
    ['encode', 'features', 'projection', 'scan', 'tables', 'total']
    """
    rounds: list[dict[str, float]] = []
    until = time.perf_counter() + TIMED_SECONDS
    with threadpool_limits(1):
        while not rounds or (len(rounds) < TIMED_ROUNDS and time.perf_counter() < until):
            rounds.append(_time_once(steps, queries))
    least = {name: min(each.get(name, 0.0) for each in rounds) for name in STEP_NAMES}
    return {**least, "total": sum(least.values())}


def _time_once(steps: Steps, queries: Array) -> dict[str, float]:
    """Give the median milliseconds of each step over queries, one at a time."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for row in range(len(queries)):
        value = queries[row : row + 1]
        for name, step in steps.items():
            began = time.perf_counter()
            value = step(value)
            spent[name].append(1000 * (time.perf_counter() - began))
    return {name: float(np.median(times)) for name, times in spent.items()}


def _validated(
    method: Method,
    bits: int,
    *,
    ranking: str | None,
    n_validation: int,
    max_rows: int,
    resume: str | Path | None,
) -> Tuning:
    """Tune a method on its training rows, with as many validation queries as there are queries."""
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
