"""Score: the parameters of an estimator are chosen from a grid by validation MAP, as the paper chooses gamma and mu.

Validation queries are some of the training rows; they stay in the training set and in the database. All methods are tuned in
the same way, and the time of every fit is recorded.
"""

from __future__ import annotations

import json
import time
import warnings
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xxhash
from joblib import Parallel, delayed
from sklearn.base import clone

from supquant.arrays import Array, Float32
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_choice, check_integer, random_generator, resolve_jobs
from supquant.inputs.validation import as_float32, check_vectors
from supquant.model import SupervisedQuantizer
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.published.anchor_kernel import fit_feature_map
from supquant_lab.splits import default_queries
from supquant_lab.time_limit import TimeIsUpError, TimeLimit

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from supquant.estimators.base import CodeEstimator

PENALTIES: Mapping[str, Sequence[float]] = {
    "quantization_weight": tuple(10.0**exponent for exponent in range(-7, 3)),
    "constraint_weight": tuple(10.0**exponent for exponent in range(-1, 3)),
}
"""The published grid of supervised quantization: powers of ten for gamma and mu."""


@dataclass(frozen=True)
class GridPoint:
    """One fit of the grid.

    Attributes
    ----------
    parameters : mapping of str to object
        The values that were tried.
    map : float
        Mean average precision of the validation queries.
    fit_seconds : float
        Duration of the fit in seconds.
    truncated : bool
        True if the time limit ended the fit.
    """

    parameters: Mapping[str, Any]
    map: float
    fit_seconds: float
    truncated: bool = False


@dataclass(frozen=True)
class Tuning:
    """The validation MAP of every point of a grid.

    Attributes
    ----------
    points : tuple of GridPoint
        In the order of the grid, the last parameter running fastest.
    """

    points: tuple[GridPoint, ...]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the point with the highest MAP; of equal points, the first of the grid."""
        return max(self.points, key=lambda point: point.map).parameters

    @property
    def fit_seconds(self) -> float:
        """Duration of all fits in seconds."""
        return sum(point.fit_seconds for point in self.points)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tuning:
        """Return the points of a `resume` file that `tune` wrote."""
        if not Path(path).is_file():
            raise InputError(f"no such file: {path}")
        _, points = _read_points(Path(path))
        if not points:
            raise InputError(f"{path} holds no finished point")
        return cls(tuple(points))


def tune(
    estimator: CodeEstimator,
    grid: Mapping[str, Sequence[Any]],
    X: Any,
    y: Any,
    *,
    codes: Literal["learned", "encoded"] = "learned",
    ranking: str | None = None,
    n_validation: int | None = None,
    max_rows: int = 20_000,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Tuning:
    """Fit an estimator at every point of a grid and measure the MAP of validation queries.

    Parameters
    ----------
    estimator : CodeEstimator
        It is not fitted itself. Its `features` are computed once for the whole grid, unless they are learned from labels.
    grid : mapping of str to sequence
        The values of each parameter; all combinations are tried.
    X : array-like of shape (n, d)
        Training vectors.
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Their labels.
    codes : {"learned", "encoded"}, default="learned"
        The codes of the database: learned with the labels, or encoded from the vectors.
    ranking : str or None, default=None
        Ranking of the queries; None for the default of the estimator.
    n_validation : int or None, default=None
        Number of validation queries. None is 1,000, or a tenth of the rows if there are fewer than 10,000.
    max_rows : int, default=20000
        If there are more rows, this number of them is drawn.
    random_state : int, numpy Generator or None, default=None
        Draws the rows, the queries, the anchors, and the seed of all fits.
    n_jobs : int or None, default=None
        Number of points fitted at a time; None for the number of cores. The result does not depend on it.
    resume : path or None, default=None
        A JSON file of finished points. It is written after every point, and points that it already holds are not fitted
        again. A file of other data or other settings is refused, so `random_state` should be an integer.
    time_limit : float or None, default=None
        Time that one fit may take, in seconds. A longer fit ends after its next step, and its point is `truncated`.
    callback : callable or None, default=None
        Called with a `Progress` after each point.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import PublishedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> quantizer = PublishedQuantizer(2, n_codewords=16, features=None, max_iter=3)
    >>> found = tune(quantizer, {"quantization_weight": [1e-5, 1e-3]}, X, y, max_rows=300, random_state=0, n_jobs=1)
    >>> len(found.points), list(found.parameters)
    (2, ['quantization_weight'])
    """
    check_choice(codes, "codes", ("learned", "encoded"))
    X = check_vectors(X)
    labels = read_labels(y, n_rows=len(X))
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if not grid or not points:
        raise InputError("a grid needs at least one parameter, and each at least one value")
    known = estimator.get_params(deep=False)
    if unknown := [name for name in grid if name not in known]:
        raise InputError(
            f"{type(estimator).__name__} has no parameter {unknown[0]!r}; it has {', '.join(known)}"
        )
    check_integer(max_rows, "max_rows", 2)
    rng = random_generator(random_state)
    rows = rng.permutation(len(X))[:max_rows]
    fixed: dict[str, Any] = {"n_jobs": 1, "random_state": int(rng.integers(2**31))}
    if n_validation is None:
        n_validation = default_queries(len(rows))
    check_integer(n_validation, "n_validation", 1, len(rows))

    X, labels = as_float32(X[rows]), labels.take(rows)
    if "callback" in known:
        fixed["callback"] = None  # a callback cannot be sent to other processes
    if "features" in known and not isinstance(
        estimator, SupervisedQuantizer
    ):  # whose features are learned from labels
        with single_blas():
            feature_map = fit_feature_map(estimator.features, X, rng, n_jobs)
        X = X if feature_map is None else feature_map(X)
        fixed["features"] = None
    estimator = clone(copy(estimator).set_params(**fixed))
    fingerprint = _fingerprint(X, labels, estimator, n_validation, codes, ranking)
    finished = _FinishedPoints.open(resume, fingerprint, points)
    left = [point for point in points if _point_key(point) not in finished.points]
    # fits take very different times and are independent, so processes of one thread each keep all cores busy
    fits = Parallel(n_jobs=resolve_jobs(n_jobs), return_as="generator_unordered")(
        delayed(_fit_point)(clone(estimator), point, X, labels, n_validation, codes, ranking, time_limit)
        for point in left
    )
    with Reporter(callback).stage("tuning", total=len(left)) as stage, _close_at_exit(fits):
        for point in fits:
            finished.add(point)
            numbers = {
                name: value for name, value in point.parameters.items() if isinstance(value, int | float)
            }
            stage.step(**numbers, map=point.map)
    return Tuning(tuple(finished.points[_point_key(point)] for point in points))


@contextmanager
def _close_at_exit(fits: Generator[GridPoint, None, None]) -> Iterator[None]:
    """End the processes of unfinished fits, for example after Ctrl-C, without joblib's warning about them."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.close()


