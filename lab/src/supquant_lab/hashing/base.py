"""What all hashing methods share: a model of hash functions, and a fit that yields finished steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes, Flags, Float64
from supquant.codec.base import MAX_CODEBOOKS
from supquant.codec.interface import FeatureMap
from supquant.errors import InputError
from supquant.estimators.base import CodeEstimator
from supquant.estimators.course import Course, Record
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import check_integer, random_generator, resolve_jobs
from supquant.inputs.validation import check_training_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.published.anchor_kernel import Features, check_features, fit_feature_map
from supquant_lab.hashing.binary_codec import BinaryCodec
from supquant_lab.hashing.rows import HashRows


@dataclass(frozen=True)
class HashFunctions:
    """A learned model: bit j of a row is ``(features @ projection)[j] > thresholds[j]``."""

    projection: NDArray[np.floating] | None  # (d, bits); None where the features themselves are compared
    thresholds: NDArray[np.floating]  # (bits,)
    bits: Flags | None = None
    """The bits (m, bits) that were learned for the training rows; None if the hash functions make them."""
    feature_map: FeatureMap | None = None
    """A feature map that replaces the one of the rows; None if the rows keep theirs."""

    @classmethod
    def around(cls, mean: Float64, projection: Float64) -> Self:
        """Return functions (d, bits) of centred features, given the mean (d,) that was taken off."""
        return cls(projection, mean @ projection)


@dataclass(frozen=True)
class HashStep:
    """One finished step of a fit: what it measured, and a function that makes the model so far."""

    values: Mapping[str, float]
    functions: Callable[[], HashFunctions]

    @property
    def counts_as_iteration(self) -> bool:
        """Every step counts."""
        return True

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return dict(self.values)

    def as_progress(self) -> Mapping[str, float]:
        """Return the same values as `as_record`."""
        return self.values


class HashEstimator(CodeEstimator):
    """The shared part of the methods whose codes are bits, ranked by Hamming distance.

    A method checks its own parameters and learns its hash functions; everything else is here. A method may have a parameter
    `max_rows`: it then learns from at most that many random rows.
    """

    codec_: BinaryCodec
    objective_: list[Record]
    n_iter_: int
    n_bits: int
    features: Features
    callback: Callable[[Progress], None] | None
    verbose: int
    _codec_type: ClassVar = BinaryCodec
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Training vectors of any real dtype.
        y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
            Class labels of any hashable kind, or a 0/1 indicator matrix.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. If a step was finished by then, the estimator holds the model of the last step.
        """
        if check_integer(self.n_bits, "n_bits", 8, 8 * MAX_CODEBOOKS) % 8:
            raise InputError(f"n_bits must be a multiple of 8, whole bytes, got {self.n_bits}")
        check_features(self.features)
        if self._max_rows is not None:
            check_integer(self._max_rows, "max_rows", 2)
        self._check_parameters()
        X = check_training_vectors(X)
        labels = read_labels(y, n_rows=len(X))
        rng = random_generator(self.random_state)
        n_jobs = resolve_jobs(self.n_jobs)
        with single_blas():
            feature_map = fit_feature_map(self.features, X, rng, self.n_jobs)
            chosen = self._sample(len(X), rng)
            rows = (
                HashRows(X, labels, feature_map, n_jobs)
                if chosen is None
                else HashRows(X[chosen], labels.take(chosen), feature_map, n_jobs)
            )
            course: Course[HashStep] = Course(Reporter(self.callback, self.verbose))
            try:
                course.take(self._file_kind, self._n_steps(), self._learn(rows, rng))
            finally:
                if course.last is not None:
                    self._store_functions(course.last.functions(), X, chosen, feature_map)
                    self.objective_, self.n_iter_ = course.record, course.n_iter
        return self

    def encode(self, X: ArrayLike) -> Codes:
        """Return the codes (n, n_bits / 8) uint8 of vectors X (n, p)."""
        return self._codec().encode_items(X, n_jobs=self.n_jobs)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the bits of vectors X (n, p) as signs: (n, n_bits) float32 of 1 and -1."""
        return self.decode(self.encode(X))

    # what a method adds ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check the method's own parameters."""

    @abstractmethod
    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        """Yield every finished step; the last one is the result."""

    @abstractmethod
    def _n_steps(self) -> int | None:
        """Return the largest number of steps that `_learn` can take, or None if it is unknown."""

    # parts ----------------------------------------------------------------------------------------------------------------

    @property
    def _max_rows(self) -> int | None:
        return getattr(self, "max_rows", None)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp] | None:
        """Return the numbers of the rows to learn from, ascending, or None for all rows."""
        if self._max_rows is None or self._max_rows >= n_rows:
            return None
        return np.sort(rng.permutation(n_rows)[: self._max_rows])

    def _store_functions(
        self,
        functions: HashFunctions,
        X: NDArray[Any],
        chosen: NDArray[np.intp] | None,
        feature_map: FeatureMap | None,
    ) -> None:
        projection = functions.projection
        self.codec_ = BinaryCodec(
            None if projection is None else np.ascontiguousarray(projection, dtype=np.float32),
            np.ascontiguousarray(functions.thresholds, dtype=np.float32),
            functions.feature_map or feature_map,
        )
        self.n_features_in_ = int(X.shape[1])
        if functions.bits is None:
            self.training_codes_ = self.codec_.encode_items(X, n_jobs=self.n_jobs)
        elif chosen is None:
            self.training_codes_ = np.ascontiguousarray(np.packbits(functions.bits, axis=1))
        else:
            self.training_codes_ = self.codec_.encode_items(X, n_jobs=self.n_jobs)
            self.training_codes_[chosen] = np.packbits(functions.bits, axis=1)
