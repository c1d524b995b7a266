"""What all hashing methods share: vectors to bits, and a fit that is a sequence of finished steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from supquant.arrays import Codes
from supquant.codec import BinaryCodec, FeatureMap
from supquant.codec.base import MOST_CODEBOOKS
from supquant.errors import InputError
from supquant.estimator import CodeEstimator
from supquant.features import Features, check_features, fit_feature_map
from supquant.fitting import FitStage, Record, learn
from supquant.hashing.rows import HashRows
from supquant.labels import read_labels
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.validation import (
    check_integer,
    check_vectors,
    random_generator,
    resolve_jobs,
)


@dataclass(frozen=True)
class HashFunctions:
    """A learned model: bit j of a row is ``(features @ projection)[j] > thresholds[j]``."""

    projection: NDArray[np.floating] | None  # (d, bits); None where the features themselves are compared
    thresholds: NDArray[np.floating]  # (bits,)
    bits: NDArray[np.bool_] | None = None
    """(m, bits) learned for the rows with their labels; None where those of the functions are the learned ones."""
    feature_map: FeatureMap | None = None
    """Only where it is no longer the one that the rows came with."""


@dataclass(frozen=True)
class HashStep:
    """One finished step of a fit: what it measured, and the model so far, made when somebody asks for it."""

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
        """Return what is recorded."""
        return self.values


class HashEstimator(CodeEstimator):
    """The shared part of the methods whose codes are bits, ranked by Hamming distance.

    A method checks its own parameters and learns; everything else is here. One that works on pairs of rows has a parameter
    `max_rows`, how many random rows it learns from at the most.
    """

    codec_: BinaryCodec
    training_codes_: Codes
    objective_: list[Record]
    n_iter_: int
    n_bits: int
    features: Features
    random_state: int | np.random.Generator | None
    callback: Callable[[Progress], None] | None
    verbose: int
    _codec_type: ClassVar = (BinaryCodec,)
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def fit(self, X: object, y: object) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : (n, p) array
            Any real dtype.
        y : (n,) class labels of any hashable kind, or an (n, L) indicator matrix, dense or sparse

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; once a step is finished, the best model so far is fitted all the same.
        """
        if check_integer(self.n_bits, "n_bits", 8, 8 * MOST_CODEBOOKS) % 8:
            raise InputError(f"n_bits must be a multiple of 8, whole bytes, got {self.n_bits}")
        check_features(self.features)
        self._check_parameters()
        X = check_vectors(X)
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
            stage = FitStage(self._file_kind, self._n_steps(), self._learn(rows, rng))
            with learn([stage], Reporter(self.callback, self.verbose)) as learned:
                self._store(learned.last.functions(), X, chosen, feature_map)
                self.objective_, self.n_iter_ = learned.record, learned.n_iter
        return self

    def encode(self, X: object) -> Codes:
        """Give vectors X (n, p) their codes (n, n_bits / 8) uint8."""
        return self._codec().encode_items(X, n_jobs=self.n_jobs)

    def transform(self, X: object) -> NDArray[np.float32]:
        """Give the bits of vectors X (n, p) as signs: (n, n_bits) float32 of 1 and -1."""
        return self.decode(self.encode(X))

    # what a method adds ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check the method's own parameters."""

    @abstractmethod
    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        """Learn, handing out every finished step; the last one is the result."""

    @abstractmethod
    def _n_steps(self) -> int | None:
        """Give how many steps `_learn` takes at the most, if that is known."""

    # parts ----------------------------------------------------------------------------------------------------------------

    def _sample(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp] | None:
        """Choose the rows to learn from, ascending; None for all."""
        max_rows = getattr(self, "max_rows", None)
        if max_rows is None or check_integer(max_rows, "max_rows", 2) >= n_rows:
            return None
        return np.sort(rng.permutation(n_rows)[:max_rows])

    def _store(
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
