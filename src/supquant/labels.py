"""The gate for labels: class labels of any hashable kind, or an indicator matrix, in one checked form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import DataConversionWarning

from supquant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Labels", "read_labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of n rows, one or several a row, in one of two forms; made by `read_labels`.

    Parameters
    ----------
    classes : ndarray of shape (L,)
        The distinct class labels, sorted; ``arange(L)`` for an indicator matrix.
    multilabel : bool
        Whether a row may carry several labels, or none.
    indices : ndarray of shape (n,), int32, or None
        Single-label: the position of each row's label in `classes`.
    indicator : csr_array of shape (n, L), bool, or None
        Multi-label: true where the row carries the label; holds no explicit zeros.

    Examples
    --------
    >>> labels = read_labels(["cat", "dog", "cat"])
    >>> labels.classes, labels.indices
    (array(['cat', 'dog'], dtype='<U3'), array([0, 1, 0], dtype=int32))
    >>> labels.dense(0, 2)
    array([[1., 0.],
           [0., 1.]])
    """

    classes: NDArray[Any]
    multilabel: bool
    indices: NDArray[np.int32] | None
    indicator: scipy.sparse.csr_array | None

    def __len__(self) -> int:
        if self.indices is None:
            assert self.indicator is not None
            return int(self.indicator.shape[0])
        return len(self.indices)

    @property
    def n_labels(self) -> int:
        """L, the number of distinct labels."""
        return len(self.classes)

    def dense(self, start: int, stop: int) -> NDArray[np.float64]:
        """Write out rows ``start`` to ``stop`` of the 0/1 matrix Y.

        Parameters
        ----------
        start, stop : int
            Row numbers, as in a slice.

        Returns
        -------
        ndarray of shape (stop - start, L), float64
        """
        if self.indices is None:
            assert self.indicator is not None
            return np.asarray(self.indicator[start:stop].toarray(), dtype=np.float64)
        indices = self.indices[start:stop]
        Y = np.zeros((len(indices), self.n_labels))
        Y[np.arange(len(indices)), indices] = 1.0
        return Y

    def take(self, rows: ArrayLike) -> Labels:
        """Select rows, in the order given.

        Parameters
        ----------
        rows : array-like of int or bool
            Row numbers, or a mask over all rows.

        Returns
        -------
        Labels
            With the same `classes`, even if some of them are carried by none of the rows.
        """
        rows = np.asarray(rows)
        if self.indices is None:
            assert self.indicator is not None
            return Labels(self.classes, True, None, self.indicator[rows])
        return Labels(self.classes, False, self.indices[rows], None)


def read_labels(
    y: Any,
    *,
    n_rows: int | None = None,
    classes: NDArray[Any] | None = None,
    multilabel: bool | None = None,
    name: str = "y",
) -> Labels:
    """Check labels and bring them into the form the library works with.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Class labels of any hashable kind, or a 0/1 indicator matrix with a column per label. Tuples serve as
        class labels in a one-dimensional object array.
    n_rows : int or None
        The number of rows that must be labelled, if it is known.
    classes : ndarray of shape (L,) or None
        The labels there are. None takes those found in `y`, of which there must be two at least.
    multilabel : bool or None
        Which of the two forms is expected. None takes both.
    name : str
        What the errors call it.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If `y` cannot be used.

    Examples
    --------
    >>> read_labels([[0, 1, 1], [1, 0, 0]]).multilabel
    True
    >>> read_labels(["cat", "bat"], classes=np.array(["cat", "dog"]))
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: y holds 1 unknown label: 'bat'; the 2 known ones are 'cat', 'dog'
    """
    if y is None:
        raise InputError(f"supquant requires {name} to be passed, but the target {name} is None")
    given = y if scipy.sparse.issparse(y) else _label_array(y, name)
    is_matrix = given.ndim == 2 and (given.shape[1] != 1 or scipy.sparse.issparse(given))
    if given.ndim not in (1, 2):
        raise InputError(f"{name} should be a 1d array, got an array of shape {given.shape} instead")
    if n_rows is not None and given.shape[0] != n_rows:
        raise InputError(f"{name} must have a label for each of the {n_rows} rows of X, got {given.shape[0]}")
    if classes is None and given.shape[0] == 0:
        raise InputError(f"{name} has 0 sample(s), at least 1 is required")
    if multilabel is not None and multilabel != is_matrix:
        forms = ("a 1d array of class labels", "an indicator matrix")
        raise InputError(f"{name} must be {forms[multilabel]} as in fit, got {forms[is_matrix]}")
    if is_matrix:
        return _read_indicator(given, classes, name)
    if given.ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. "
            f"Please change the shape of {name} to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        given = given.ravel()
    return _read_class_labels(given, classes, name)


