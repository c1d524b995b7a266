"""Neighbours, codes and texts to groups of rows that occur more than once.

Rows are linked if their vectors are nearly equal. Of codes alone, only equal ones are linked: other items have codes as near as
those of near-duplicates. Where rows have texts, a link also needs nearly the same words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from supquant.arrays import Codes, Float64
from supquant.auditing.neighbours import Neighbours

DUPLICATE_RATIO = 0.2
"""Two rows are near-duplicates if they are nearer than this fraction of the usual distance of a row to its last neighbour, which
is the median over all rows."""

MIN_COMMON = 0.8
"""Texts of near-duplicates have at least this fraction of their words in common."""


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows that may be the same, and how much they differ: 0 if they are equal."""

    first: NDArray[np.intp]  # (l,)
    second: NDArray[np.intp]  # (l,)
    difference: Float64  # (l,) from 0 to 1

    def with_texts(self, texts: Sequence[str | None]) -> Links:
        """Return the links between rows with nearly the same texts, and between rows of which one has no text."""
        pairs = zip(self.first.tolist(), self.second.tolist(), strict=True)
        common = np.array([common_words(texts[a], texts[b]) for a, b in pairs])
        kept = common >= MIN_COMMON
        return Links(self.first[kept], self.second[kept], np.maximum(self.difference, 1 - common)[kept])

    def groups(self, n: int) -> tuple[NDArray[np.int64], Float64]:
        """Return the group (n,) of every row, -1 for none, and how much the row differs (n,) from the nearest of its group.

        Groups are numbered by their first rows.

        Examples
        --------
        >>> Links(np.array([0, 3]), np.array([2, 2]), np.array([0.1, 0.0])).groups(4)
        (array([ 0, -1,  0,  0]), array([0.1, inf, 0. , 0. ]))
        """
        links = scipy.sparse.coo_array((np.ones(len(self.first)), (self.first, self.second)), shape=(n, n))
        _, component = connected_components(links, directed=False)
        sizes = np.bincount(component)
        group = np.where(sizes[component] > 1, component, -1).astype(np.int64)
        _, numbers = np.unique(group[group >= 0], return_inverse=True)
        group[group >= 0] = numbers
        nearest = np.full(n, np.inf)
        np.minimum.at(nearest, self.first, self.difference)
        np.minimum.at(
            nearest, self.second, self.difference
        )  # a neighbour need not have the row among its own
        return group, nearest


def near_links(neighbours: Neighbours) -> Links:
    """Return links between rows whose vectors are nearly equal. Differences are in units of `Neighbours.usual_distance`."""
    n, k = neighbours.rows.shape
    usual = neighbours.usual_distance() or 1.0
    near = neighbours.distances <= DUPLICATE_RATIO * usual
    return Links(
        np.repeat(np.arange(n), k)[near.ravel()],
        neighbours.rows[near].astype(np.intp),
        neighbours.distances[near].astype(np.float64) / usual,
    )


def equal_links(codes: Codes, texts: Sequence[str | None] | None) -> Links:
    """Return links between rows of equal codes (n, M). Of more than two of them, those with similar texts are linked.

    Examples
    --------
    >>> codes = np.array([[1, 2], [3, 4], [1, 2], [1, 2]], dtype=np.uint8)
    >>> links = equal_links(codes, ["a book", "a book", "a cat", "a book!"])
    >>> list(zip(links.first.tolist(), links.second.tolist()))
    [(0, 3), (3, 2)]
    """
    _, place = np.unique(codes, axis=0, return_inverse=True)
    words = [""] * len(codes) if texts is None else [" ".join(sorted(_words(text or ""))) for text in texts]
    order = np.array(sorted(range(len(codes)), key=lambda row: (place[row], words[row], row)), dtype=np.intp)
    equal = place[order][1:] == place[order][:-1]
    first, second = order[:-1][equal], order[1:][equal]
    return Links(first, second, np.zeros(len(first)))


def common_words(a: str | None, b: str | None) -> float:
    """Return the fraction of words that two texts have in common, from 0 to 1; 1 if one has none.

    Examples
    --------
    >>> common_words("O(ND) diff algorithm library", "InChI algorithm (library)")
    0.5
    >>> common_words("My card was lost", "my card was lost!")
    1.0
    """
    first, second = _words(a or ""), _words(b or "")
    if not first or not second:
        return 1.0
    return 2 * (first & second).total() / (first.total() + second.total())


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))
