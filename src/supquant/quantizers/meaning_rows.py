"""Rows to codes: the rows of a fit by meaning and position, their features, and the codes of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Flags, Float32
from supquant.assignment import SEARCH_ROWS
from supquant.features import FittedMeaning, map_rows
from supquant.parallel import ordered_map, row_blocks
from supquant.quantizers.unseen_rows import imitate_held_out_rows
from supquant.remote import RemoteRows

if TYPE_CHECKING:
    from supquant.codec import SemanticCodec
    from supquant.labels import Labels

__all__ = ["MeaningRows"]


@dataclass(frozen=True)
class MeaningRows:
    """Rows X (n, p), of which some or all have labels, and the learned map to their features."""

    X: NDArray[Any] | RemoteRows
    labels: Labels
    kept: Float32 | None  # (n, F)  the features of all rows, or None if they are made when needed
    fitted: FittedMeaning
    n_jobs: int

    def features(self, rows: NDArray[np.intp], *, labelled: bool = False) -> Float32:
        """Return the features (r, F) of some rows (r,); if all are `labelled`, only what their item vectors need."""
        if self.kept is not None:
            return self.kept[rows]
        map_ = self.fitted.map
        mapped = map_.of_labelled if labelled else map_
        return map_rows(mapped, self.X[rows], map_.n_features, self.n_jobs, map_.block_rows)

    def as_held_out(self, rows: NDArray[np.intp]) -> Float32:
        """Return the features (r, F) of labelled rows (r,) as a model would make them that has not seen the rows."""
        held = np.flatnonzero(self.labels.known)[self.fitted.held_rows]
        spelled = self.fitted.map.spelling.of_labels
        changed = imitate_held_out_rows(
            self.features(rows),
            spelled(self.labels.take(rows), 0, len(rows)) > 0,
            self.fitted.held_features,
            spelled(self.labels.take(held), 0, len(held)) > 0,
            multilabel=self.labels.multilabel,
            n_jobs=self.n_jobs,
        )
        return self.fitted.map.with_opinions(changed)

    def encode_items(self, codec: SemanticCodec, items: Float32, known: Flags) -> Codes:
        """Return the codes (n, M) of item vectors (n, D), whose labels are `known` (n,) or not."""
        codes = np.empty((len(items), codec.n_codebooks), dtype=np.uint8)

        def encode(block: tuple[int, int]) -> None:
            rows = slice(*block)
            codes[rows] = codec.encode_vectors(items[rows], known[rows])

        for _ in ordered_map(encode, row_blocks(len(codes), SEARCH_ROWS), self.n_jobs):
            pass
        return codes
