"""Score: the choice of the two penalties, gamma and mu, by validation MAP over a grid, as the paper does it.

Validation queries are a subset of the training rows; they stay in the training set and in the database.
"""

from __future__ import annotations

import json
import time
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash
from joblib import Parallel, delayed

from supquant.errors import InputError
from supquant.evaluation.retrieval import evaluate_tables
from supquant.evaluation.splits import default_queries
from supquant.labels import Labels, read_labels
from supquant.progress import Progress, Reporter
from supquant.quantizers import SupervisedQuantizer
from supquant.validation import (
    as_float32,
    check_integer,
    check_positive,
    check_vectors,
    random_generator,
    resolve_jobs,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from supquant.features import AnchorKernel

QUANTIZATION_WEIGHTS = tuple(10.0**exponent for exponent in range(-7, 3))
CONSTRAINT_WEIGHTS = tuple(10.0**exponent for exponent in range(-1, 3))


@dataclass(frozen=True)
class GridPoint:
    """One fit of the grid."""

    quantization_weight: float
    constraint_weight: float
    map: float
    fit_seconds: float


@dataclass(frozen=True)
class PenaltySelection:
    """The grid of validation MAP and its best pair.

    Attributes
    ----------
    quantization_weight, constraint_weight : float
        The best pair; the first one of the grid if several are equally good.
    points : tuple of GridPoint
        In the order of the grid, the constraint weight running fastest.
    """

    quantization_weight: float
    constraint_weight: float
    points: tuple[GridPoint, ...]

    def grid(self) -> tuple[npt.NDArray[np.float64], list[float], list[float]]:
        """Give the validation MAP (rows: quantization weights, columns: constraint weights) and both axes."""
        rows = list(dict.fromkeys(point.quantization_weight for point in self.points))
        columns = list(dict.fromkeys(point.constraint_weight for point in self.points))
        return np.array([point.map for point in self.points]).reshape(len(rows), len(columns)), rows, columns

    @classmethod
    def of(cls, points: Sequence[GridPoint]) -> PenaltySelection:
        """Choose the best of these points."""
        best = max(points, key=lambda point: point.map)
        return cls(best.quantization_weight, best.constraint_weight, tuple(points))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PenaltySelection:
        """Choose the best of the points in a file that `select_penalties` wrote as its `resume` file."""
        if not Path(path).is_file():
            raise InputError(f"no such file: {path}")
        _, points = _read_points(Path(path))
        if not points:
            raise InputError(f"{path} holds no finished point")
        return cls.of(points)


def select_penalties(
    X: Any,
    y: Any,
    *,
    n_codebooks: int = 2,
    quantization_weights: Sequence[float] = QUANTIZATION_WEIGHTS,
    constraint_weights: Sequence[float] = CONSTRAINT_WEIGHTS,
    n_validation: int | None = None,
    max_rows: int = 20_000,
    features: AnchorKernel | Literal["auto"] | None = "auto",
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    callback: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> PenaltySelection:
    """Choose `quantization_weight` and `constraint_weight` by validation MAP (Euclidean ranking).

    Parameters
    ----------
    X : array of shape (n, d)
        Training vectors.
    y : array of shape (n,) or (n, L)
        Their labels.
    n_codebooks : int
        The length at which the search is made; what it finds serves the longer codes too.
    quantization_weights, constraint_weights : sequence of float
        The grid.
    n_validation : int, optional
        Number of validation queries: by default 1,000, or a tenth of the rows if there are fewer than 10,000.
    max_rows : int
        A random subset of so many rows is used if there are more.
    features : "auto", AnchorKernel or None
        As for `SupervisedQuantizer`; they are computed once for the whole grid.
    random_state : int, Generator or None
        Chooses rows, queries and anchors, and starts every fit.
    n_jobs : int, optional
        Points fitted at a time, all cores by default. What is found does not depend on it.
    resume : path, optional
        A JSON file of finished points. It is written after every point; points it already holds are not
        fitted again. It is refused if it was made from other data or other settings (so give an integer as
        `random_state`).
    callback : callable, optional
        Gets a `Progress` after each point.
    **settings
        Handed to `SupervisedQuantizer`: ``solver``, ``max_iter``, ...

    Returns
    -------
    PenaltySelection

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> found = select_penalties(X, y, quantization_weights=[1e-5, 1e-3], constraint_weights=[0.1],
    ...                          max_rows=600, features=None, max_iter=3, random_state=0)
    >>> len(found.points)
    2
    """
    X = check_vectors(X)
    labels = read_labels(y, n_rows=len(X))
    for weight in quantization_weights:
        check_positive(weight, "quantization_weights")
    for weight in constraint_weights:
        check_positive(weight, "constraint_weights")
    grid = [(float(gamma), float(mu)) for gamma in quantization_weights for mu in constraint_weights]
    if not grid:
        raise InputError("quantization_weights and constraint_weights need at least one value each")
    check_integer(max_rows, "max_rows", 2)
    rng = random_generator(random_state)
    rows = rng.permutation(len(X))[:max_rows]
    seed = int(rng.integers(2**31))
    if n_validation is None:
        n_validation = default_queries(len(rows))
    check_integer(n_validation, "n_validation", 1, len(rows))

    X, labels = as_float32(X[rows]), labels.take(rows)
    feature_map = SupervisedQuantizer(features=features, n_jobs=n_jobs).fit_features(X, rng)
    if feature_map is not None:
        X = feature_map(X)
    finished = _Finished.open(resume, _fingerprint(X, labels, n_codebooks, n_validation, settings))
    left = [pair for pair in grid if pair not in finished.points]
    # points differ widely in cost and share nothing: a process with one thread each keeps all cores busy
    fits = Parallel(n_jobs=resolve_jobs(n_jobs), return_as="generator_unordered")(
        delayed(_fit_point)(
            SupervisedQuantizer(
                n_codebooks,
                features=None,
                quantization_weight=gamma,
                constraint_weight=mu,
                random_state=seed,
                n_jobs=1,
                **settings,
            ),
            X,
            labels,
            n_validation,
        )
        for gamma, mu in left
    )
    with Reporter(callback).stage("penalties", total=len(left)) as stage, _closing(fits):
        for point in fits:
            finished.add(point)
            stage.step(
                quantization_weight=point.quantization_weight,
                constraint_weight=point.constraint_weight,
                map=point.map,
            )

    return PenaltySelection.of([finished.points[pair] for pair in grid])


@contextmanager
def _closing(fits: Generator[GridPoint, None, None]) -> Iterator[None]:
    """End the processes of fits that are not waited for, as after Ctrl-C; joblib would warn about them."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.close()


def _fit_point(
    quantizer: SupervisedQuantizer, X: npt.NDArray[np.float32], labels: Labels, n_validation: int
) -> GridPoint:
    began = time.perf_counter()
    quantizer.fit(X, labels.indicator if labels.multilabel else labels.indices)
    seconds = time.perf_counter() - began
    tables = quantizer.tables(X[:n_validation])  # rows are in random order
    queries = labels.take(np.arange(n_validation))
    quality = evaluate_tables(tables, quantizer.training_codes_, queries, labels, n_jobs=1)
    return GridPoint(quantizer.quantization_weight, quantizer.constraint_weight, quality.map, seconds)


@dataclass
class _Finished:
    """The points fitted so far, and the file that remembers them."""

    path: Path | None
    fingerprint: str
    points: dict[tuple[float, float], GridPoint]

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None, fingerprint: str) -> _Finished:
        file = None if path is None else Path(path)
        if file is None or not file.exists():
            return cls(file, fingerprint, {})
        made_from, points = _read_points(file)
        if made_from != fingerprint:
            raise InputError(f"{file} was made from other data or settings; remove it or name another file")
        return cls(
            file,
            fingerprint,
            {(point.quantization_weight, point.constraint_weight): point for point in points},
        )

    def add(self, point: GridPoint) -> None:
        self.points[point.quantization_weight, point.constraint_weight] = point
        if self.path is not None:
            content = {
                "fingerprint": self.fingerprint,
                "points": [asdict(each) for each in self.points.values()],
            }
            unfinished = self.path.with_name(self.path.name + ".part")
            unfinished.write_text(json.dumps(content, indent=1))
            unfinished.replace(self.path)


def _read_points(path: Path) -> tuple[str, list[GridPoint]]:
    try:
        content = json.loads(path.read_text())
        return content["fingerprint"], [GridPoint(**point) for point in content["points"]]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not a file of penalty grid points: {error}") from error


def _fingerprint(
    X: npt.NDArray[Any], labels: Labels, n_codebooks: int, n_validation: int, settings: Mapping[str, Any]
) -> str:
    """Name the rows and the settings: points of other ones must not be mixed with these."""
    digest = xxhash.xxh3_128(X.tobytes())
    digest.update((labels.dense(0, len(labels)) if labels.indices is None else labels.indices).tobytes())
    digest.update(repr((n_codebooks, n_validation, sorted(settings.items()))).encode())
    return digest.hexdigest()
