"""Score: a data set divided into training rows, queries and database, and prepared for methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from supquant.arrays import Array
from supquant.inputs.labels import Labels, read_labels
from supquant_lab.splits import Split, of_known_classes, split_rows

if TYPE_CHECKING:
    from supquant_lab.datasets import Dataset


@dataclass(frozen=True)
class Problem:
    """Rows as a method gets them. Their preparation was learned from the training rows alone.

    Attributes
    ----------
    X : ndarray of shape (n, d), float32
        The training rows.
    y : ndarray of shape (n,) or (n, L)
        Their labels, as the data set has them.
    queries : ndarray of shape (q, d), float32
    database : ndarray of shape (m, d), float32
        Under the protocol `paper` it is `X`.
    query_labels, database_labels : Labels
    split : Split
        The row numbers of training rows, queries and database in the data set.
    unlabelled : ndarray of shape (u, d), float32
        Rows that `fit` gets without labels: the database if `split.fit_rows` is "all", otherwise none.
    new_queries : ndarray of shape (q,), bool, or None
        Under the protocol `open`: which queries belong to new classes, which have no training row.
    new_items : ndarray of shape (m,), bool, or None
        The same for the database.
    cut : int or None
        Only this many of the first items of a ranking count: R of the paper. All if None.
    """

    X: Array
    y: Array
    queries: Array
    database: Array
    query_labels: Labels
    database_labels: Labels
    split: Split
    unlabelled: Array
    new_queries: npt.NDArray[np.bool_] | None = None
    new_items: npt.NDArray[np.bool_] | None = None
    cut: int | None = None

    @property
    def training(self) -> Training:
        """What a method is fitted to."""
        return Training(self.X, self.y, self.unlabelled)

    @property
    def learned(self) -> bool:
        """Whether the database is the training set, whose codes are learned with labels."""
        return self.split.protocol == "paper"

    @property
    def new(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
        """`new_queries` and `new_items` as `evaluate_scores` takes them; None where no classes are new."""
        if self.new_queries is None or self.new_items is None:
            return None
        return self.new_queries, self.new_items


def _no_rows() -> Array:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True)
class Training:
    """The rows that a method is fitted to: rows with labels and, for methods that use them, rows without.

    Examples
    --------
    >>> training = Training(np.zeros((2, 1)), np.array([5, 7]), np.ones((1, 1)))
    >>> training.every_row.shape, training.every_label
    ((3, 1), masked_array(data=[5, 7, --],
                 mask=[False, False,  True],
           fill_value=999999))
    """

    X: Array  # (n, d) float32
    y: Array  # (n,) or (n, L)
    unlabelled: Array = field(default_factory=_no_rows)  # (u, d) float32

    @property
    def every_row(self) -> Array:
        """All rows (n + u, d), those with labels first; `X` itself if there are no others."""
        return self.X if len(self.unlabelled) == 0 else np.vstack([self.X, self.unlabelled])

    @property
    def every_label(self) -> Array:
        """The labels of `every_row`, masked for rows without labels; `y` itself if all rows have labels."""
        n, u = len(self.y), len(self.unlabelled)
        if u == 0:
            return self.y
        masked: Array = np.ma.masked_array(np.resize(self.y, (n + u, *self.y.shape[1:])), mask=False)
        masked[n:] = np.ma.masked
        return masked

    def labelled(self) -> Training:
        """Return only the rows with labels."""
        return Training(self.X, self.y)


def pose(
    dataset: Dataset,
    *,
    protocol: str = "paper",
    seed: int = 0,
    n_queries: int | None = None,
    fit_rows: str | None = None,
) -> Problem:
    """Return a data set divided, by its published split if it has one, and prepared.

    Parameters
    ----------
    dataset : Dataset
    protocol, seed, n_queries, fit_rows
        As for `split_rows`.

    Examples
    --------
    >>> from supquant_lab.datasets import load
    >>> problem = pose(load("digits"), protocol="unlabelled")
    >>> problem.X.shape, problem.queries.shape, problem.database.shape
    ((809, 64), (179, 64), (809, 64))
    >>> problem = pose(load("digits"), protocol="open")
    >>> problem.X.shape, problem.unlabelled.shape, int(problem.new_queries.sum())
    ((587, 64), (1032, 64), 89)
    """
    labels = read_labels(dataset.y)
    split = split_rows(
        labels,
        protocol=protocol,
        seed=seed,
        n_queries=n_queries,
        queries_per_label=dataset.queries_per_label,
        n_queries_last=dataset.n_queries_last,
        fit_rows=fit_rows,
    )
    rows = take_rows(dataset.X, split.training)
    ready = dataset.prepare(rows)
    X = ready(rows)
    database = X if protocol == "paper" else ready(take_rows(dataset.X, split.database))
    is_new = ~of_known_classes(labels, protocol) if protocol == "open" else None  # (n,)
    return Problem(
        X=X,
        y=dataset.y[split.training],
        queries=ready(dataset.X[split.queries]),
        database=database,
        query_labels=labels.take(split.queries),
        database_labels=labels.take(split.database),
        split=split,
        unlabelled=database if split.fit_rows == "all" else database[:0],
        new_queries=None if is_new is None else is_new[split.queries],
        new_items=None if is_new is None else is_new[split.database],
        cut=dataset.cut,
    )


def take_rows(X: Array, rows: npt.NDArray[np.int64]) -> Array:
    """Return rows of X (n, d). Consecutive rows are not copied, so a memory-mapped file stays mapped.

    Examples
    --------
    >>> X = np.arange(6).reshape(3, 2)
    >>> take_rows(X, np.array([1, 2])).base is X.base, take_rows(X, np.array([2, 0])).tolist()
    (True, [[4, 5], [0, 1]])
    """
    first = int(rows[0]) if len(rows) else 0
    consecutive = np.array_equal(rows, np.arange(first, first + len(rows)))
    taken: Array = X[first : first + len(rows)] if consecutive else X[rows]
    return taken
