"""Words of a code: how labels are spelled, and the purpose of every codeword.

A word of a label is a codeword that stands for it. The kinds of codewords are in `codec.words`, and spelled labels in
`codec.spelling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supquant.model.spelling import MAX_COLUMNS, Spelling, spell_labels
from supquant.model.words import KNOWN_WORD, LABEL_WORD, POSITION_WORD

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

LABEL_WORD_SHARE = 7 / 8
"""Label words take at most this part of a codebook, if each label has one word."""

KNOWN_WORD_SHARE = 1 / 2
"""If labels have no words, this part of the first codebook is kept for items with known labels."""

MAX_LABEL_WORDS = 3
"""A label has at most this number of words."""

MAX_SHARING_LABELS = 16
"""If codes are too short for all labels, at most this number of labels have the same words, on average."""


def choose_spelling(labels: Labels, n_codebooks: int, n_codewords: int, rng: np.random.Generator) -> Spelling:
    """Choose the words of all labels.

    If there are enough codewords, no two labels have the same words. If codes are too short for that, a few labels share their
    words; learned codes keep less of so many labels (100 labels in 49 codes: MAP .50, with learned words .13). If rows have
    several labels, every label has a column of its own; beyond `MAX_COLUMNS` labels each has a few words, whose codewords are
    learned.

    Parameters
    ----------
    labels : Labels
    n_codebooks, n_codewords : int
        M and K.
    rng : Generator

    Returns
    -------
    Spelling
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
    """Return the kind of every codeword.

    Parameters
    ----------
    spelling : Spelling
        Words of the labels.
    n_codebooks, n_codewords : int
        M and K.
    position_share : float
        Part of a codebook without label words that is kept for position.
    multilabel : bool
        Whether a row can have several labels.

    Returns
    -------
    (M, K) uint8
        Kinds as in `codec.words`.
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
