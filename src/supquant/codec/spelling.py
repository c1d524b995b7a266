"""Labels in a space of bounded width: a label is spelled with a few words, and its vector is the mean of their columns.

One word a label while labels are few: the space then has a column for each of them. Of more labels every one has two words or
three, a different pair or triple each, so that a code of as many bytes still tells all of them apart, and nothing is as wide as
the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Float32

if TYPE_CHECKING:
    from supquant.labels import Labels

Words = NDArray[np.int32]

MOST_COLUMNS = 512
"""Labels that may have a column each where they have no codewords of their own."""

FAINTEST = 1e-2
FAINTEST_OF_LABELLED = 1e-5
"""Probability of a word at which it begins to count for a query whose labels have several words, and the same where all items
have labels. The lower it is, the better are items with labels ranked, and the worse those without, which have a part of many
words."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """What words labels are made of.

    Parameters
    ----------
    words : (L, t) int32
        The columns of each label, in the order of the places of its words.

    Examples
    --------
    >>> spelling = Spelling(np.array([[0, 2], [1, 3], [0, 3]], dtype=np.int32))
    >>> spelling.n_columns, spelling.of_probabilities(np.float32([[0.5, 0.25, 0.25]]))
    (4, array([[0.375, 0.125, 0.25 , 0.25 ]], dtype=float32))
    """

    words: Words

    @property
    def n_labels(self) -> int:
        """L."""
        return len(self.words)

    @property
    def length(self) -> int:
        """t, the words of a label."""
        return int(self.words.shape[1])

    @cached_property
    def n_columns(self) -> int:
        """r, the width of the space."""
        return int(self.words.max(initial=-1)) + 1

    @cached_property
    def _matrix(self) -> scipy.sparse.csr_array:
        """(L, r) float32: ``1 / t`` at the words of a label."""
        L, t = self.words.shape
        values = np.full(L * t, 1 / t, dtype=np.float32)
        starts = np.arange(0, L * t + 1, t)
        return scipy.sparse.csr_array((values, self.words.ravel(), starts), shape=(L, self.n_columns))

    def of_probabilities(self, p: Float32) -> Float32:
        """Return the mean vectors (b, r) of labels with probabilities p (b, L)."""
        return p if self.length == 1 else np.ascontiguousarray(p @ self._matrix)

    def of_labels(self, labels: Labels, start: int, stop: int) -> Float32:
        """Return the vectors (b, r + a) of the labels of rows ``start`` to ``stop``; unknown ones are NaN.

        Labels past the last one that is spelled have a column of their own behind the others. A row with several labels has
        the sum of their vectors, a word that is in two of them counted once.
        """
        r, more = self.n_columns, labels.n_labels - self.n_labels
        vectors = np.zeros((stop - start, r + more), dtype=np.float32)
        if labels.indices is not None:
            own = labels.indices[start:stop]
            rows = np.flatnonzero((own >= 0) & (own < self.n_labels))
            vectors[rows[:, None], self.words[own[rows]]] = 1 / self.length
            rows = np.flatnonzero(own >= self.n_labels)
            vectors[rows, r + own[rows] - self.n_labels] = 1
        else:
            assert labels.indicator is not None
            carried = labels.indicator[start:stop].tocoo()
            spelled = carried.col < self.n_labels
            rows, own = carried.row[spelled], carried.col[spelled]
            vectors[rows[:, None], self.words[own]] = 1 / self.length
            vectors[carried.row[~spelled], r + carried.col[~spelled] - self.n_labels] = 1
        vectors[~labels.known[start:stop]] = np.nan
        return vectors

    def weights(self, s: Float32, faintest: float = FAINTEST) -> Float32:
        """Return what queries with the mean vectors s (b, r) multiply those of items by.

        With one word a label, s itself. With more, the words of a label are all likely where it is, and of a label that no row
        has some may be by chance: the logarithm of a word's probability makes such labels count for little, since the sum of
        logarithms is low where one of the words is unlikely. They are taken of shares: where little speaks for any of these
        labels, as beside others that were added, none counts for more than that.
        """
        if self.length == 1:
            return s
        total = np.maximum(s.sum(axis=1, keepdims=True), np.float32(1e-30))
        shares = s / total * np.float32(self.length / faintest)
        return np.asarray(total * (np.log1p(shares) / np.float32(np.log1p(1 / faintest))))

    def without(self, s: Float32, own: NDArray[np.intp]) -> Float32:
        """Return mean vectors (b, r), from which the row's own label (b,) is taken as far as its words can be it."""
        left = s.copy()
        rows = np.arange(len(s))[:, None]
        words = self.words[own]
        left[rows, words] -= left[rows, words].min(axis=1, keepdims=True)
        return left


def spell_labels(n_labels: int, n_words: int, rng: np.random.Generator, most: int | None = None) -> Spelling:
    """Spell labels with so many words at each place, and with as few as tell the labels apart; with `most` at the most.

    The digits of a label's number are the coefficients of a polynomial modulo a prime, and its words are values of this
    polynomial (a Reed-Solomon code): every word of a place is used about as often, and two labels with k words each share at
    most k - 1 of them, whichever digits they have in common. Of 100,000 labels that are spelled by their digits many share two
    words of three; items with labels then were ranked .95 as well as by storing the label, and with these words .98.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> spell_labels(5, 7, rng).words.ravel()
    array([0, 1, 2, 3, 4], dtype=int32)
    >>> words = spell_labels(40, 7, rng).words
    >>> words.shape, len(np.unique(words, axis=0)), words.max() < 14
    ((40, 2), 40, np.True_)
    """
    length = next(t for t in count(1) if n_words**t >= n_labels)
    if length == 1:
        return Spelling(np.arange(n_labels, dtype=np.int32)[:, None])
    base = _largest_prime(n_words)
    if base**length < n_labels:  # two places tell numbers apart by any base, more by a prime
        base, length = (n_words, 2) if length == 2 else (base, length + 1)
    length = min(length, most or length)
    number = rng.permutation(n_labels)
    digits = [number // base**k % base for k in range(length)]
    words = [
        place * base + sum(digit * place**k for k, digit in enumerate(digits)) % base
        for place in range(length)
    ]
    return Spelling(np.stack(words, axis=1).astype(np.int32))


def _largest_prime(most: int) -> int:
    """Return the largest prime that is at most so large; 2 if there is none."""
    primes = (n for n in range(most, 2, -1) if all(n % factor for factor in range(2, int(n**0.5) + 1)))
    return next(primes, 2)


def spelling_from(arrays: dict[str, Any], n_labels: int) -> Spelling:
    """Make the spelling again from a file's arrays; files of few labels need not have it."""
    words = arrays.get("spelling")
    if words is None:
        words = np.arange(n_labels, dtype=np.int32)[:, None]
    return Spelling(np.ascontiguousarray(words, dtype=np.int32))
