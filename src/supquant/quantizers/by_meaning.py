"""A supervised fit by meaning and position, the default: features, then the vectors of items, then their codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supquant.codec import SemanticCodec
from supquant.features import FittedMeaning, fit_meaning, map_rows
from supquant.fitting import FitStage
from supquant.parallel import ordered_map, row_blocks
from supquant.quantizers.calibration import answer_curve
from supquant.quantizers.item_codes import CodebookStep, ItemRows, codebook_steps

if TYPE_CHECKING:
    from supquant.features import LabelKernel
    from supquant.labels import Labels

Block = NDArray[np.float32]
Codes = NDArray[np.uint8]

SAMPLE_ROWS = 1 << 16
"""Rows that codebooks are learned from, at the most."""

POSITION_FLOOR = 0.05
POSITION_OF_NEW = 0.35
"""The weight of position is ``sqrt(floor^2 + share * of_new^2)`` for a share of new classes: it matters for what is new."""

ROOM_FOR_POSITION = 8
"""Codebooks from which on position has that weight; in a shorter code it yields to meaning."""

LABEL_WEIGHT = 10.0
"""How many times meaning counts where labels are known, while codes are searched: an item must not lose its label."""


@dataclass(frozen=True)
class MeaningFit:
    """A fit under way: rows X (n, p), of which some or all have labels, and what was learned to make features of them."""

    X: NDArray[Any]
    labels: Labels
    features: Block  # (n, F) of all rows
    fitted: FittedMeaning
    missing_label: Any
    n_codebooks: int
    n_jobs: int

    @classmethod
    def prepare(
        cls,
        X: NDArray[Any],
        labels: Labels,
        kernel: LabelKernel,
        shorter: SemanticCodec | None,
        *,
        new_classes: float | None,
        missing_label: Any,
        n_codebooks: int,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> MeaningFit:
        """Fit the features, or take those of a shorter code."""
        if shorter is None:
            fitted = fit_meaning(X, labels, kernel, new_classes=new_classes, rng=rng, n_jobs=n_jobs)
        else:
            none = np.zeros(0, dtype=np.int64)
            fitted = FittedMeaning(shorter.feature_map, none, np.zeros((0, 0), np.float32), 0.0)  # type: ignore[arg-type]
        features = map_rows(fitted.map, X, fitted.map.n_features, n_jobs)
        return cls(X, labels, features, fitted, missing_label, n_codebooks, n_jobs)

    def codec(self, codebooks: Block | None, shorter: SemanticCodec | None = None) -> SemanticCodec:
        """Return the codec with codebooks (M, K, D); without any, one that can make the vectors of items."""
        map_ = self.fitted.map
        if shorter is not None:
            weight, label_weight = shorter.position_weight, shorter.label_weight
        else:
            of_new = POSITION_OF_NEW * min(1.0, (self.n_codebooks - 1) / (ROOM_FOR_POSITION - 1))
            weight = float(np.sqrt(POSITION_FLOOR**2 + self.fitted.new_classes * of_new**2))
            label_weight = LABEL_WEIGHT
        width = map_.n_labels + 1 + map_.n_position
        return SemanticCodec(
            np.zeros((1, 1, width), dtype=np.float32) if codebooks is None else codebooks,
            self.labels.classes,
            self.labels.multilabel,
            weight,
            label_weight,
            map_,
            missing_label=self.missing_label,
        )

    def item_rows(self, codec: SemanticCodec, rng: np.random.Generator) -> ItemRows:
        """Sample rows to learn codebooks from: with their labels, and without where too few come without."""
        known = rng.permutation(np.flatnonzero(self.labels.known))
        unknown = rng.permutation(np.flatnonzero(~self.labels.known))
        hidden = known[
            : max(0, len(known) - len(unknown))
        ]  # seen once more as they would come without labels
        share = min(1.0, SAMPLE_ROWS / (len(known) + len(unknown) + len(hidden)))
        taken = [
            each[: max(1, round(share * len(each)))] for each in (known, np.concatenate([unknown, hidden]))
        ]
        with_labels = codec.item_vectors(
            self.features[taken[0]], self.labels.take(taken[0]).dense(0, len(taken[0]))
        )
        vectors = np.concatenate([with_labels, codec.item_vectors(self.features[taken[1]])])
        is_known = np.arange(len(vectors)) < len(with_labels)
        return ItemRows(vectors, is_known, self.fitted.map.n_labels + 1, codec.label_weight)

    def stages(
        self,
        shorter: SemanticCodec | None,
        n_codewords: int,
        *,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
    ) -> Iterator[FitStage[CodebookStep]]:
        """Learn the codebooks."""
        rows = self.item_rows(self.codec(None, shorter), rng)
        steps = codebook_steps(
            rows,
            None if shorter is None else shorter.codebooks,
            self.n_codebooks,
            n_codewords,
            max_iter=max_iter,
            tol=tol,
            rng=rng,
            n_jobs=self.n_jobs,
        )
        yield FitStage(f"codes, {self.n_codebooks} codebooks", max_iter + 1, steps)

    def encoded(self, codec: SemanticCodec, *, with_labels: bool = True) -> Codes:
        """Return the codes (n, M) of all rows, with their labels where they are known."""
        codes = np.empty((len(self.features), codec.n_codebooks), dtype=np.uint8)

        def encode(block: tuple[int, int]) -> None:
            rows = slice(*block)
            given = self.labels.dense(*block) if with_labels else None
            items = codec.item_vectors(self.features[rows], given)
            known = self.labels.known[rows] if with_labels else np.zeros(len(items), dtype=bool)
            codes[rows] = codec.encode_vectors(items, known)

        for _ in ordered_map(encode, row_blocks(len(codes)), self.n_jobs):
            pass
        return codes

    def calibrated(self, codec: SemanticCodec, codes: Codes) -> SemanticCodec:
        """Return the codec with the curve from scores to probabilities that held-out rows ask for."""
        held = self.fitted.held_features
        known = np.flatnonzero(self.labels.known)
        if not len(held):
            return codec
        labels = self.labels.take(known)
        settled = held.copy()
        settled[:, self.fitted.map.n_labels] = 0  # among items that all have labels nothing is new
        curve = answer_curve(
            codec.tables_of(codec.prepare(settled)), labels.take(self.fitted.held_rows), codes[known], labels
        )
        return replace(codec, curve=curve)
