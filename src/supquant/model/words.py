"""The words of a code: the purposes of codewords, which of them an item may have, and the search for its code.

Labels are spelled with words of their own (`model/spelling.py`). An item is of one of two kinds: its labels are known or not. The
kind says which words its code may have, and how errors in meaning and position are weighted while the code is searched. The code
of an item with a label begins with the words of the label; there is nothing to search but words for its position, in the other
codebooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Flags, Float32
from supquant.assignment import BEAM, ItemSearch
from supquant.model.spelling import MAX_COLUMNS, Spelling, spell_labels

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

FREE_WORD = 0
"""A word for items without labels. Its meaning was learned and can be anything."""

LABEL_WORD = 1
"""A word with which labels are spelled. It means exactly its column. Items with a known label have the words of their label, so
that the code keeps the label without error."""

POSITION_WORD = 2
"""A word that says where an item lies, and nothing about its labels."""

KNOWN_WORD = 3
"""A first word for items with known labels alone. Its meaning was learned and can be anything. Codes have such words if there are
too many labels for words of their own, or if an item can have several labels."""

LABELLED, UNLABELLED = 0, 1
"""The kinds of items: those with known labels, and those without. They number the rows of `SupervisedCodec.weights`."""

N_KINDS = 2
"""Number of kinds of items."""

LABEL_WORD_SHARE = 7 / 8
"""Label words take at most this fraction of a codebook, if each label has one word."""

KNOWN_WORD_SHARE = 1 / 2
"""If labels have no words, this fraction of the first codebook is reserved for items with known labels."""

MAX_LABEL_WORDS = 3
"""A label has at most this number of words."""

MAX_SHARING_LABELS = 16
"""If codes are too short for all labels, at most this number of labels have the same words, on average."""


# which words a code has ----------------------------------------------------------------------------------------------


def choose_spelling(labels: Labels, n_codebooks: int, n_codewords: int, rng: np.random.Generator) -> Spelling:
    """Choose the words of all labels.

    If there are enough codewords, no two labels have the same words. If codes of M words from codebooks of K codewords are too
    short for that, a few labels share their words; learned codes keep less of so many labels (100 labels in 49 codes: MAP 0.50,
    with learned words 0.13). If rows have several labels, every label has a column of its own; beyond `MAX_COLUMNS` labels each
    has a few words, whose codewords are learned.
    """
    n_labels, most = labels.n_labels, min(n_codebooks, MAX_LABEL_WORDS)
    own = int(n_codewords * LABEL_WORD_SHARE)
    if not labels.multilabel:
        for n_words in (own, n_codewords):
            if n_words**most >= n_labels:
                return spell_labels(n_labels, n_words, rng)
        if min(own, most) > 1 and n_labels <= MAX_SHARING_LABELS * own**most:
            return spell_labels(n_labels, own, rng, most)
    enough = int(np.ceil(n_labels ** (1 / MAX_LABEL_WORDS)))
    return spell_labels(n_labels, MAX_COLUMNS if n_labels <= MAX_COLUMNS else max(n_codewords, enough), rng)


def word_purposes(
    spelling: Spelling, n_codebooks: int, n_codewords: int, position_share: float, *, multilabel: bool
) -> NDArray[np.uint8]:
    """Return the purpose (M, K) of every codeword.

    `position_share` is the fraction of a codebook without label words that is reserved for position.
    """
    words = np.zeros((n_codebooks, n_codewords), dtype=np.uint8)
    words_at = np.bincount(_word_places(spelling), minlength=spelling.length)  # number of words at each place
    room = n_codewords if spelling.length > 1 else n_codewords * LABEL_WORD_SHARE
    if not multilabel and spelling.length <= n_codebooks and words_at.max() <= room:
        for place, n_words in enumerate(words_at):
            words[place, :n_words] = LABEL_WORD
        for_position = max(1, round(n_codewords * position_share))
        words[spelling.length :, :for_position] = POSITION_WORD
    else:
        words[0, : round(n_codewords * KNOWN_WORD_SHARE)] = KNOWN_WORD
    return words


def _word_places(spelling: Spelling) -> NDArray[np.intp]:
    """Return for every column (r,) whether it stands for the first, second or third word of labels."""
    first = np.concatenate([spelling.words[:, 1:].min(axis=0), [spelling.n_columns]])
    return np.searchsorted(first, np.arange(spelling.n_columns), side="right")


def allowed_words(words: NDArray[np.uint8], kind: int) -> Flags:
    """Return which words (M, K) the code of an item of this kind may have, by their purposes (M, K).

    Items with known labels have no free word in a codebook that has other words. Items without have any word but known ones.

    Examples
    --------
    >>> words = np.array([[KNOWN_WORD, FREE_WORD], [FREE_WORD, FREE_WORD]])
    >>> allowed_words(words, LABELLED)
    array([[ True, False],
           [ True,  True]])
    >>> allowed_words(words, UNLABELLED)
    array([[False,  True],
           [ True,  True]])
    """
    if kind == LABELLED:
        return (words != FREE_WORD) | ~words.any(axis=1, keepdims=True)
    return words != KNOWN_WORD


def any_unlabelled(words: NDArray[np.uint8], codes: Codes) -> bool:
    """Return whether any of codes (n, M) is that of an item without labels, by the purposes of words (M, K).

    Such an item has a free word in a codebook in which items with labels have none. Without such a codebook, it is True.

    Examples
    --------
    >>> words = np.array([[LABEL_WORD, FREE_WORD]])
    >>> any_unlabelled(words, np.array([[0]])), any_unlabelled(words, np.array([[0], [1]]))
    (False, True)
    """
    free = words == FREE_WORD
    telling = np.flatnonzero(words.any(axis=1) & free.any(axis=1))
    return not len(telling) or any(bool(free[m][codes[:, m]].any()) for m in telling)


def are_labelled(words: NDArray[np.uint8], codes: Codes) -> Flags:
    """Return for each of codes (n, M) whether it is that of an item with labels, as `any_unlabelled` tells it.

    Examples
    --------
    >>> words = np.array([[LABEL_WORD, FREE_WORD]])
    >>> are_labelled(words, np.array([[0], [1]]))
    array([ True, False])
    """
    free = words == FREE_WORD
    telling = np.flatnonzero(words.any(axis=1) & free.any(axis=1))
    if not len(telling):
        return np.zeros(len(codes), dtype=bool)
    return ~np.any([free[m][codes[:, m]] for m in telling], axis=0)


# the search for a code -----------------------------------------------------------------------------------------------


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
        """Return words (n, M - M') for positions (n, g) of items whose labels have words (n, M').

        The search starts from `codes` (n, M - M') if they are given.
        """
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
    >>> LabelSearch(words, 6).search(np.float32([[0, 0.5, 0, 0, 0, 0.5]]))
    array([[1, 2]], dtype=uint8)
    """

    words: NDArray[np.uint8]  # (M', K) purposes in the first codebooks, those with words of labels
    n_meaning: int  # number of columns before those of position
    positions: PositionSearch | None = None  # for the codebooks after them

    def search(self, vectors: Float32, codes: Codes | None = None) -> Codes:
        """Return the codes (n, M) of vectors (n, D), whose first columns are labels as they are spelled.

        The search for words of position starts from `codes` (n, M) if they are given.
        """
        edges = self._edges
        columns = [vectors[:, slice(*part)].argmax(axis=1) + part[0] for part in pairwise(edges)]
        return self.codes_of(np.stack(columns, axis=1), vectors[:, self.n_meaning :], codes)

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
    n_columns: int,
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
    n_columns : int
        The number of columns of labels, the first ones.
    n_meaning : int
        The number of columns of meaning: those of labels and of likeness.
    kind : int
        The kind of the items, such as `LABELLED`.
    weights : ndarray of shape (2,)
        Weights of a squared error in meaning and of one in position.
    max_sweeps, beam : int
        As in `ItemSearch`.
    quick : bool, default=False
        Whether the search may round as BLAS does, so that codes can depend on the batch.
    """
    allowed = allowed_words(words, kind)
    options: dict[str, Any] = {"weights": weights, "max_sweeps": max_sweeps, "beam": beam, "quick": quick}
    if kind == LABELLED and _spells_labels(words, n_columns):
        n_words = int((words == LABEL_WORD).any(axis=1).sum())
        of_labels, others = np.split(np.ascontiguousarray(codebooks[:, :, n_meaning:]), [n_words])
        positions = PositionSearch.of(of_labels, others, words[n_words:], **options) if len(others) else None
        return LabelSearch(words[:n_words], n_meaning, positions)
    return ItemSearch.of(codebooks, n_meaning, allowed=allowed, sparse=kind == LABELLED, **options)


def _spells_labels(words: NDArray[np.uint8], n_columns: int) -> bool:
    """Return whether the first codebooks have a word for every column of labels, and the others have words for position.

    The words (M, K) are purposes, and `n_columns` is the number of columns of labels.
    """
    with_labels, with_position = ((words == word).any(axis=1) for word in (LABEL_WORD, POSITION_WORD))
    n_words = int(with_labels.sum())
    return bool(
        n_words > 0
        and with_labels[:n_words].all()
        and with_position[n_words:].all()
        and not with_position[:n_words].any()
        and (words == LABEL_WORD).sum() == n_columns
    )
