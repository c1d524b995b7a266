"""What all quantizers share: one loop for every fit, and the methods of a fitted quantizer.

A quantizer only says what differs. It returns a `FitPlan`, or, if it needs no loop, stores its codec.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes
from supquant.codec import AdditiveCodec
from supquant.errors import InputError
from supquant.estimator import CodeEstimator
from supquant.fitting import FitStage, Record, StepT, learn
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.parameters import check_integer, random_generator
from supquant.progress import Progress, Reporter
from supquant.validation import check_training_vectors


@dataclass(frozen=True)
class FitPlan(Generic[StepT]):
    """How a quantizer learns.

    Attributes
    ----------
    stages : iterable of FitStage
        The steps of the fit.
    result : callable
        Takes the last finished step and returns the codec and the codes (n, M) of the training rows.
    calibrate : callable, optional
        Takes this codec and these codes, and returns the codec to store instead. It is not called after an interrupt.
    reporter : Reporter, optional
        Reports all stages of a fit that has a plan of their costs. By default one without a plan is made.
    """

    stages: Iterable[FitStage[StepT]]
    result: Callable[[StepT], tuple[Any, Codes]]
    calibrate: Callable[[Any, Codes], Any] | None = None
    reporter: Reporter | None = None


class Quantizer(CodeEstimator):
    """The shared part of all quantizers: they project vectors, and their fits run the same loop."""

    codec_: AdditiveCodec
    objective_: list[Record]
    n_iter_: int
    n_codebooks: int
    n_codewords: int
    callback: Callable[[Progress], None] | None
    verbose: int
    _codec_type: ClassVar[tuple[type[Any], ...]] = (AdditiveCodec,)

    def encode(self, X: ArrayLike) -> Codes:
        """Return the codes of vectors.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, M) uint8
        """
        return self._codec().encode(X, n_jobs=self.n_jobs)

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

    def _run(self, plan: FitPlan[StepT]) -> None:
        """Take all steps of the plan and store the result; after an interrupt, store the last finished step."""
        reporter = plan.reporter or Reporter(self.callback, self.verbose)
        with learn(plan.stages, reporter) as learned:
            codec, codes = plan.result(learned.last)
            self._store(codec, codes)
            self.objective_, self.n_iter_ = learned.record, learned.n_iter
        if plan.calibrate is None:
            return
        if plan.reporter is None:
            self.codec_ = plan.calibrate(codec, codes)
            return
        with plan.reporter.stage(
            "calibration", 1
        ) as stage:  # after the model is stored: a callback may raise
            self.codec_ = plan.calibrate(codec, codes)
            stage.step()

    def _store(self, codec: Any, codes: Codes) -> None:
        self.codec_ = codec
        self.n_features_in_ = int(codec.n_inputs)
        self.training_codes_ = codes


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
