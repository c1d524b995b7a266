"""Before the gate for labels: rows that list their labels, as an indicator matrix."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first used

from supquant.arrays import Array
from supquant.errors import InputError

__all__ = ["are_label_lists", "indicator_of_lists"]


def are_label_lists(values: Any) -> bool:
    """Return whether an array holds a list, set or array of labels for each row. A tuple is one label.

    Examples
    --------
    >>> rows = np.empty(2, dtype=object)
    >>> rows[:] = [["a", "b"], []]
    >>> are_label_lists(rows), are_label_lists(np.array(["a", "b"], dtype=object))
    (True, False)
    """
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 1
        and values.dtype.kind == "O"
        and len(values) > 0
        and all(_lists_labels(row) for row in values)
    )


def _lists_labels(row: Any) -> bool:
    if isinstance(row, np.ndarray):
        return row.ndim == 1 and row.dtype.kind in "iuUO"
    return isinstance(row, list | set | frozenset)


def indicator_of_lists(rows: Array, classes: Array | None, name: str) -> tuple[Array, scipy.sparse.csr_array]:
    """Return the labels that rows list, sorted, and which row has which of them.

    Parameters
    ----------
    rows : ndarray of shape (n,), object
        The labels of each row.
    classes : ndarray of shape (L,) or None
        All labels; None takes those that are found.
    name : str
        Name of the labels in errors.

    Returns
    -------
    classes : ndarray of shape (L,)
    indicator : csr_array of shape (n, L), bool

    Raises
    ------
    InputError
        If a label is not in `classes`, or labels cannot be sorted.

    Examples
    --------
    >>> rows = np.empty(3, dtype=object)
    >>> rows[:] = [["b", "a"], [], ["b", "b"]]
    >>> classes, indicator = indicator_of_lists(rows, None, "y")
    >>> classes.tolist(), indicator.toarray().astype(int).tolist()
    (['a', 'b'], [[1, 1], [0, 0], [0, 1]])
    """
    listed = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows]
    try:
        distinct = sorted(set(chain.from_iterable(listed)))
    except TypeError as error:
        raise InputError(f"{name} lists labels that are not all of one kind: {error}") from error
    if classes is None:
        if not distinct:
            raise InputError(f"{name} lists no label in any of its {len(listed)} rows")
        known = distinct
        classes = np.array(known) if isinstance(known[0], int | np.integer) else np.array(known, dtype=object)
    else:
        known = classes.tolist()
    position = {label: index for index, label in enumerate(known)}
    unknown = [label for label in distinct if label not in position]
    if unknown:
        raise InputError(
            f"{name} lists {len(unknown)} unknown label{'s' * (len(unknown) > 1)}, the first is {unknown[0]!r}; "
            f"{len(known)} labels are known"
        )
    columns = [sorted({position[label] for label in row}) for row in listed]
    starts = np.cumsum([0, *map(len, columns)])
    indices = np.fromiter(chain.from_iterable(columns), dtype=np.int32, count=int(starts[-1]))
    matrix = scipy.sparse.csr_array(
        (np.ones(len(indices), dtype=np.bool_), indices, starts), shape=(len(listed), len(known))
    )
    return classes, matrix
