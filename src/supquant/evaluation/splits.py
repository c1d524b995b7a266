"""Score: which rows are queries, which train, and which are searched, the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from supquant.arrays import RowNumbers
from supquant.errors import InputError
from supquant.validation import check_choice

if TYPE_CHECKING:
    from supquant.labels import Labels


PROTOCOLS = ("paper", "unlabelled", "unseen", "open")
"""`paper`: the database is the training set. `unlabelled`: it is other rows, encoded without their labels.
`unseen`: queries and database are of classes that nothing was trained on. `open`: queries and database are of known
and of new classes, mixed, and no item comes with its label."""

FIT_ROWS = ("labelled", "all")
"""What `fit` is given: the training rows with their labels alone, or the rows of the database too, without labels."""

UNSEEN_SHARE = 0.3
"""The share of the classes, the last ones, that `unseen` and `open` train on no label of."""


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
    fit_rows : {"labelled", "all"}
        Whether `fit` is given the rows of the database too, without labels.
    """

    queries: RowNumbers
    training: RowNumbers
    database: RowNumbers
    protocol: str
    fit_rows: str = "labelled"

    @property
    def unlabelled(self) -> RowNumbers:
        """The rows that `fit` is given without labels: those of the database, or none."""
        return self.database if self.fit_rows == "all" else self.database[:0]


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
    fit_rows: str | None = None,
) -> Split:
    """Divide rows into queries, training rows and database.

    Parameters
    ----------
    labels : Labels
        Of all rows.
    protocol : {"paper", "unlabelled", "unseen", "open"}
        Under `paper` all rows that are no queries train and are searched. Under `unlabelled` they are
        halved: the first half trains, the other is the database. Under `unseen`, which is for one label a
        row, the last 30 % of the classes are held out: the others train, and queries and database come from
        these alone. Under `open`, for one label a row too, the last 30 % of the classes are new and the others
        known: as many queries are of known classes as of new ones, half of the other rows of known classes train,
        and all that is left is the database, both kinds mixed.
    seed : int
        Queries are ``numpy.random.default_rng(seed).permutation(n_rows)[:n_queries]``; the other rows keep
        that random order, so that ties between equal codes favour nobody.
    n_queries : int, optional
        See `default_queries`. Under `open` half of them, rounded down, are of known classes, and as many of new ones.
    queries_per_label : int, optional
        Instead, the first so many rows of each label in that random order, all of them distinct; fewer where
        they would be more than a fifth of the rows. An `n_queries` goes before it. `open` takes no notice of it.
    n_queries_last : int
        Instead, the last so many rows, or `n_queries` random ones of them; the others stay in the order that they
        have. Under `open` always random ones.
    fit_rows : {"labelled", "all"}, optional
        Whether `fit` is given the rows of the database too, without labels: see `resolve_fit_rows`.

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
    if unseen:
        training = order[seen & (order < n_rows - n_queries_last)]
        return Split(queries, training, others, protocol, fit_rows)
    half = len(others) // 2
    return Split(queries, others[:half], others[half:], protocol, fit_rows)


def resolve_fit_rows(protocol: str, fit_rows: str | None = None) -> str:
    """Return what `fit` is given under a protocol: by default "all" rows under `open`, the "labelled" ones elsewhere.

    Under `paper` every row of the database has its label, so that "all" is "labelled".

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


def of_known_classes(labels: Labels, protocol: str) -> npt.NDArray[np.bool_]:
    """Tell which rows (n,) are of the classes that train under `unseen` or `open`: all but the last 30 %.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> of_known_classes(read_labels(["owl", "cat", "dog"]), "open")
    array([False,  True,  True])
    """
    if labels.indices is None:
        raise InputError(f"protocol {protocol} is for one label a row, this data set has several")
    if labels.n_labels < 3:
        raise InputError(f"protocol {protocol} needs at least 3 classes, this data set has {labels.n_labels}")
    n_unseen = round(UNSEEN_SHARE * labels.n_labels)
    return np.asarray(labels.indices < labels.n_labels - n_unseen)


def _split_open(
    labels: Labels, seed: int, n_queries: int | None, n_queries_last: int, fit_rows: str
) -> Split:
    """Divide rows for queries and items of known classes and of new ones, mixed."""
    n_rows = len(labels)
    known = of_known_classes(labels, "open")  # (n_rows,)
    shuffled: RowNumbers = np.random.default_rng(seed).permutation(n_rows)
    may_ask = shuffled[shuffled >= n_rows - n_queries_last] if n_queries_last else shuffled
    kept = 0 if n_queries_last else 2  # rows of each kind that must be left
    most = min(int(known[may_ask].sum()), int((~known[may_ask]).sum())) - kept
    n_each = min(default_queries(n_rows) // 2, most) if n_queries is None else n_queries // 2
    if not 1 <= n_each <= most:
        raise InputError(
            f"n_queries must be between 2 and {2 * most} under protocol open, half of them of new classes, "
            f"got {2 * n_each if n_queries is None else n_queries}"
        )
    of_known, of_new = may_ask[known[may_ask]], may_ask[~known[may_ask]]
    is_query = np.zeros(n_rows, dtype=np.bool_)
    is_query[of_known[:n_each]] = is_query[of_new[:n_each]] = True
    order = np.arange(n_rows - n_queries_last) if n_queries_last else shuffled
    others = order[~is_query[order]]
    half = known[others].sum() // 2
    trains = known[others] & (np.cumsum(known[others]) <= half)  # the first half of the known ones
    return Split(may_ask[is_query[may_ask]], others[trains], others[~trains], "open", fit_rows)


def _some_of_each_label(labels: Labels, rows: RowNumbers, wanted: int) -> npt.NDArray[np.bool_]:
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
