"""Score: which rows are queries, which train, and which are searched. Splits are the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Flags, RowNumbers
from supquant.errors import InputError
from supquant.inputs.parameters import check_choice

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

PROTOCOLS = ("paper", "unlabelled", "unseen", "open")
"""What the database holds. `paper`: the training rows. `unlabelled`: other rows, encoded without their labels. `unseen`: rows
of classes that are not in the training rows; the queries are of these classes too. `open`: rows of known and of new classes,
encoded without their labels; the queries are of both kinds too."""

FIT_ROWS = ("labelled", "all")
"""The rows that `fit` is given: the labelled training rows, or these and the rows of the database without labels."""

NEW_CLASS_SHARE = 0.3
"""Fraction of the classes that are new under `unseen` and `open`: the last ones, and no row with their labels trains."""


@dataclass(frozen=True)
class Split:
    """Numbers of the rows of a data set by their use, in the order in which they are used.

    Attributes
    ----------
    queries : ndarray of shape (q,)
    training : ndarray of shape (n_training,)
    database : ndarray of shape (n_database,)
        Under `paper` the same rows as `training`.
    protocol : {"paper", "unlabelled", "unseen", "open"}
    fit_rows : {"labelled", "all"}
        "all" if `fit` is also given the rows of the database, without labels.
    """

    queries: RowNumbers
    training: RowNumbers
    database: RowNumbers
    protocol: str
    fit_rows: str = "labelled"

    @property
    def unlabelled(self) -> RowNumbers:
        """The rows that `fit` is given without labels: the rows of the database, or none."""
        return self.database if self.fit_rows == "all" else self.database[:0]


def default_queries(n_rows: int) -> int:
    """Return the default number of queries: 1,000, or a tenth of the rows if there are fewer than 10,000.

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
    fit_rows: str | None = None,
) -> Split:
    """Divide rows into queries, training rows and database.

    Parameters
    ----------
    labels : Labels
        Labels of all rows.
    protocol : {"paper", "unlabelled", "unseen", "open"}, default="paper"
        `paper`: all rows that are not queries train and are searched. `unlabelled`: the first half of the rows that are not
        queries trains, the other half is the database. `unseen`, for one label per row: the last 30% of the classes are new;
        rows of the other classes train, and queries and database are of the new classes. `open`, for one label per row: the
        last 30% of the classes are new, the others are known; half of the queries are of known classes, half of new ones;
        half of the other rows of known classes train, and all remaining rows are the database.
    seed : int, default=0
        Queries are ``numpy.random.default_rng(seed).permutation(n_rows)[:n_queries]``. The other rows keep this random
        order, so that no label comes first among equal codes.
    n_queries : int or None, default=None
        Number of queries; None for `default_queries`. Under `open` half of them, rounded down, are of each kind.
    queries_per_label : int or None, default=None
        If given and `n_queries` is None, the queries are the first rows of each label in the random order: this number of
        distinct rows for each label, or fewer if the queries would be more than a fifth of the rows. Not used under `open`.
    n_queries_last : int, default=0
        If above 0, the queries are the last rows, this number of them, or `n_queries` random ones among these. The other rows
        keep their order. Under `open` the queries are always random ones among these.
    fit_rows : {"labelled", "all"} or None, default=None
        "all" if `fit` is also given the rows of the database, without labels; None for the default of the protocol (see
        `resolve_fit_rows`).

    Returns
    -------
    Split

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> labels = read_labels(["cat", "dog", "owl"] * 10)
    >>> split = split_rows(labels, protocol="unlabelled")
    >>> len(split.queries), len(split.training), len(split.database)
    (3, 13, 14)
    >>> split = split_rows(labels, protocol="unseen")
    >>> len(split.queries), len(split.training), len(split.database)
    (1, 20, 9)
    >>> split = split_rows(labels, protocol="open", n_queries=4)
    >>> len(split.queries), len(split.training), len(split.database), len(split.unlabelled)
    (4, 9, 17, 17)
    """
    fit_rows = resolve_fit_rows(protocol, fit_rows)
    if protocol == "open":
        return _split_open(labels, seed, n_queries, n_queries_last, fit_rows)
    n_rows = len(labels)
    order: RowNumbers = (
        np.arange(n_rows) if n_queries_last else np.random.default_rng(seed).permutation(n_rows)
    )
    unseen = protocol == "unseen"
    seen = of_known_classes(labels, protocol)[order] if unseen else np.zeros(n_rows, dtype=np.bool_)
    searched = order[~seen]  # queries and database; under `paper` and `unlabelled` also the training rows
    if n_queries_last:
        is_query = searched >= n_rows - n_queries_last
        if n_queries is not None and n_queries < is_query.sum():
            chosen = np.random.default_rng(seed).permutation(np.flatnonzero(is_query))[:n_queries]
            kept = ~is_query
            kept[chosen] = True  # the other rows at the end are left out
            searched, is_query = searched[kept], is_query[kept]
    elif queries_per_label is not None and n_queries is None:
        is_query = _first_of_each_label(labels, searched, queries_per_label)
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
    if unseen:
        training = order[seen & (order < n_rows - n_queries_last)]
        return Split(queries, training, others, protocol, fit_rows)
    half = len(others) // 2
    return Split(queries, others[:half], others[half:], protocol, fit_rows)


