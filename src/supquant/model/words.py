"""The purposes of the codewords of a `SupervisedCodec`, and the words that the code of an item may have.

An item is of one of three kinds: its labels are known, or it looks like a class that was trained on, or it looks new. The kind
says which words its code may have, and how errors in meaning and position are weighted while the code is searched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Flags, Float32

FREE_WORD = 0
"""A word for items without labels. Its meaning was learned and can be anything."""

LABEL_WORD = 1
"""A word that labels are spelled with. It means exactly its column. Items with a known label have the words of their label, so
that the code keeps the label without error."""

POSITION_WORD = 2
"""A word that says where an item lies, and nothing about its meaning."""

KNOWN_WORD = 3
"""A first word for items with known labels alone. Its meaning was learned and can be anything. Codes have such words where labels
are too many for words of their own, or where an item may have several labels."""

LABELLED, FAMILIAR, NEW = 0, 1, 2
"""The kinds of items: with known labels, without but of a class that looks known, and of a class that looks new. They number the
rows of `SupervisedCodec.weights`."""

N_KINDS = 3
"""Number of kinds of items."""

NOVELTY_FLOOR = 0.01
"""Probability of being new around which the coordinate n of an item begins to rise."""

NOVELTY_WEIGHT = 0.5
"""The coordinate n of an item that is surely new. The coordinates m are 1 at the most."""

NEW_FROM = 0.3
"""An item without labels is of the kind `NEW` if its probability of being new is greater than this."""


def allowed_words(words: NDArray[np.uint8], kind: int) -> Flags:
    """Return the words that the code of an item may have.

    Items with known labels have no free word where a codebook has other words. Items without have any word but known ones.

    Parameters
    ----------
    words : ndarray of shape (M, K), uint8
        The purpose of each codeword.
    kind : int
        The kind of the item.

    Returns
    -------
    ndarray of shape (M, K), bool

    Examples
    --------
    >>> words = np.array([[KNOWN_WORD, FREE_WORD], [FREE_WORD, FREE_WORD]])
    >>> allowed_words(words, LABELLED)
    array([[ True, False],
           [ True,  True]])
    >>> allowed_words(words, FAMILIAR)
    array([[False,  True],
           [ True,  True]])
    """
    if kind == LABELLED:
        return (words != FREE_WORD) | ~words.any(axis=1, keepdims=True)
    return words != KNOWN_WORD


def any_unlabelled(words: NDArray[np.uint8], codes: Codes) -> bool:
    """Return whether any of codes (n, M) is that of an item without labels, by the purposes of words (M, K).

    Such an item has a free word in a codebook where items with labels have none. Where there is no such codebook, it is True.

    Examples
    --------
    >>> words = np.array([[LABEL_WORD, FREE_WORD]])
    >>> any_unlabelled(words, np.array([[0]])), any_unlabelled(words, np.array([[0], [1]]))
    (False, True)
    """
    free = words == FREE_WORD
    telling = np.flatnonzero(words.any(axis=1) & free.any(axis=1))
    return not len(telling) or any(bool(free[m][codes[:, m]].any()) for m in telling)


def novelty_coordinate(u: Float32 | np.float32) -> Float32:
    """Return the coordinates n (b,) of items with probabilities u (b,) of being new: 0 at u = 0, `NOVELTY_WEIGHT` at u = 1.

    They rise with the logarithm of u, because items differ in small probabilities.
    """
    return np.asarray(np.log1p(u / NOVELTY_FLOOR) * (NOVELTY_WEIGHT / np.log1p(1 / NOVELTY_FLOOR)))


def item_novelty(coordinate: Float32) -> Float32:
    """Return the probabilities u of being new, from 0 to 1, of items with coordinates n: the inverse of `novelty_coordinate`.

    Examples
    --------
    >>> item_novelty(novelty_coordinate(np.array([0, 0.5, 1]))).round(3)
    array([0. , 0.5, 1. ])
    """
    grown = np.expm1(coordinate * np.float32(np.log1p(1 / NOVELTY_FLOOR) / NOVELTY_WEIGHT))
    return np.clip(np.float32(NOVELTY_FLOOR) * grown, 0, 1)


def item_kinds(coordinate: Float32, known: Flags) -> NDArray[np.intp]:
    """Return the kinds (b,) of items, from their coordinates n (b,) and whether their labels are known (b,)."""
    new = coordinate > novelty_coordinate(np.float32(NEW_FROM))
    return np.where(known, LABELLED, np.where(new, NEW, FAMILIAR))
