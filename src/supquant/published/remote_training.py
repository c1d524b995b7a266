"""The rows of training that other processes read: passes go there, and sums and codes come back.

They are visited in the blocks of `LocalRows` and with the same functions, and sums are added in the same order. So a fit has the
same bits. Codes and labels stay in this process, and those of a block travel with it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash

from supquant.arrays import Array, Codes, Float32, Float64
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.published.rows import BlockRows, BlockSums, Recoding, code_sums
from supquant.published.statistics import CodeStatistics, ModelState
from supquant.remote import RemoteBlock, RemoteRows
from supquant.row_sums import FeatureCache

__all__ = ["RemoteTrainingRows"]


class RemoteTrainingRows(BlockRows):
    """Rows that other processes read.

    Parameters
    ----------
    X : RemoteRows of shape (n, p)
    labels, codes, n_codewords, features
        As in `LocalRows`.
    n_jobs : int, default=1
        Number of threads for what is done in this process.
    """

    def __init__(
        self,
        X: RemoteRows,
        labels: Labels,
        codes: Codes,
        n_codewords: int,
        *,
        features: Callable[[Float32], Float32] | None = None,
        n_jobs: int = 1,
    ) -> None:
        super().__init__(len(X), labels, codes, n_codewords, n_jobs)
        self._X = X
        self._features = features
        self._block_labels = [labels.take(np.arange(*block)) for block in self._blocks]

    def _sum(self, function: BlockSums, shared: Any, n_words: int) -> tuple[Float64, ...]:
        del n_words
        return self._X.sum_blocks(_sums, self._blocks, (self._features, function, shared), self._own())

    def assign(self, model: ModelState) -> CodeStatistics:
        """Assign to every row its best code under the model; return the sums for the new codes."""
        shared = self._features, Recoding.of(model)
        changed = 0
        found = self._X.map_blocks(_recoded, self._blocks, shared, self._own())
        for block, (codes, n_changed) in zip(self._blocks, found, strict=True):
            self._codes[slice(*block)] = codes
            changed += n_changed
        self._distinct = self._compacted = None
        bx, by = self._sum(code_sums, self._n_codewords, self._n_words)
        return self._statistics(bx, by, changed)

    def _own(self) -> list[tuple[Labels, Codes]]:
        """Return the labels and codes of each block."""
        codes = (self._codes[slice(*block)] for block in self._blocks)
        return list(zip(self._block_labels, codes, strict=True))


# where the rows are read ---------------------------------------------------------------------------------------------------


def _sums(
    block: RemoteBlock, own: tuple[Labels, Codes], shared: tuple[Any, BlockSums, Any]
) -> tuple[Array, ...]:
    features, function, its_shared = shared
    labels, codes = own
    return function(_features(block, features), labels.dense(0, len(labels)), codes, its_shared)


def _recoded(
    block: RemoteBlock, own: tuple[Labels, Codes], shared: tuple[Any, Recoding]
) -> tuple[Codes, int]:
    features, recoding = shared
    labels, codes = own
    codes = codes.copy()
    changed = recoding(_features(block, features), labels.dense(0, len(labels)), codes)
    return codes, changed


def _features(block: RemoteBlock, features: Callable[[Float32], Float32] | None) -> Float32:
    """Return the features (b, d) of a block, which the process keeps as long as there is room."""
    if features is None:
        return as_float32(block.x)
    name = xxhash.xxh3_128_digest(pickle.dumps(features, protocol=5))
    known, cache = block.memory.get("features", (None, None))
    if known != name:  # another fit
        cache = FeatureCache(block.cache_bytes)
        block.memory["features"] = name, cache
    assert isinstance(cache, FeatureCache)
    return cache.get(block.key, lambda: features(as_float32(block.x)))