def _label_array(y: Any, name: str) -> NDArray[Any]:
    """`y` as an array that still holds the labels that were given."""
    try:
        array = np.asarray(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} should be a 1d array of class labels or a 2d indicator matrix: {error}. "
            "For rows that list their labels, make the matrix with sklearn.preprocessing.MultiLabelBinarizer"
        ) from error
    is_list = isinstance(y, Sequence)
    if array.dtype.kind in "US" and is_list and not all(isinstance(label, str | bytes) for label in y):
        array = np.asarray(y, dtype=object)  # NumPy would have turned the 1 of [1, "a"] into "1"
    return array.astype(object) if array.dtype.kind == "T" else array


def _read_class_labels(values: NDArray[Any], classes: NDArray[Any] | None, name: str) -> Labels:
    distinct, positions = _distinct(values, name)
    if classes is None:
        if len(distinct) < 2:
            raise InputError(
                f"{name} holds a single class (1 class: {_shown(distinct.tolist())}); at least 2 are required"
            )
        return Labels(distinct, False, positions.astype(np.int32), None)
    known = {label: index for index, label in enumerate(classes.tolist())}
    unknown = [label for label in distinct.tolist() if label not in known]
    if unknown:
        raise InputError(
            f"{name} holds {len(unknown)} unknown label{'s' * (len(unknown) > 1)}: {_shown(unknown)}; "
            f"the {len(classes)} known ones are {_shown(classes.tolist())}"
        )
    lookup = np.array([known[label] for label in distinct.tolist()], dtype=np.int32)  # (distinct,)
    return Labels(classes, False, lookup[positions], None)


def _distinct(values: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sorted distinct values and each row's position among them, after refusing what is no class label."""
    kind = values.dtype.kind
    if kind == "O":
        return _distinct_objects(values, name)
    if kind == "c":
        raise InputError(f"Complex data not supported as labels in {name}")
    if kind not in "biufUS":
        raise InputError(f"Unknown label type: {values.dtype} in {name}; make the labels strings or integers")
    if kind == "f":
        if np.isnan(values).any():
            raise InputError(f"Input {name} contains NaN.")
        if np.isinf(values).any():
            raise InputError(f"Input {name} contains infinity, which is no class label.")
        if (values != np.floor(values)).any():
            raise InputError(f"Unknown label type: continuous. {name} must hold classes, got fractions")
    distinct, positions = np.unique(values, return_inverse=True)
    return distinct, positions


def _distinct_objects(values: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        found = dict.fromkeys(values)
    except TypeError as error:
        raise InputError(f"Unknown label type in {name}: class labels must be hashable ({error})") from error
    if any(_is_missing(label) for label in found):
        raise InputError(f"Input {name} contains NaN or None where a label is required.")
    if any(isinstance(label, float | np.floating) and not label.is_integer() for label in found):
        raise InputError(f"Unknown label type: continuous. {name} must hold classes, got fractions")
    try:
        ordered = sorted(found)
    except TypeError:  # labels of several kinds have no order of their own
        ordered = sorted(found, key=lambda label: (type(label).__name__, repr(label)))
    distinct = np.empty(len(ordered), dtype=object)
    distinct[:] = ordered
    index = {label: position for position, label in enumerate(ordered)}
    return distinct, np.fromiter((index[label] for label in values), dtype=np.int32, count=len(values))


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # noqa: PLR0124  (NaN and NaT differ from themselves)
    except TypeError:  # pandas.NA refuses to be compared
        return True


def _read_indicator(given: Any, classes: NDArray[Any] | None, name: str) -> Labels:
    expected = None if classes is None else len(classes)
    if expected is not None and given.shape[1] != expected:
        raise InputError(f"{name} must have {expected} columns, one per label, got {given.shape[1]}")
    if given.dtype.kind not in "biuf":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} of shape {given.shape} must be a 0/1 indicator matrix") from error
    matrix = scipy.sparse.csr_array(given, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if np.isnan(matrix.data).any():
        raise InputError(f"Input {name} contains NaN.")
    if (matrix.data != 1).any():
        other = matrix.data[matrix.data != 1][0]
        raise InputError(
            f"{name} with {matrix.shape[1]} columns must be an indicator matrix of 0 and 1, "
            f"got {other.item()!r}; class labels go into a 1d array"
        )
    used = len(np.unique(matrix.indices))
    if classes is None and used < 2:
        raise InputError(
            f"{name} uses {used} of its {matrix.shape[1]} labels; at least 2 are required, not a single class"
        )
    return Labels(np.arange(matrix.shape[1]), True, None, matrix.astype(bool))


def _shown(labels: list[Any], limit: int = 5) -> str:
    return ", ".join(map(repr, labels[:limit])) + (", ..." if len(labels) > limit else "")
