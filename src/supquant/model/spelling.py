"""Labels in a space of bounded width: a label is spelled with a few words, and every word is a column.

The vector of a label is the mean of the columns of its words. If labels are few, each has one word, and the space has a column
for each label. With more labels, each has two or three words, and no two labels have the same ones. So a code of as many bytes
still tells all labels apart, and no array is as wide as the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.errors import InputError

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

Words = NDArray[np.int32]

MAX_COLUMNS = 512
"""Up to this number, labels without codewords of their own have a column each."""

MIN_PROBABILITY = 1e-2
"""Probability above which a word counts for a query, if labels have several words. A lower one ranks items with labels better,
and items without labels worse, because these have a share of many words."""

MIN_PROBABILITY_ALL_LABELLED = 1e-5
"""The same probability if all items have labels."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """The words of labels.

    Parameters
    ----------
    words : ndarray of shape (L, t), int32
        The columns of the t words of each label.

    Examples
    --------
    >>> spelling = Spelling(np.array([[0, 2], [1, 3], [0, 3]], dtype=np.int32))
    >>> spelling.n_columns, spelling.of_probabilities(np.float32([[0.5, 0.25, 0.25]]))
    (4, array([[0.375, 0.125, 0.25 , 0.25 ]], dtype=float32))
    """

    words: Words

    @property
    def n_labels(self) -> int:
        """L, the number of labels."""
        return len(self.words)

    @property
    def length(self) -> int:
        """t, the number of words of a label."""
        return int(self.words.shape[1])

    @cached_property
    def n_columns(self) -> int:
        """r, the width of the space."""
        return int(self.words.max(initial=-1)) + 1

    @cached_property
    def _matrix(self) -> scipy.sparse.csr_array:
        """Vectors (L, r) float32 of all labels: ``1 / t`` at their words."""
        L, t = self.words.shape
        values = np.full(L * t, 1 / t, dtype=np.float32)
        starts = np.arange(0, L * t + 1, t)
        return scipy.sparse.csr_array((values, self.words.ravel(), starts), shape=(L, self.n_columns))

    def of_probabilities(self, p: Float32) -> Float32:
        """Return the mean (b, r) of the vectors of labels, weighted by their probabilities p (b, L)."""
        return p if self.length == 1 else np.ascontiguousarray(p @ self._matrix)

    def of_labels(self, labels: Labels, start: int, stop: int) -> Float32:
        """Return the vectors (b, r + a) of the labels of rows ``start`` to ``stop``; those of unknown labels are NaN.

        The a labels that were added after the fit are not spelled; each has a column of its own behind the others. A row with
        several labels has the sum of their vectors, in which a word of two labels counts once.
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

    def weights(self, s: Float32, least: float = MIN_PROBABILITY) -> Float32:
        """Return the vectors (b, r) by which queries with mean vectors s (b, r) multiply the vectors of items.

        With one word per label, it is s itself. With more, all words of a likely label are likely, but some words of an unlikely
        label may be likely too, because other labels have them. The logarithm of a word's probability makes such labels count
        little: the sum of logarithms is low if one of the words is unlikely. Logarithms are taken of ``s / sum(s)`` and
        multiplied by ``sum(s)``, so that a query of an added label, whose sum is low, gives low weights. Words count above the
        probability `least`.
        """
        if self.length == 1:
            return s
        # in float64, as compiled code computes it
        total = np.maximum(s.sum(axis=1, keepdims=True, dtype=np.float64), 1e-30)
        weights = total * (np.log1p(s / total * (self.length / least)) / np.log1p(1 / least))
        return weights.astype(np.float32)


def spell_labels(n_labels: int, n_words: int, rng: np.random.Generator, most: int | None = None) -> Spelling:
    """Spell labels, each with as few words as it takes to tell all labels apart.

    The digits of a label's number are the coefficients of a polynomial modulo a prime, and its words are values of this
    polynomial (a Reed-Solomon code). Every word of a place is used about equally often, and two labels with k words each share at
    most k - 1 of them. If the digits themselves were the words, many of 100,000 labels would share two words of three: the MAP of
    items with labels would be 0.95 of that with stored labels, instead of 0.98.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    n_words : int
        Number of words at each place.
    rng : numpy Generator
        Draws the number of each label.
    most : int or None, default=None
        Maximum number of words per label. If that is too few to tell all labels apart, some share a spelling.

    Returns
    -------
    Spelling

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
    if base**length < n_labels:  # with two places any base tells numbers apart, with more only a prime
        base, length = (n_words, 2) if length == 2 else (base, length + 1)
    length = min(length, most or length)
    number = rng.permutation(n_labels)
    digits = [number // base**k % base for k in range(length)]
    # word of label i at a place: place * base + (digits[0][i] + digits[1][i] * place + digits[2][i] * place**2 + ...) % base
    words = [
        place * base + sum(digit * place**k for k, digit in enumerate(digits)) % base
        for place in range(length)
    ]
    return Spelling(np.stack(words, axis=1).astype(np.int32))


def _largest_prime(most: int) -> int:
    """Return the largest prime that is at most `most`; 2 if there is none."""
    primes = (n for n in range(most, 2, -1) if all(n % factor for factor in range(2, int(n**0.5) + 1)))
    return next(primes, 2)


def spelling_from(arrays: dict[str, Any], n_labels: int) -> Spelling:
    """Return the spelling of labels in the arrays of a file."""
    words = arrays["spelling"]
    if words.dtype != np.int32 or words.ndim != 2 or len(words) != n_labels or not words.shape[1]:
        raise InputError(
            f"spelling must be int32 of shape ({n_labels}, t), got {words.dtype} of shape {words.shape}"
        )
    if words.min(initial=0) < 0:
        raise InputError(f"words must be columns, got {words.min()}")
    return Spelling(np.ascontiguousarray(words))
