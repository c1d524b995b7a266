"""A supervised fit as published: features of vectors, a solver, and leave-one-out scores that calibrate it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from supquant.arrays import Codes, Float32
from supquant.codec import AdditiveCodec, Meaning
from supquant.fitting import FitStage
from supquant.quantizers.alternating import alternating_steps
from supquant.quantizers.calibration import calibrate, fit_scaling, unscaled
from supquant.quantizers.initialisation import lengthen
from supquant.quantizers.joint import joint_steps
from supquant.quantizers.steps import CodedStep
from supquant.quantizers.training import Training, seeded
from supquant.validation import as_float32

if TYPE_CHECKING:
    from supquant.codec import FeatureMap
    from supquant.labels import Labels


CALIBRATION_ROWS = 4096
"""Rows whose leave-one-out scores are taken, at the most."""

MOST_LEVERAGE = 0.9
"""A row that explains more of its own score than this says nothing about rows like it; it is an anchor of the kernel."""


@dataclass(frozen=True)
class PublishedFit:
    """A fit under way: labelled rows X (n, p), their features, and the state of the solver."""

    X: NDArray[Any]
    labels: Labels
    feature_map: FeatureMap | None
    training: Training
    weights: tuple[float, float, float]  # gamma, mu, lambda
    solver: str

    def stages(
        self, lengths: list[int], *, max_iter: int, tol: float, max_turns: int
    ) -> Iterator[FitStage[CodedStep]]:
        """Solve for one code length after the other; a longer code always starts from a shorter one."""
        for length in lengths:
            self.training.lengthen(length)
            steps = self._steps(max_iter, tol, max_turns)
            yield FitStage(f"{self.solver}, {length} codebooks", max_iter, steps)

    def _steps(self, max_iter: int, tol: float, max_turns: int) -> Iterator[CodedStep]:
        start = self.training.start(*self.weights)
        steps = (
            alternating_steps(start, max_iter=max_iter, tol=tol, max_turns=max_turns)
            if self.solver == "alternating"
            else joint_steps(start, max_iter=max_iter, tol=tol)
        )
        for step in steps:
            yield CodedStep(step, self.training.codes)
        self.training.take(step.state)

    def result(self, last: CodedStep, n_codebooks: int, projection: str) -> tuple[AdditiveCodec, Codes]:
        """Return the codec of a step, and the codes (n, M) of the rows."""
        state = last.step.state
        codebooks, codes = lengthen(state.codebooks, last.codes, n_codebooks, self.training.rng)
        codec = AdditiveCodec(
            codebooks=codebooks.astype(np.float32),
            projection=None if projection == "identity" else state.projection.astype(np.float32),
            classifier=state.classifier.astype(np.float32),
            classes=self.labels.classes,
            multilabel=self.labels.multilabel,
            constant=state.constant,
            quantization_weight=state.penalties.quantization,
            constraint_weight=state.penalties.constraint,
            feature_map=self.feature_map,
            meaning=Meaning(scaling=unscaled(self.labels.n_labels)),
        )
        return seeded(codec, codes, self.X), codes

    def calibrated(self, codec: AdditiveCodec) -> AdditiveCodec:
        """Fit scaling and curve to leave-one-out scores of a sample of rows."""
        sample = np.arange(0, len(self.X), -(-len(self.X) // CALIBRATION_ROWS))
        scores, kept = left_out_scores(codec, self.training, self.X, sample)
        labels = self.labels.take(sample[kept])
        scaled = replace(codec, meaning=Meaning(scaling=fit_scaling(scores, labels)))
        return calibrate(scaled, scores, labels, self.training.codes, self.labels)


def left_out_scores(
    codec: AdditiveCodec, training: Training, X: NDArray[Any], rows: NDArray[np.intp]
) -> tuple[Float32, NDArray[np.bool_]]:
    """Score the labels of rows of X (n, p) as a projection would that was learned without the row.

    The projection is least squares, so leaving out row i has a closed form: with the row's leverage
    ``h = x'(X'X + delta I)^-1 x`` and its decoded vector s, the score is ``(W'P'x - h W's) / (1 - h)``. A projection that
    is fixed has no leverage.

    Returns
    -------
    scores : (k, L) float32
    kept : (s,) bool
        Which of the rows have one: the others have nearly all leverage.
    """
    assert codec.classifier is not None
    W = codec.classifier.astype(np.float64)
    features = codec.features(as_float32(X[rows])).astype(np.float64)  # (s, d)
    scores = codec.project(features.astype(np.float32)).astype(np.float64) @ W
    if training.projection_is_fixed:
        return scores.astype(np.float32), np.ones(len(rows), dtype=bool)
    moments = training.moments
    gram = moments.xx + training.projection_ridge * np.eye(len(moments.xx))
    half = solve_triangular(cholesky(gram, lower=True), features.T, lower=True)  # (d, s)
    leverage = np.einsum("ij,ij->j", half, half)
    kept = leverage < MOST_LEVERAGE
    own = codec.decode(training.codes[rows]) @ W
    h = leverage[kept, None]
    return ((scores[kept] - h * own[kept]) / (1 - h)).astype(np.float32), kept
