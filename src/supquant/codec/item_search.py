"""The search for the code of an item: its kind says which words a code may have, and how errors are weighted.

Where every codebook has words of labels, there is nothing to search for an item with a label: its code is the words of the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.assignment import RETRIES, ItemSearch
from supquant.codec.words import LABEL_WORD, LABELLED, allowed_words

__all__ = ["LabelSearch", "item_search"]


@dataclass(frozen=True)
class LabelSearch:
    """Finds the codes of items with labels where codes hold labels and nothing else.

    Examples
    --------
    >>> words = np.full((2, 3), LABEL_WORD)
    >>> LabelSearch(words).search(np.float32([[0, 0.5, 0, 0, 0, 0.5]]))
    array([[1, 2]], dtype=uint8)
    """

    words: NDArray[np.uint8]  # (M, K) purposes of the codewords

    def search(self, vectors: Float32, codes: Codes | None = None) -> Codes:
        """Return the codes (n, M) of vectors (n, D), whose first columns are labels as they are spelled."""
        del codes
        of_labels = self.words == LABEL_WORD
        edges = np.cumsum([0, *of_labels.sum(axis=1)])
        found = np.empty((len(vectors), len(self.words)), dtype=np.uint8)
        for m, columns in enumerate(pairwise(edges)):
            found[:, m] = np.flatnonzero(of_labels[m])[vectors[:, slice(*columns)].argmax(axis=1)]
        return found


def item_search(
    codebooks: Float32,
    words: NDArray[np.uint8],
    n_meaning: int,
    kind: int,
    weights: NDArray[Any],
    *,
    max_sweeps: int = 20,
    retries: int = RETRIES,
    quick: bool = False,
) -> ItemSearch | LabelSearch:
    """Return the search for codes of items of one kind.

    Parameters
    ----------
    codebooks : ndarray of shape (M, K, D), float32
    words : ndarray of shape (M, K), uint8
        The purpose of each codeword.
    n_meaning : int
        The number of columns of meaning: one for each word of labels, and that of novelty.
    kind : int
        The kind of the items, such as `LABELLED`.
    weights : ndarray of shape (2,)
        Weights of a squared error in meaning and of one in position.
    max_sweeps, retries : int
        As in `CodeSearch`.
    quick : bool, default=False
        Whether the search may round as BLAS does, so that codes can depend on the batch.
    """
    allowed = allowed_words(words, kind)
    if kind == LABELLED and (words[allowed] == LABEL_WORD).all() and allowed.sum() == n_meaning - 1:
        return LabelSearch(words)
    return ItemSearch.of(
        codebooks, n_meaning, weights, allowed, max_sweeps, retries, sparse=kind == LABELLED, quick=quick
    )
