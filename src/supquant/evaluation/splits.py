"""Score: which rows are queries, which train, and which are searched, the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from supquant.errors import InputError
from supquant.validation import check_choice

if TYPE_CHECKING:
    from supquant.labels import Labels

Rows = npt.NDArray[np.int64]

PROTOCOLS = ("paper", "unlabelled", "unseen")
"""`paper`: the database is the training set. `unlabelled`: it is other rows, encoded without their labels.
`unseen`: queries and database are of classes that nothing was trained on."""

UNSEEN_SHARE = 0.3
"""Of the classes, the last ones, that `unseen` holds out of training."""


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

    queries: Rows
    training: Rows
    database: Rows
    protocol: str


def default_queries(n_rows: int) -> int:
    """Give the number of queries: 1,000, or a tenth of the rows if there are fewer than 10,000.

    Examples
    --------
    >>> default_queries(70000), default_queries(1797)
    (1000, 179)
    """
    return 1000 if n_rows >= 10_000 else max(1, n_rows // 10)


def split_rows(
    labels: Labels,
    *,
    protocol: str = "paper",
    seed: int = 0,
    n_queries: int | None = None,
    queries_per_label: int | None = None,
    n_queries_last: int = 0,
) -> Split:
    """Divide rows into queries, training rows and database.

    Parameters
    ----------
    labels : Labels
        Of all rows.
    protocol : {"paper", "unlabelled", "unseen"}
        Under `paper` all rows that are no queries train and are searched. Under `unlabelled` they are
        halved: the first half trains, the other is the database. Under `unseen`, which is for one label a
        row, the last 30 % of the classes are held out: the others train, and queries and database come from
        these alone.
    seed : int
        Queries are ``numpy.random.default_rng(seed).permutation(n_rows)[:n_queries]``; the other rows keep
        that random order, so that ties between equal codes favour nobody.
    n_queries : int, optional
        See `default_queries`.
    queries_per_label : int, optional
        Instead, the first so many rows of each label in that random order, all of them distinct; fewer where
        they would be more than a fifth of the rows. An `n_queries` goes before it.
    n_queries_last : int
        Instead, the last so many rows, or `n_queries` random ones of them; the others stay in the order that they
        have.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> labels = read_labels(["cat", "dog", "owl"] * 10)
    >>> split = split_rows(labels, protocol="unlabelled")
    >>> len(split.queries), len(split.training), len(split.database)
    (3, 13, 14)
    >>> split = split_rows(labels, protocol="unseen")
    >>> len(split.queries), len(split.training), len(split.database)
    (1, 20, 9)
    """
    check_choice(protocol, "protocol", PROTOCOLS)
    n_rows = len(labels)
    order: Rows = np.arange(n_rows) if n_queries_last else np.random.default_rng(seed).permutation(n_rows)
    seen = _of_seen_classes(labels)[order] if protocol == "unseen" else np.zeros(n_rows, dtype=np.bool_)
    searched = order[~seen]  # queries and what they search; under `unseen` without the training rows
    if n_queries_last:
        is_query = searched >= n_rows - n_queries_last
        if n_queries is not None and n_queries < is_query.sum():
            asked = np.random.default_rng(seed).permutation(np.flatnonzero(is_query))[:n_queries]
            kept = ~is_query
            kept[asked] = True  # the other published queries are left out
            searched, is_query = searched[kept], is_query[kept]
    elif queries_per_label is not None and n_queries is None:
        is_query = _some_of_each_label(labels, searched, queries_per_label)
    else:
        n_queries = default_queries(len(searched)) if n_queries is None else n_queries
        if not 1 <= n_queries <= len(searched) - 2:
            raise InputError(
                f"n_queries must be between 1 and {len(searched) - 2} for {len(searched)} rows, got {n_queries}"
            )
        is_query = np.arange(len(searched)) < n_queries
    queries, others = searched[is_query], searched[~is_query]
    if protocol == "paper":
        return Split(queries, others, others, protocol)
    if protocol == "unseen":
        return Split(queries, order[seen & (order < n_rows - n_queries_last)], others, protocol)
    half = len(others) // 2
    return Split(queries, others[:half], others[half:], protocol)


def _of_seen_classes(labels: Labels) -> npt.NDArray[np.bool_]:
    """Tell which rows (n,) are of the classes that train under `unseen`."""
    if labels.indices is None:
        raise InputError("protocol unseen is for one label a row, this data set has several")
    if labels.n_labels < 3:
        raise InputError(f"protocol unseen needs at least 3 classes, this data set has {labels.n_labels}")
    n_unseen = round(UNSEEN_SHARE * labels.n_labels)
    return np.asarray(labels.indices < labels.n_labels - n_unseen)


def _some_of_each_label(labels: Labels, rows: Rows, wanted: int) -> npt.NDArray[np.bool_]:
    """Mark, among rows in their order, the first `wanted` of each label that no label before it took."""
    wanted = max(1, min(wanted, len(rows) // (5 * labels.n_labels)))
    chosen = np.zeros(len(rows), dtype=np.bool_)
    ordered = labels.take(rows)
    for label in range(labels.n_labels):
        chosen[np.flatnonzero(_has_label(ordered, label) & ~chosen)[:wanted]] = True
    return chosen


def _has_label(labels: Labels, label: int) -> npt.NDArray[np.bool_]:
    if labels.indices is not None:
        return np.asarray(labels.indices == label)
    assert labels.indicator is not None
    return np.asarray(labels.indicator[:, [label]].toarray()[:, 0], dtype=np.bool_)
