"""Vectors: what a data set is, and how its rows are prepared before the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError

Preparation = Callable[[Array], Array]
"""A function from raw rows (n, d) of any dtype to (n, d) float32 rows."""


@dataclass(frozen=True)
class Dataset:
    """Labelled rows as in their file, with the function that prepares them.

    Attributes
    ----------
    name : str
        The name that it was loaded by.
    X : ndarray of shape (n, d)
        Raw rows, in the order and dtype of their file.
    y : ndarray of shape (n,) or (n, L)
        One class label per row, or a 0/1 indicator of several labels per row.
    prepare : callable
        ``prepare(training_rows)`` returns the function from raw rows to (n, d) float32 rows. What it learns, such as a mean, it
        learns from the training rows alone.
    image_shape : tuple of int or None
        Height and width of the picture, if a row holds the pixels of one.
    images : ndarray of shape (n, h, w) or (n, h, w, 3), uint8, or None
        The pictures that the rows were made from, if they are there and rows are not their pixels.
    queries_per_label : int or None
        Number of random rows of every label that are queries, as published; all are different. None draws queries from all
        rows.
    n_queries_last : int
        Number of rows at the end that are the published queries; 0 if queries are drawn.
    cut : int or None
        The published R: only this many of the first items count in MAP; all if None.

    Examples
    --------
    >>> from supquant_lab.datasets import load
    >>> digits = load("digits")
    >>> ready = digits.prepare(digits.X[:1000])
    >>> ready(digits.X[1000:]).shape
    (797, 64)
    """

    name: str
    X: Array
    y: Array
    prepare: Callable[[Array], Preparation]
    image_shape: tuple[int, int] | None = None
    images: Array | None = None
    queries_per_label: int | None = None
    n_queries_last: int = 0
    cut: int | None = None

    def __len__(self) -> int:
        return len(self.X)

    def sample(self, n_rows: int, seed: int = 0) -> Dataset:
        """Return `n_rows` random rows in their order; the same seed gives the same rows.

        Examples
        --------
        >>> from supquant_lab.datasets import load
        >>> len(load("digits").sample(100))
        100
        """
        if not 1 <= n_rows <= len(self):
            raise InputError(f"rows must be between 1 and the {len(self)} rows of {self.name}, got {n_rows}")
        rows = np.sort(np.random.default_rng(seed).choice(len(self), n_rows, replace=False))
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            images=None if self.images is None else self.images[rows],
            n_queries_last=int(np.sum(rows >= len(self) - self.n_queries_last)),
        )


def unchanged(_training_rows: Array) -> Preparation:
    """Return the function that takes rows as they are, in float32.

    Examples
    --------
    >>> unchanged(np.zeros((1, 2)))(np.array([[1, 2]]))
    array([[1., 2.]], dtype=float32)
    """
    return lambda rows: np.ascontiguousarray(rows, dtype=np.float32)


def divided_by(largest: float) -> Callable[[Array], Preparation]:
    """Return the function from pixels of 0..largest to 0..1.

    Examples
    --------
    >>> divided_by(16)(np.zeros((1, 2)))(np.array([[8, 16]]))
    array([[0.5, 1. ]], dtype=float32)
    """
    return lambda _training_rows: lambda rows: np.asarray(rows, dtype=np.float32) / np.float32(largest)


def centred_unit_length(training_rows: Array) -> Preparation:
    """Return the function that subtracts the mean of the training rows and scales rows to length one; zeros stay zeros.

    Examples
    --------
    >>> centred_unit_length(np.array([[1, 1], [3, 1]]))(np.array([[5, 5]]))
    array([[0.6, 0.8]], dtype=float32)
    """
    mean = training_rows.mean(axis=0, dtype=np.float64).astype(np.float32)  # (d,)

    def ready(rows: Array) -> Array:
        centred = np.asarray(rows, dtype=np.float32) - mean
        return _divide_rows(centred, np.linalg.norm(centred, axis=1))

    return ready


def root_of_frequencies(_training_rows: Array) -> Preparation:
    """Return the function from counts to square roots of frequencies; a row of zeros stays zero.

    Examples
    --------
    >>> root_of_frequencies(np.zeros((1, 2)))(np.array([[1, 3]], dtype=np.uint16)).round(3)
    array([[0.5  , 0.866]], dtype=float32)
    """

    def ready(rows: Array) -> Array:
        counts = np.asarray(rows, dtype=np.float32)
        roots: Array = np.sqrt(_divide_rows(counts, counts.sum(axis=1)))
        return roots

    return ready


def _divide_rows(rows: Array, by: Array) -> Array:
    quotients: Array = rows / np.where(by > 0, by, np.float32(1))[:, None]
    return quotients
