"""What a supervised fit runs on: the rows and targets of the solver, and what the codec says of labels in the end.

Two kinds. As published, the solver sees features of the vectors, its own classifier scores labels, and leave-one-out scores
calibrate it. Where features are label vectors already (`LabelKernel`), the solver quantizes these; rows that were held out of
them calibrate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from supquant.codec import Meaning
from supquant.features import map_rows
from supquant.quantizers.calibration import calibrate, fit_scaling, unscaled
from supquant.quantizers.label_vectors import LabelVectors, item_shares, unlabelled_rows
from supquant.validation import as_float32

if TYPE_CHECKING:
    from supquant.codec import Codec, FeatureMap
    from supquant.features import LabelKernel, LabelMap
    from supquant.labels import Labels
    from supquant.quantizers.training import Training
    from supquant.rows import Targets

Block = NDArray[np.float32]
Codes = NDArray[np.uint8]

CALIBRATION_ROWS = 4096
"""Of the leave-one-out scores."""

MOST_LEVERAGE = 0.9
"""A row that explains more of its own score than this says nothing about rows like it; it is an anchor of the kernel."""


class Source(Protocol):
    """What a fit runs on."""

    @property
    def rows(self) -> NDArray[Any]:
        """The rows (m, p') of the solver, the labelled ones first."""

    @property
    def targets(self) -> Targets:
        """What their decoded vectors are to say of labels."""

    @property
    def solver_map(self) -> FeatureMap | None:
        """From the rows to what the solver sees."""

    @property
    def feature_map(self) -> FeatureMap | None:
        """From vectors to what the solver sees."""

    @property
    def meaning(self) -> Meaning:
        """What the codec says of labels before it is calibrated."""

    def start_codes(self, shorter: Codec, codes: Codes) -> Codes:
        """Give the codes (m, M) of all rows under a shorter codec, from those of the labelled ones."""

    def calibrated(self, codec: Codec, training: Training) -> Codec:
        """Give the codec with a calibrated meaning, after training."""


@dataclass(frozen=True)
class VectorSource:
    """Vectors and their labels, as published."""

    rows: NDArray[Any]  # (n, p)
    targets: Labels
    feature_map: FeatureMap | None

    @property
    def solver_map(self) -> FeatureMap | None:
        """From the rows to what the solver sees."""
        return self.feature_map

    @property
    def meaning(self) -> Meaning:
        """Logits of a slope that nobody measured."""
        return Meaning(scaling=unscaled(self.targets.n_labels))

    def start_codes(self, shorter: Codec, codes: Codes) -> Codes:
        """Give the codes as they are: all rows are labelled."""
        del shorter
        return codes

    def calibrated(self, codec: Codec, training: Training) -> Codec:
        """Fit scaling and curve to leave-one-out scores of a sample of rows."""
        sample = np.arange(0, len(self.rows), -(-len(self.rows) // CALIBRATION_ROWS))
        scores, kept = left_out_scores(codec, training, self.rows, sample)
        labels = self.targets.take(sample[kept])
        scaled = replace(codec, meaning=Meaning(scaling=fit_scaling(scores, labels)))
        return calibrate(scaled, scores, labels, training.codes, self.targets)


@dataclass(frozen=True)
class LabelSource:
    """Label vectors of rows: with their labels, and as they would come without."""

    rows: Block  # (n + u, E)
    targets: LabelVectors
    feature_map: LabelMap
    meaning: Meaning
    held_rows: NDArray[np.int64]  # (s,)
    held_features: Block  # (s, E)
    solver_map: None = None

    @classmethod
    def of(cls, X: NDArray[Any], labels: Labels, kernel: LabelKernel, blend: float) -> LabelSource:
        """Fit the kernel to vectors X (n, p)."""
        features = kernel.fit_transform(X, labels)
        return cls._made(features, labels, kernel.map_, blend, kernel.held_rows_, kernel.held_features_)

    @classmethod
    def again(
        cls, X: NDArray[Any], labels: Labels, feature_map: LabelMap, meaning: Meaning, n_jobs: int
    ) -> LabelSource:
        """Map vectors X (n, p) as a fit before this one did; what it calibrated stays."""
        features = map_rows(feature_map, X, feature_map.n_features, n_jobs)
        made = cls._made(features, labels, feature_map, 0.0, np.zeros(0, np.int64), features[:0])
        return replace(made, meaning=meaning, targets=_targets(features, labels, meaning))

    @classmethod
    def _made(
        cls,
        features: Block,
        labels: Labels,
        feature_map: LabelMap,
        blend: float,
        held_rows: NDArray[np.int64],
        held_features: Block,
    ) -> LabelSource:
        meaning = Meaning(shares=item_shares(labels.n_labels, features.shape[1], blend))
        rows = np.concatenate([features, features[unlabelled_rows(len(features))]])
        targets = _targets(features, labels, meaning)
        return cls(rows, targets, feature_map, meaning, held_rows, held_features)

    def start_codes(self, shorter: Codec, codes: Codes) -> Codes:
        """Encode the rows that come without labels."""
        return np.concatenate([codes, shorter.encode_features(self.rows[len(codes) :])])

    def calibrated(self, codec: Codec, training: Training) -> Codec:
        """Fit the curve to the features of rows that the kernel had not seen."""
        labels = self.targets.labels
        return calibrate(
            codec, self.held_features, labels.take(self.held_rows), training.codes[: len(labels)], labels
        )


def _targets(features: Block, labels: Labels, meaning: Meaning) -> LabelVectors:
    assert meaning.shares is not None
    return LabelVectors(labels, features[unlabelled_rows(len(features))] * meaning.shares)


def left_out_scores(
    codec: Codec, training: Training, X: NDArray[Any], rows: NDArray[np.intp]
) -> tuple[Block, NDArray[np.bool_]]:
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