def resolve_fit_rows(protocol: str, fit_rows: str | None = None) -> str:
    """Return which rows `fit` is given under a protocol.

    Parameters
    ----------
    protocol : {"paper", "unlabelled", "unseen", "open"}
    fit_rows : {"labelled", "all"} or None, default=None
        None is "all" under `open` and "labelled" under the other protocols.

    Returns
    -------
    {"labelled", "all"}
        Always "labelled" under `paper`, where every row of the database has its label.

    Examples
    --------
    >>> resolve_fit_rows("open"), resolve_fit_rows("unseen"), resolve_fit_rows("paper", "all")
    ('all', 'labelled', 'labelled')
    """
    check_choice(protocol, "protocol", PROTOCOLS)
    if fit_rows is None:
        return "all" if protocol == "open" else "labelled"
    check_choice(fit_rows, "fit_rows", FIT_ROWS)
    return "labelled" if protocol == "paper" else fit_rows


def of_known_classes(labels: Labels, protocol: str) -> Flags:
    """Return a mask (n,) of the rows of known classes: all classes but the last 30%.

    Parameters
    ----------
    labels : Labels
        One label for each row.
    protocol : {"unseen", "open"}
        The protocol that the errors name.

    Returns
    -------
    ndarray of shape (n,), bool

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> of_known_classes(read_labels(["owl", "cat", "dog"]), "open")
    array([False,  True,  True])
    """
    if labels.indices is None:
        raise InputError(f"protocol {protocol} is for one label per row, this data set has several")
    if labels.n_labels < 3:
        raise InputError(f"protocol {protocol} needs at least 3 classes, this data set has {labels.n_labels}")
    n_new = round(NEW_CLASS_SHARE * labels.n_labels)
    return np.asarray(labels.indices < labels.n_labels - n_new)


def _split_open(
    labels: Labels, seed: int, n_queries: int | None, n_queries_last: int, fit_rows: str
) -> Split:
    """Divide rows under protocol `open`; see `split_rows`."""
    n_rows = len(labels)
    known = of_known_classes(labels, "open")  # (n_rows,)
    shuffled: RowNumbers = np.random.default_rng(seed).permutation(n_rows)
    candidates = shuffled[shuffled >= n_rows - n_queries_last] if n_queries_last else shuffled
    of_known, of_new = candidates[known[candidates]], candidates[~known[candidates]]
    reserved = 0 if n_queries_last else 2  # rows of each kind that must not be queries
    most = min(len(of_known), len(of_new)) - reserved
    n_each = min(default_queries(n_rows) // 2, most) if n_queries is None else n_queries // 2
    if not 1 <= n_each <= most:
        raise InputError(
            f"n_queries must be between 2 and {2 * most} under protocol open, half of them of new classes, "
            f"got {2 * n_each if n_queries is None else n_queries}"
        )
    is_query = np.zeros(n_rows, dtype=np.bool_)
    is_query[of_known[:n_each]] = is_query[of_new[:n_each]] = True
    order = np.arange(n_rows - n_queries_last) if n_queries_last else shuffled
    others = order[~is_query[order]]
    half = known[others].sum() // 2
    trains = known[others] & (np.cumsum(known[others]) <= half)  # the first half of the rows of known classes
    return Split(candidates[is_query[candidates]], others[trains], others[~trains], "open", fit_rows)


def _first_of_each_label(labels: Labels, rows: RowNumbers, count: int) -> Flags:
    """Return a mask of `rows` that marks the first `count` rows of each label; a row is marked for one label only."""
    count = max(1, min(count, len(rows) // (5 * labels.n_labels)))
    chosen = np.zeros(len(rows), dtype=np.bool_)
    ordered = labels.take(rows)
    for label in range(labels.n_labels):
        chosen[np.flatnonzero(_has_label(ordered, label) & ~chosen)[:count]] = True
    return chosen


def _has_label(labels: Labels, label: int) -> Flags:
    """Return a mask (n,) of the rows that carry a label, given its number."""
    if labels.indices is not None:
        return np.asarray(labels.indices == label)
    assert labels.indicator is not None
    return np.asarray(labels.indicator[:, [label]].toarray()[:, 0], dtype=np.bool_)
