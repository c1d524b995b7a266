"""Before the gate for labels: which rows of y have a label, and an array of the labels of these rows.

Missing labels must not change how the other labels are read. None makes a list of integers an array of objects, NaN makes it an
array of floats, and a masked entry keeps a value behind its mask. So missing labels are removed before the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its subpackages are loaded when first used

from supquant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from supquant.arrays import Array, Flags

__all__ = ["is_indicator", "is_missing", "labelled_rows", "narrowed"]


def labelled_rows(
    y: Any, *, missing: bool = False, missing_label: object = None, name: str = "y"
) -> tuple[Any, Flags | None]:
    """Read `y` into an array without the rows whose label is missing.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Class labels or an indicator matrix.
    missing : bool, default=False
        Whether labels may be missing. If false, masked entries are refused, and the caller checks everything else.
    missing_label : object, default=None
        A label that means "missing", in addition to None, NaN, NaT, pandas.NA and masked entries.
    name : str, default="y"
        Name of the labels in errors.

    Returns
    -------
    labels : ndarray of shape (m,) or (m, L), or sparse matrix of shape (m, L)
        The labels of the m rows that have one.
    known : ndarray of shape (n,), bool, or None
        True for these m rows. None if no label is missing.

    Raises
    ------
    InputError
        If `y` cannot be an array, if a row of an indicator matrix is partly missing, or if an entry is masked and `missing`
        is false.

    Examples
    --------
    >>> labelled_rows([3, None, 5], missing=True)
    (array([3, 5]), array([ True, False,  True]))
    >>> labelled_rows(np.array([3, -1, 5]), missing=True, missing_label=-1)
    (array([3, 5]), array([ True, False,  True]))
    >>> labelled_rows([3, 4, 5], missing=True)
    (array([3, 4, 5]), None)
    """
    if isinstance(y, list | tuple) and np.ma.MaskedArray in set(map(type, y)):
        y = _as_array(np.ma.array, y, name)  # np.asarray would read the values behind the masks
    if not missing:
        if _holds_masked(y):
            raise InputError(f"Input {name} contains masked entries where a label is required.")
        return _label_array(y, name), None
    mark = None if is_missing(missing_label) else missing_label
    present = _present_rows(y, mark)
    labels = _label_array(y if present is None else _taken(y, present), name)
    absent = _absent_rows(labels, mark, present, name)
    if absent is not None:
        if scipy.sparse.issparse(labels):
            labels = scipy.sparse.csr_array(labels)  # not every sparse format can select rows
        labels = labels[~absent]
        if present is None:
            present = ~absent
        else:
            present[present] = ~absent
    if present is not None and isinstance(getattr(y, "dtype", None), np.dtype):
        labels = narrowed(labels)
    return labels, present


def is_indicator(labels: Any) -> bool:
    """Return whether an array or sparse matrix is an indicator matrix; a dense array of one column holds class labels.

    Examples
    --------
    >>> is_indicator(np.eye(2)), is_indicator(np.array([[5], [7]]))
    (True, False)
    """
    return labels.ndim == 2 and (labels.shape[1] != 1 or scipy.sparse.issparse(labels))


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT, pandas.NA or numpy.ma.masked.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0), is_missing("")
    (True, True, False, False)
    """
    try:
        return label is None or label is np.ma.masked or bool(label != label)  # noqa: PLR0124  (NaN and NaT)
    except TypeError:  # pandas.NA refuses to be compared
        return True
    except (
        ArithmeticError,
        ValueError,
    ):  # a signalling Decimal or an array, which the caller refuses as labels
        return False


def _is_mark(label: Any, mark: Any) -> bool:
    """Return whether a label equals the mark of missing labels."""
    try:
        return bool(label == mark)
    except (ArithmeticError, TypeError, ValueError):
        return False


def _holds_masked(y: Any) -> bool:
    """Return whether a list, tuple or masked array has a masked entry."""
    if isinstance(y, list | tuple):
        return type(np.ma.masked) in set(map(type, y))
    return isinstance(y, np.ma.MaskedArray) and y.dtype.names is None and bool(np.ma.is_masked(y))


def _label_array(y: Any, name: str) -> Any:
    """Return `y` as an array of the labels as they were given; a sparse matrix is returned itself."""
    if scipy.sparse.issparse(y):
        return y
    is_list = isinstance(y, Sequence)
    if is_list and len({len(row) if isinstance(row, list | set | frozenset) else -1 for row in y}) > 1:
        rows = np.empty(len(y), dtype=object)  # lists of different lengths: NumPy would refuse them
        rows[:] = y
        return rows
    array = _as_array(np.asarray, y, name)
    if array.dtype.kind in "US" and is_list and not all(isinstance(label, str | bytes) for label in y):
        array = np.asarray(y, dtype=object)  # NumPy would have turned the 1 of [1, "a"] into "1"
    return array.astype(object) if array.dtype.kind == "T" else array


def _as_array(make: Any, y: Any, name: str) -> Array:
    """Return ``make(y)``, or refuse `y` with an error that says what to do."""
    try:
        return make(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} should be a 1d array of class labels or a 2d indicator matrix: {error}. "
            "For rows that list their labels, give a list of lists"
        ) from error


