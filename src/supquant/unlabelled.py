"""Before the gate for labels: which rows of y have a label, and an array of the labels of these rows alone.

What stands for a missing label must not leave a trace. None makes a list of integers an array of objects, NaN makes it an
array of floats, and a masked entry keeps a value behind its mask. So missing labels are left out before the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from supquant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["is_indicator", "is_missing", "labelled_rows"]


def labelled_rows(
    y: Any, *, missing: bool = False, missing_label: object = None, name: str = "y"
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Read `y` into an array, without the rows whose label is missing.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Class labels or an indicator matrix.
    missing : bool, default=False
        Whether labels may be missing. If not, masked entries are refused, and everything else is left to the caller.
    missing_label : object, default=None
        A label that means "missing", beside None, NaN, NaT, pandas.NA and masked entries.
    name : str, default="y"
        What the errors call it.

    Returns
    -------
    labels : ndarray of shape (m,) or (m, L), or sparse matrix of shape (m, L)
        The labels of the m rows that have one.
    known : ndarray of shape (n,), bool, or None
        True for these m rows. None if no label is missing.

    Raises
    ------
    InputError
        If `y` is no array, if a row of an indicator matrix is partly missing, or if an entry is masked and `missing` is
        false.

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
        y = _as_array(np.ma.array, y, name)  # np.asarray would read what stands behind the masks of the rows
    if not missing:
        if _holds_masked(y):
            raise InputError(f"Input {name} contains masked entries where a label is required.")
        return _label_array(y, name), None
    mark = None if is_missing(missing_label) else missing_label
    rest, present = _without_missing_entries(y, mark)
    labels = _label_array(rest, name)
    missing_rows = _missing_rows(labels, mark, present, name)
    if missing_rows is not None:
        if scipy.sparse.issparse(labels):
            labels = scipy.sparse.csr_array(labels)  # not every sparse format can select rows
        labels = labels[~missing_rows]
        present = _combined(present, ~missing_rows)
    if present is not None and isinstance(getattr(y, "dtype", None), np.dtype):
        labels = _narrowed(labels)
    return labels, present


def is_indicator(labels: Any) -> bool:
    """Whether an array or sparse matrix has a column per label; a dense array of one column holds class labels.

    Examples
    --------
    >>> is_indicator(np.eye(2)), is_indicator(np.array([[5], [7]]))
    (True, False)
    """
    return labels.ndim == 2 and (labels.shape[1] != 1 or scipy.sparse.issparse(labels))


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT, pandas.NA or numpy.ma.masked.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0), is_missing("")
    (True, True, False, False)
    """
    try:
        return label is None or label is np.ma.masked or bool(label != label)  # noqa: PLR0124  (NaN and NaT)
    except TypeError:  # pandas.NA refuses to be compared
        return True
    except (ArithmeticError, ValueError):  # a signalling Decimal, an array: no labels, refused by the caller
        return False


def _is_mark(label: Any, mark: Any) -> bool:
    try:
        return bool(label == mark)
    except (ArithmeticError, TypeError, ValueError):
        return False


def _holds_masked(y: Any) -> bool:
    if isinstance(y, list | tuple):
        return type(np.ma.masked) in set(map(type, y))
    return isinstance(y, np.ma.MaskedArray) and y.dtype.names is None and bool(np.ma.is_masked(y))


def _label_array(y: Any, name: str) -> Any:
    """`y` as an array that still holds the labels that were given; a sparse matrix stays as it is."""
    if scipy.sparse.issparse(y):
        return y
    array = _as_array(np.asarray, y, name)
    is_list = isinstance(y, Sequence)
    if array.dtype.kind in "US" and is_list and not all(isinstance(label, str | bytes) for label in y):
        array = np.asarray(y, dtype=object)  # NumPy would have turned the 1 of [1, "a"] into "1"
    return array.astype(object) if array.dtype.kind == "T" else array


def _as_array(make: Any, y: Any, name: str) -> NDArray[Any]:
    try:
        return make(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} should be a 1d array of class labels or a 2d indicator matrix: {error}. "
            "For rows that list their labels, make the matrix with sklearn.preprocessing.MultiLabelBinarizer"
        ) from error


