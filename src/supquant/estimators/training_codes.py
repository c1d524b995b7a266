"""The codes of training rows: they are encoded where they are, and only codes travel."""

from __future__ import annotations

from typing import Any

import numpy as np

from supquant.arrays import Codes
from supquant.codec.feature_map import block_rows
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import resolve_jobs
from supquant.inputs.validation import as_float32
from supquant.parallel import row_blocks
from supquant.rows import RowBlock, Rows


def encode_training_rows(codec: Any, X: Rows, labels: Labels | None, n_jobs: int | None) -> Codes:
    """Return the codes (n, M) of rows X (n, p) with labels or without, as ``codec.encode`` makes them."""
    blocks = row_blocks(len(X), block_rows(codec.feature_map))  # those of the codec, so the bits are the same
    own = None if labels is None else [labels.take(np.arange(*block)) for block in blocks]
    codes = np.empty((len(X), codec.n_codebooks), dtype=np.uint8)
    X.map_into(codes, _encode, blocks, codec, own, n_jobs=resolve_jobs(n_jobs))
    return codes


def _encode(block: RowBlock, labels: Labels | None, codec: Any) -> Codes:
    codes: Codes = codec.encode(as_float32(block.x), labels, n_jobs=1)
    return codes
