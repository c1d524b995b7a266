"""Vectors to the targets of a search for codes: what `MeaningParts` describe, for items, without a feature leaving the GPU."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from supquant.kernels.cuda.compiling import kernel
from supquant.kernels.cuda.products import Matrix, apply_gaussian, squared_lengths, unit_rows
from supquant.kernels.queries import MeaningParts

__all__ = ["Meaning", "labelled_targets"]

_ROW_THREADS = 128
"""Threads of a block that has one row."""


class Meaning:
    """The map to meanings and positions on the GPU.

    Letters are those of `MeaningParts`: L labels, r columns of words, f likenesses, g numbers of a position.

    Parameters
    ----------
    parts : MeaningParts
        Those of compiled code.
    stretch : float, default=0
        How much longer the position of an item is that is surely new.
    """

    def __init__(self, parts: MeaningParts, stretch: float = 0.0) -> None:
        anchors, weights, metric, _, likeness, centres = (each.rows() for each in parts.matrices)
        self._anchors = Matrix(anchors) if parts.has_kernel else None
        self._weights, self._metric, self._likeness = Matrix(weights), Matrix(metric), Matrix(likeness)
        self._centres = Matrix(centres) if len(parts.cluster_ends) else None
        self._scale, self._cluster_scale = parts.scale, parts.cluster_scale
        self._norms, self._cluster_norms = cp.asarray(parts.norms), cp.asarray(parts.cluster_norms)
        self._shifts, self._mean = cp.asarray(parts.shifts), cp.asarray(parts.mean)
        self._ratios, self._ends = cp.asarray(parts.cluster_ratios), cp.asarray(parts.cluster_ends)
        self._several = np.int32(parts.multilabel)
        self._stretch = np.float32(stretch)
        self._novelty = parts.novelty.astype(np.float64)  # weights of evidence and of ratios, and a shift
        L, t = parts.words.shape
        # labels[starts[c] : starts[c + 1]] have a word whose column is c, in ascending order
        order = np.argsort(parts.words.ravel(), kind="stable")
        starts = np.searchsorted(parts.words.ravel()[order], np.arange(parts.n_columns + 1))
        self._labels, self._starts = (
            cp.asarray((order // t).astype(np.int32)),
            cp.asarray(starts.astype(np.int32)),
        )
        self._share = np.float32(1) / np.float32(t)
        self.L, self.r, self.f, self.g = L, parts.n_columns, len(likeness), len(metric)

    def places(self, x: Any) -> Any:
        """Return the positions (n, g) of vectors x (n, p) float32."""
        return self._metric.products(unit_rows(x, self._mean)[0])

    def targets(self, x: Any, scale: Any, *, drop: bool = False) -> Any:
        """Return the targets (n, r + f + g) of items x (n, p) without labels, times the roots of weights `scale` (r + f + g,).

        With `drop` all columns are zero but those of positions.
        """
        centred, squares = unit_rows(x, self._mean)
        place = self._metric.products(centred)
        if drop:
            return self._targets(place, scale)
        features = x
        if self._anchors is not None:
            features = self._anchors.products(x)
            apply_gaussian(features, squares, self._norms, self._scale)
        logits = self._weights.products(features)
        p, evidence = cp.empty_like(logits), cp.empty(len(x), dtype=cp.float64)
        arguments = logits, self._shifts, p, evidence, np.int32(self.L), self._several
        kernel("features", "probabilities")((len(x),), (_ROW_THREADS,), arguments)
        likeness, ratio = None, None
        if self._centres is not None:
            turned, _ = unit_rows(place)
            compared = self._centres.products(turned)
            apply_gaussian(compared, squared_lengths(turned), self._cluster_norms, self._cluster_scale)
            ratio = cp.empty(len(x), dtype=cp.float64)
            sizes = np.int32(self._centres.n), np.int32(len(self._ends))
            kernel("features", "memberships")(
                (len(x),), (_ROW_THREADS,), (compared, self._ends, self._ratios, ratio, *sizes)
            )
            likeness = self._likeness.products(compared)
        return self._targets(place, scale, p, evidence, ratio, likeness)

    def _targets(
        self,
        place: Any,
        scale: Any,
        p: Any = None,
        evidence: Any = None,
        ratio: Any = None,
        likeness: Any = None,
    ) -> Any:
        targets = cp.empty((len(place), self.r + self.f + self.g), dtype=cp.float32)
        of_evidence, of_ratio, shift = self._novelty
        arrays = [np.uint64(0) if each is None else each for each in (p, evidence, ratio, likeness)]
        sizes = (np.int32(size) for size in (self.L, self.r, self.f, self.g))
        arguments = (
            *arrays,
            place,
            self._starts,
            self._labels,
            self._share,
            shift,
            of_evidence,
            of_ratio,
            self._stretch,
            scale,
            targets,
            *sizes,
            self._several,
        )
        kernel("features", "item_targets")((len(place),), (_ROW_THREADS,), arguments)
        return targets


def labelled_targets(place: Any, codes: Any, codebooks: Any, scale: Any) -> Any:
    """Return what words of labels leave of positions (n, g), times the roots of weights `scale` (g,).

    The words of labels are codes (n, M) uint8 of codebooks (M, K, g) float32.
    """
    targets = cp.empty_like(place)
    M, K, g = codebooks.shape
    arguments = place, codes, codebooks, scale, targets, np.int32(M), np.int32(K), np.int32(g)
    kernel("features", "left_of_place")((len(place),), (_ROW_THREADS,), arguments)
    return targets
