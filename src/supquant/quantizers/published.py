"""A supervised fit as published: a solver on features of the labelled rows, then calibration by leave-one-out scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Flags, Float32
from supquant.codec import AdditiveCodec, Meaning
from supquant.fitting import FitStage
from supquant.quantizers.alternating import alternating_steps
from supquant.quantizers.calibration import calibrate, default_scaling, fit_scaling, spread_rows
from supquant.quantizers.initialisation import lengthen
from supquant.quantizers.joint import joint_steps
from supquant.quantizers.projections import Projection
from supquant.quantizers.steps import CodedStep, Start
from supquant.quantizers.training import Training, with_seeds
from supquant.remote import RemoteRows
from supquant.validation import as_float32

if TYPE_CHECKING:
    from supquant.codec import FeatureMap
    from supquant.labels import Labels


CALIBRATION_ROWS = 4096
"""Leave-one-out scores are made for at most this number of rows."""

MAX_LEVERAGE = 0.9
"""Rows of more leverage than this take no part in the calibration. They are anchors of the kernel, and their scores say nothing
about other rows."""


@dataclass(frozen=True)
class PublishedFit:
    """A fit to labelled rows X (n, p)."""

    X: NDArray[Any] | RemoteRows
    labels: Labels
    feature_map: FeatureMap | None
    training: Training
    weights: tuple[float, float, float]  # gamma, mu, lambda
    solver: str
    max_iter: int
    tol: float
    max_turns: int

    def stages(self, lengths: list[int]) -> Iterator[FitStage[CodedStep]]:
        """Solve for one number of codebooks after the other."""
        return self.training.stages(lengths, self.solver, self.max_iter, self._steps)

    def _steps(self) -> Iterator[CodedStep]:
        start = self._start()
        steps = (
            alternating_steps(start, max_iter=self.max_iter, tol=self.tol, max_turns=self.max_turns)
            if self.solver == "alternating"
            else joint_steps(start, max_iter=self.max_iter, tol=self.tol)
        )
        for step in steps:
            yield CodedStep(step, self.training.codes)
        self.training.take(step.state.codebooks, step.state.projection)

    def _start(self) -> Start:
        return self.training.start(*self.weights)

    def result(self, last: CodedStep, n_codebooks: int) -> tuple[AdditiveCodec, Codes]:
        """Return the codec of a step, and the codes (n, M) of the labelled rows.

        After an interrupt the step can have fewer than `n_codebooks` codebooks; zero codebooks are then added.
        """
        state = last.step.state
        codebooks, codes = lengthen(state.codebooks, last.codes, n_codebooks, self.training.rng)
        codec = AdditiveCodec(
            codebooks=codebooks.astype(np.float32),
            projection=self.training.stored_projection(state.projection),
            classifier=state.classifier.astype(np.float32),
            classes=self.labels.classes,
            multilabel=self.labels.multilabel,
            constant=state.constant,
            quantization_weight=state.penalties.quantization,
            constraint_weight=state.penalties.constraint,
            feature_map=self.feature_map,
            meaning=Meaning(scaling=default_scaling(self.labels.n_labels)),
        )
        return with_seeds(codec, codes, self.X), codes

    def calibrate(self, codec: AdditiveCodec) -> AdditiveCodec:
        """Return the codec with scaling and curve fitted to the leave-one-out scores of a sample of rows."""
        sample = spread_rows(len(self.X), CALIBRATION_ROWS)
        codes = self.training.codes
        scores, kept = left_out_scores(codec, self._start().solver(), self.X[sample], codes[sample])
        labels = self.labels.take(sample[kept])
        scaled = replace(codec, meaning=Meaning(scaling=fit_scaling(scores, labels)))
        return calibrate(scaled, scores, labels, codes, self.labels)


def left_out_scores(
    codec: AdditiveCodec, projection: Projection, x: NDArray[Any], codes: Codes
) -> tuple[Float32, Flags]:
    """Score the labels of training rows with a projection learned without the row.

    The projection is least squares, so leaving out a row has a closed form. With the row's leverage
    ``h = x'(X'X + delta I)^-1 x`` and its decoded vector s, the score is ``(W'P'x - h W's) / (1 - h)``. If the projection is
    fixed, the leverage is zero.

    Parameters
    ----------
    codec : AdditiveCodec
        With a classifier.
    projection : Projection
        What the solver knew about P.
    x : (s, p) array
        Vectors of the rows.
    codes : (s, M) uint8
        Codes of the rows.

    Returns
    -------
    scores : (k, L) float32
        Scores of the kept rows.
    kept : (s,) bool
        Rows of at most `MAX_LEVERAGE`.
    """
    assert codec.classifier is not None
    W = codec.classifier.astype(np.float64)
    features = codec.features(as_float32(x)).astype(np.float64)  # (s, d)
    scores = codec.project(features.astype(np.float32)).astype(np.float64) @ W
    leverage = projection.leverage(features)
    kept = leverage < MAX_LEVERAGE
    own = codec.decode(codes) @ W
    h = leverage[kept, None]
    return ((scores[kept] - h * own[kept]) / (1 - h)).astype(np.float32), kept
