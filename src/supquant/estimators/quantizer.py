"""Quantizers: estimators whose codes are sums of codewords."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.estimators.course import Record
from supquant.estimators.estimator import CodeEstimator
from supquant.inputs.parameters import check_integer, random_generator
from supquant.inputs.validation import check_training_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress


class Quantizer(CodeEstimator):
    """The shared part of the quantizers with an `AdditiveCodec`."""

    codec_: AdditiveCodec
    objective_: list[Record]
    n_iter_: int
    n_codebooks: int
    n_codewords: int
    callback: Callable[[Progress], None] | None
    verbose: int
    _codec_type: ClassVar[type[Any]] = AdditiveCodec

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Project vectors into the space of the codebooks.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, r) float32
        """
        codec: AdditiveCodec = self._codec()
        return codec.transform(X, n_jobs=self.n_jobs)


class UnsupervisedQuantizer(Quantizer):
    """The shared part of the quantizers that need no labels."""

    _needs_labels = False

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the codebooks.

        Parameters
        ----------
        X : (n, p) array
            Vectors of any real dtype, at least as many as there are codewords in a codebook.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step the estimator has the best model so far.
        """
        del y
        X = check_training_vectors(X)
        check_integer(self.n_codebooks, "n_codebooks", 1, X.shape[1])
        check_integer(self.n_codewords, "n_codewords", 2, 256)
        self._check_parameters(X.shape[1])
        check_enough_rows(len(X), self.n_codewords)
        with single_blas():
            self._learn(X, random_generator(self.random_state))
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None:
        """Check the parameters that the other quantizers do not have, for vectors of `n_features` dimensions."""

    @abstractmethod
    def _learn(self, X: NDArray[Any], rng: np.random.Generator) -> None:
        """Learn from checked vectors X (n, p) and store the result."""


def check_enough_rows(n_rows: int, n_codewords: int) -> None:
    """Raise an error if there are fewer rows than codewords in a codebook."""
    if n_rows < n_codewords:
        raise InputError(
            f"n_samples={n_rows} should be >= n_codewords={n_codewords}: give more rows, or ask for fewer codewords"
        )