def _without_missing_entries(y: Any, mark: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Leave missing rows out of a list, a masked array or a pandas object, before it becomes an array.

    Returns what is left of `y` and a mask (n,) of the rows that are left, or `y` and None if nothing was left out.
    """
    present = _present_rows(y, mark)
    if present is None or (present.all() and not _holds_masked(y)):
        return y, None
    if isinstance(y, list | tuple):
        return [label for label, is_present in zip(y, present, strict=True) if is_present], present
    rest = y[present]
    if _holds_masked(rest):  # an indicator with rows that are partly masked
        values = np.array(rest.data, dtype=object)
        values[np.ma.getmaskarray(rest)] = None
        return values, present
    return rest, present


def _present_rows(y: Any, mark: Any) -> NDArray[np.bool_] | None:
    if isinstance(y, list | tuple):
        return ~_missing_objects(y, mark, len(y))
    if isinstance(y, np.ma.MaskedArray):
        return ~_whole_rows(np.ma.getmaskarray(y)) if _holds_masked(y) and y.ndim in (1, 2) else None
    if callable(getattr(y, "isna", None)):
        try:
            return ~_whole_rows(np.asarray(y.isna()))
        except NotImplementedError:  # pandas.MultiIndex, whose labels are tuples
            return None
    return None


def _whole_rows(absent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask (n,) of the rows of `absent`, (n,) or (n, L), that are true throughout; with L = 0 there are none."""
    return _counts(absent) == max(_width(absent), 1)


def _missing_rows(
    labels: Any, mark: Any, present: NDArray[np.bool_] | None, name: str
) -> NDArray[np.bool_] | None:
    """Mask of the rows of an array or sparse matrix that are missing, or None if there are none.

    A row of an indicator matrix that is partly missing is refused; `present` tells its number in y.
    """
    if labels.ndim not in (1, 2) or (scipy.sparse.issparse(labels) and labels.ndim == 1):
        return None
    if mark is not None and is_indicator(labels) and (_is_mark(0, mark) or _is_mark(1, mark)):
        raise InputError(f"missing_label must not be 0 or 1 if {name} is an indicator matrix, got {mark!r}")
    counts = _missing_counts(labels, mark)  # (m,)
    if counts is None or not counts.any():
        return None
    width = _width(labels)
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
    """How many entries of each row are missing, (m,), or None where the dtype rules it out."""
    if not scipy.sparse.issparse(labels):
        absent = _missing_entries(labels, mark)
        return None if absent is None else _counts(absent)
    if labels.dtype.kind in "biu" and mark is None:
        return None
    matrix = scipy.sparse.csr_array(labels, copy=True)
    matrix.sum_duplicates()
    absent = _missing_entries(matrix.data, mark)
    if absent is None:
        return None
    row_of_entry = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))  # (nnz,)
    return np.bincount(row_of_entry[absent], minlength=matrix.shape[0])


def _missing_entries(labels: NDArray[Any], mark: Any) -> NDArray[np.bool_] | None:
    """Mask of the missing entries, in the shape of `labels`, or None where the dtype rules them out."""
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


def _missing_objects(labels: Iterable[Any], mark: Any, count: int) -> NDArray[np.bool_]:
    if mark is None:
        return np.fromiter(map(is_missing, labels), dtype=np.bool_, count=count)
    found = (is_missing(label) or _is_mark(label, mark) for label in labels)
    return np.fromiter(found, dtype=np.bool_, count=count)


def _counts(absent: NDArray[np.bool_]) -> NDArray[np.intp]:
    return absent.astype(np.intp) if absent.ndim == 1 else absent.sum(axis=1)


def _width(labels: Any) -> int:
    return 1 if labels.ndim == 1 else int(labels.shape[1])


def _combined(first: NDArray[np.bool_] | None, second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask over all rows, from one over all rows and one over those that it left."""
    if first is None:
        return second
    both = first.copy()
    both[first] = second
    return both


def _narrowed(labels: Any) -> Any:
    """Class labels in the dtype that their values have by themselves.

    A missing label may have made it wider: None turns integers into objects, and a long text behind a mask makes room for
    long texts. Labels that would change in it, such as tuples or numbers among texts, keep their dtype.
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
