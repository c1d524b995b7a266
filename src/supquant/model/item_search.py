"""The search for the code of an item: its kind says which words a code may have, and how errors are weighted.

Where labels have words of their own, the code of an item with a label begins with the words of the label. There is nothing to
search but words for its position, in the other codebooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.assignment import BEAM, ItemSearch
from supquant.model.words import LABEL_WORD, LABELLED, POSITION_WORD, allowed_words

__all__ = ["LabelSearch", "item_search"]


@dataclass(frozen=True)
class PositionSearch:
    """Finds the words of items with labels in codebooks of position words, for what the words of labels leave of the position."""

    of_labels: Float32  # (M', K, g)  positions of words, in the codebooks of labels
    search_: ItemSearch  # for the position words of the other codebooks
    words: NDArray[np.uint8]  # (M - M', K)  all words of these codebooks, those of position first

    @classmethod
    def of(cls, of_labels: Float32, codebooks: Float32, words: NDArray[np.uint8], **options: Any) -> Self:
        """Prepare for codebooks (M - M', K, g) with words of these purposes (M - M', K), and options of `ItemSearch`."""
        for_position = words == POSITION_WORD
        order = np.argsort(~for_position, axis=1, kind="stable").astype(np.uint8)
        few = order[:, : for_position.sum(axis=1).max()].astype(np.intp)
        search = ItemSearch.of(
            np.take_along_axis(codebooks, few[:, :, None], axis=1),
            0,
            allowed=np.take_along_axis(for_position, few, axis=1),
            **options,
        )
        return cls(of_labels, search, order)

    def search(self, positions: Float32, of_labels: Codes, codes: Codes | None) -> Codes:
        """Return words (n, M - M') for positions (n, g) of items whose labels have words (n, M'), from given words on or anew."""
        left = positions - kernels.active().decode(of_labels, self.of_labels)
        if codes is not None:
            places = np.argsort(self.words, axis=1).astype(np.uint8)  # of every word, in this order
            codes = np.take_along_axis(places, codes.T.astype(np.intp), axis=1).T
        found = self.search_.search(left, codes)
        return np.take_along_axis(self.words, found.T.astype(np.intp), axis=1).T


@dataclass(frozen=True)
class LabelSearch:
    """Finds the codes of items with labels that have words of their own.

    Examples
    --------
    >>> words = np.full((2, 3), LABEL_WORD)
    >>> LabelSearch(words).search(np.float32([[0, 0.5, 0, 0, 0, 0.5]]))
    array([[1, 2]], dtype=uint8)
    """

    words: NDArray[np.uint8]  # (M', K) purposes in the first codebooks, those with words of labels
    positions: PositionSearch | None = None  # for the codebooks after them

    def search(self, vectors: Float32, codes: Codes | None = None) -> Codes:
        """Return the codes (n, M) of vectors (n, D), whose first columns are labels as they are spelled.

        The search for words of position starts from `codes` (n, M) if they are given.
        """
        edges = self._edges
        columns = [vectors[:, slice(*part)].argmax(axis=1) + part[0] for part in pairwise(edges)]
        n_meaning = edges[-1] + 1  # the last of these columns is that of novelty
        return self.codes_of(np.stack(columns, axis=1), vectors[:, n_meaning:], codes)

    def codes_of(self, columns: NDArray[Any], positions: Float32 | None, codes: Codes | None = None) -> Codes:
        """Return the codes (n, M) of items whose labels are spelled with columns (n, M'), and that lie at positions (n, g).

        Positions may be None if codes hold labels and nothing else. The search starts from `codes` (n, M) if they are given.
        """
        found = self._codewords[columns]
        if self.positions is None:
            return found
        assert positions is not None
        given = None if codes is None else codes[:, len(self.words) :]
        return np.hstack([found, self.positions.search(positions, found, given)])

    @property
    def _edges(self) -> list[int]:
        """The columns at which the words of each codebook begin, and where those of the last one end."""
        return [0, *np.cumsum((self.words == LABEL_WORD).sum(axis=1)).tolist()]

    @cached_property
    def _codewords(self) -> Codes:
        """The number (r,) of the codeword that stands for each column, in its codebook."""
        return np.nonzero(self.words == LABEL_WORD)[1].astype(np.uint8)


def item_search(
    codebooks: Float32,
    words: NDArray[np.uint8],
    n_meaning: int,
    kind: int,
    weights: NDArray[Any],
    *,
    max_sweeps: int = 20,
    beam: int = BEAM,
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
    max_sweeps, beam : int
        As in `CodeSearch`.
    quick : bool, default=False
        Whether the search may round as BLAS does, so that codes can depend on the batch.
    """
    allowed = allowed_words(words, kind)
    options: dict[str, Any] = {
        "weights": weights,
        "max_sweeps": max_sweeps,
        "beam": beam,
        "quick": quick,
    }
    if kind == LABELLED and _spells_labels(words, n_meaning):
        n_words = int((words == LABEL_WORD).any(axis=1).sum())
        of_labels, others = np.split(np.ascontiguousarray(codebooks[:, :, n_meaning:]), [n_words])
        positions = PositionSearch.of(of_labels, others, words[n_words:], **options) if len(others) else None
        return LabelSearch(words[:n_words], positions)
    return ItemSearch.of(codebooks, n_meaning, allowed=allowed, sparse=kind == LABELLED, **options)


def _spells_labels(words: NDArray[np.uint8], n_meaning: int) -> bool:
    """Return whether the first codebooks have a word for every column of labels, and the others have words for position.

    The words (M, K) are purposes, and `n_meaning` the number of columns of labels and of novelty.
    """
    with_labels, with_position = ((words == word).any(axis=1) for word in (LABEL_WORD, POSITION_WORD))
    n_words = int(with_labels.sum())
    return bool(
        n_words > 0
        and with_labels[:n_words].all()
        and with_position[n_words:].all()
        and not with_position[:n_words].any()
        and (words == LABEL_WORD).sum() == n_meaning - 1
    )
