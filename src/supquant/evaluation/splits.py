"""Score: which rows are queries, which train, and which are searched, the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from supquant.errors import InputError
from supquant.validation import check_choice

PROTOCOLS = ("paper", "unlabelled")
"""`paper`: the database is the training set. `unlabelled`: it is other rows, encoded without their labels."""


@dataclass(frozen=True)
class Split:
    """Row numbers of a data set, each in the random order in which it is used.

    Attributes
    ----------
    queries : ndarray of shape (q,)
    training : ndarray of shape (n_training,)
    database : ndarray of shape (n_database,)
        Under `paper` the same rows as `training`.
    protocol : str
    """

    queries: npt.NDArray[np.int64]
    training: npt.NDArray[np.int64]
    database: npt.NDArray[np.int64]
    protocol: str


def default_queries(n_rows: int) -> int:
    """Give the number of queries: 1,000, or a tenth of the rows if there are fewer than 10,000.

    Examples
    --------
    >>> default_queries(70000), default_queries(1797)
    (1000, 179)
    """
    return 1000 if n_rows >= 10_000 else max(1, n_rows // 10)


def split_rows(n_rows: int, *, protocol: str = "paper", seed: int = 0, n_queries: int | None = None) -> Split:
    """Divide rows into queries, training rows and database.

    Parameters
    ----------
    n_rows : int
    protocol : {"paper", "unlabelled"}
        Under `paper` all rows that are no queries train and are searched. Under `unlabelled` they are
        halved: the first half trains, the other is the database.
    seed : int
        Queries are ``numpy.random.default_rng(seed).permutation(n_rows)[:n_queries]``; the other rows keep
        that random order, so that ties between equal codes favour nobody.
    n_queries : int, optional
        See `default_queries`.

    Examples
    --------
    >>> split = split_rows(20, protocol="unlabelled")
    >>> len(split.queries), len(split.training), len(split.database)
    (2, 9, 9)
    """
    check_choice(protocol, "protocol", PROTOCOLS)
    if n_queries is None:
        n_queries = default_queries(n_rows)
    if not 1 <= n_queries <= n_rows - 2:
        raise InputError(f"n_queries must be between 1 and {n_rows - 2} for {n_rows} rows, got {n_queries}")
    order: npt.NDArray[Any] = np.random.default_rng(seed).permutation(n_rows)
    queries, others = order[:n_queries], order[n_queries:]
    if protocol == "paper":
        return Split(queries, others, others, protocol)
    half = len(others) // 2
    return Split(queries, others[:half], others[half:], protocol)
