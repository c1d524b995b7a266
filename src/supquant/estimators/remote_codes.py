"""The codes of training rows that other processes read: they are encoded there, and only codes travel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes
from supquant.codec.interface import block_rows
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.parallel import row_blocks
from supquant.remote import RemoteBlock, RemoteRows

ENCODED_BLOCKS = 4
"""Number of blocks of the codec that are encoded for one answer."""


def encode_training_rows(
    codec: Any,
    X: NDArray[Any] | RemoteRows,
    labels: Labels | None,
    n_jobs: int | None,
) -> Codes:
    """Return the codes (n, M) of rows X (n, p) with labels or without, as ``codec.encode`` makes them."""
    if not isinstance(X, RemoteRows):
        return codec.encode(X, labels, n_jobs=n_jobs)
    # Every answer begins where a block of the codec begins, so the codec sees the same blocks as it does here.
    blocks = row_blocks(len(X), ENCODED_BLOCKS * block_rows(codec.feature_map))
    own = None if labels is None else [labels.take(np.arange(*block)) for block in blocks]
    codes = np.empty((len(X), codec.n_codebooks), dtype=np.uint8)
    for block, found in zip(blocks, X.map_blocks(_encode, blocks, codec, own), strict=True):
        codes[slice(*block)] = found
    return codes


def _encode(block: RemoteBlock, labels: Labels | None, codec: Any) -> Codes:
    return codec.encode(as_float32(block.x), labels, n_jobs=1)