def _present_rows(y: Any, mark: Any) -> Flags | None:
    """Return which rows (n,) of a list, a masked array or a pandas object have a label; None if all or only an array can tell."""
    if isinstance(y, list | tuple):
        absent = _missing_objects(y, mark, len(y))
    elif isinstance(y, np.ma.MaskedArray) and _holds_masked(y) and y.ndim in (1, 2):
        return ~_all_missing(np.ma.getmaskarray(y))
    elif callable(getattr(y, "isna", None)):
        try:
            absent = _all_missing(np.asarray(y.isna()))
        except NotImplementedError:  # pandas.MultiIndex, whose labels are tuples
            return None
    else:
        return None
    return ~absent if absent.any() else None


def _taken(y: Any, present: Flags) -> Any:
    """Return the rows of a list, a masked array or a pandas object that are `present` (n,)."""
    if isinstance(y, list | tuple):
        return [label for label, is_present in zip(y, present, strict=True) if is_present]
    rest = y[present]
    if _holds_masked(rest):  # an indicator matrix with rows that are partly masked
        values = np.array(rest.data, dtype=object)
        values[np.ma.getmaskarray(rest)] = None
        return values
    return rest


def _all_missing(absent: Flags) -> Flags:
    """Return the rows (n,) of a mask (n,) or (n, L) that are true in all columns; none if L = 0."""
    return absent if absent.ndim == 1 else absent.all(axis=1) & (absent.shape[1] > 0)


def _absent_rows(labels: Any, mark: Any, present: Flags | None, name: str) -> Flags | None:
    """Return the missing rows (m,) of an array or sparse matrix as a mask, or None if there are none.

    A row of an indicator matrix that is partly missing is refused. `present` is a mask over the rows of y, to name the row.
    """
    if labels.ndim not in (1, 2) or (scipy.sparse.issparse(labels) and labels.ndim == 1):
        return None
    if mark is not None and is_indicator(labels) and (_is_mark(0, mark) or _is_mark(1, mark)):
        raise InputError(f"missing_label must not be 0 or 1 if {name} is an indicator matrix, got {mark!r}")
    counts = _missing_counts(labels, mark)  # (m,)
    if counts is None or not counts.any():
        return None
    width = 1 if labels.ndim == 1 else labels.shape[1]
    partly = (counts > 0) & (counts < width)
    if partly.any():
        row = int(np.argmax(partly))
        number = row if present is None else int(np.flatnonzero(present)[row])
        raise InputError(
            f"row {number} of {name} is partly missing ({counts[row]} of its {width} labels); "
            "the labels of a row must be all known or all missing"
        )
    return counts == width


def _missing_counts(labels: Any, mark: Any) -> NDArray[np.intp] | None:
    """Return the number of missing entries of each row (m,), or None if the dtype has no missing entries."""
    if not scipy.sparse.issparse(labels):
        absent = _missing_entries(labels, mark)
        return None if absent is None else np.atleast_2d(absent.T).sum(axis=0)
    matrix = scipy.sparse.csr_array(labels, copy=True)
    matrix.sum_duplicates()
    absent = _missing_entries(matrix.data, mark)
    if absent is None:
        return None
    return np.asarray(
        scipy.sparse.csr_array((absent, matrix.indices, matrix.indptr), matrix.shape).sum(axis=1)
    )


def _missing_entries(labels: Array, mark: Any) -> Flags | None:
    """Return a mask of the missing entries, in the shape of `labels`, or None if the dtype has no missing entries."""
    kind = labels.dtype.kind
    if kind == "O":
        return _missing_objects(labels.ravel(), mark, labels.size).reshape(labels.shape)
    absent = None
    if kind in "fc":
        absent = np.isnan(labels)
    elif kind in "mM":
        absent = np.isnat(labels)
    if mark is None or np.ndim(mark) != 0 or kind not in "biufUS":
        return absent
    marked = np.broadcast_to(labels == mark, labels.shape)
    return marked if absent is None else absent | marked


def _missing_objects(labels: Iterable[Any], mark: Any, count: int) -> Flags:
    """Return a mask (count,) of the missing ones among Python objects."""
    if mark is None:
        return np.fromiter(map(is_missing, labels), dtype=np.bool_, count=count)
    found = (is_missing(label) or _is_mark(label, mark) for label in labels)
    return np.fromiter(found, dtype=np.bool_, count=count)


def narrowed(labels: Any) -> Any:
    """Return class labels in the dtype that they would have without missing labels.

    A missing label may have made the dtype wider: None turns integers into objects, and a long string behind a mask makes all
    strings longer. Labels that would change in the narrower dtype, such as tuples or numbers among strings, keep theirs.
    """
    if labels.dtype.kind not in "OUS" or is_indicator(labels):
        return labels
    values = labels.tolist()
    try:
        narrowed = np.asarray(values)
    except (TypeError, ValueError):
        return labels
    is_plain = narrowed.shape == labels.shape and narrowed.dtype.kind in "biufUS"
    return narrowed if is_plain and narrowed.tolist() == values else labels