def _fit_point(
    estimator: CodeEstimator,
    parameters: Mapping[str, Any],
    X: Float32,
    labels: Labels,
    n_validation: int,
    codes: str,
    ranking: str | None,
    time_limit: float | None,
) -> GridPoint:
    """Fit an estimator with some parameters and measure the MAP of the first `n_validation` rows; see `tune`."""
    if "callback" in estimator.get_params(deep=False):
        estimator.set_params(callback=TimeLimit(time_limit))
    began, truncated = time.perf_counter(), False
    try:
        estimator.set_params(**parameters).fit(X, labels.indicator if labels.multilabel else labels.indices)
    except TimeIsUpError:
        truncated = True
    seconds = time.perf_counter() - began
    tables = estimator.codec_.tables(X[:n_validation], ranking)  # the rows are in random order
    queries = labels.take(np.arange(n_validation))
    items = estimator.training_codes_ if codes == "learned" else estimator.encode(X)
    quality = evaluate_tables(tables, items, queries, labels, n_jobs=1)
    return GridPoint(parameters, quality.map, seconds, truncated)


@dataclass
class _FinishedPoints:
    """The points fitted so far, and the file that holds them in the order of the grid."""

    path: Path | None
    fingerprint: str
    points: dict[str, GridPoint]  # by key
    order: list[str]  # keys of all points of the grid

    @classmethod
    def open(
        cls, path: str | os.PathLike[str] | None, fingerprint: str, grid: Sequence[Mapping[str, Any]]
    ) -> _FinishedPoints:
        """Return the points of a file, or none if there is no file yet."""
        file, order = None if path is None else Path(path), [_point_key(point) for point in grid]
        if file is None or not file.exists():
            return cls(file, fingerprint, {}, order)
        made_from, points = _read_points(file)
        if made_from != fingerprint:
            raise InputError(f"{file} was made from other data or settings; remove it or name another file")
        return cls(file, fingerprint, {_point_key(point.parameters): point for point in points}, order)

    def add(self, point: GridPoint) -> None:
        """Add a point and write the file."""
        self.points[_point_key(point.parameters)] = point
        if self.path is not None:
            content = {
                "fingerprint": self.fingerprint,
                "points": [asdict(self.points[key]) for key in self.order if key in self.points],
            }
            unfinished = self.path.with_name(self.path.name + ".part")
            unfinished.write_text(json.dumps(content, indent=1))
            unfinished.replace(self.path)


def _point_key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)


def _read_points(path: Path) -> tuple[str, list[GridPoint]]:
    """Return the fingerprint and the points of a file."""
    try:
        content = json.loads(path.read_text())
        return content["fingerprint"], [GridPoint(**point) for point in content["points"]]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not a file of grid points: {error}") from error


def _fingerprint(
    X: Array,
    labels: Labels,
    estimator: CodeEstimator,
    n_validation: int,
    codes: str,
    ranking: str | None,
) -> str:
    """Return a digest of the rows and the settings. A file of points is only used with the same ones."""
    digest = xxhash.xxh3_128(X.tobytes())
    digest.update((labels.dense(0, len(labels)) if labels.indices is None else labels.indices).tobytes())
    parameters = sorted(estimator.get_params(deep=False).items())
    digest.update(repr((type(estimator).__name__, parameters, n_validation, codes, ranking)).encode())
    return digest.hexdigest()
