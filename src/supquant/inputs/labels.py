"""The gate for labels: class labels of any hashable kind, or an indicator matrix, are read into one checked form."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its subpackages are loaded when first used

from supquant.errors import InputError
from supquant.inputs.unlabelled import is_indicator, is_missing, labelled_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from supquant.arrays import Array, Flags, Float64

__all__ = ["Labels", "UnknownLabels", "describe_unknown", "find_unknown", "read_labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of n rows, one or several for each row, in one of two forms; made by `read_labels`.

    Parameters
    ----------
    classes : ndarray of shape (L,)
        The distinct labels, sorted; ``arange(L)`` for an indicator matrix.
    multilabel : bool
        Whether a row may carry several labels, or none.
    indices : ndarray of shape (n,), int32, or None
        Single-label: the position of each row's label in `classes`, -1 where the label is unknown.
    indicator : csr_array of shape (n, L), bool, or None
        Multi-label: true where the row carries the label, without explicit zeros. A row whose labels are unknown is empty.
    unknown : ndarray of shape (n,), bool, or None, default=None
        Multi-label: true where the labels of the row are unknown, false where the row has no labels. None if all are known.

    Examples
    --------
    >>> labels = read_labels(["cat", "dog", "cat"])
    >>> labels.classes, labels.indices
    (array(['cat', 'dog'], dtype='<U3'), array([0, 1, 0], dtype=int32))
    >>> labels.dense(0, 2)
    array([[1., 0.],
           [0., 1.]])

    Unknown labels are NaN in the label matrix:

    >>> labels = read_labels(["cat", None, "dog"], missing=True)
    >>> labels.indices, labels.known
    (array([ 0, -1,  1], dtype=int32), array([ True, False,  True]))
    >>> labels.dense(0, 3)
    array([[ 1.,  0.],
           [nan, nan],
           [ 0.,  1.]])
    """

    classes: Array
    multilabel: bool
    indices: NDArray[np.int32] | None
    indicator: scipy.sparse.csr_array | None
    unknown: Flags | None = None

    def __len__(self) -> int:
        if self.indices is None:
            assert self.indicator is not None
            return int(self.indicator.shape[0])
        return len(self.indices)

    @property
    def n_labels(self) -> int:
        """L, the number of distinct labels."""
        return len(self.classes)

    @property
    def known(self) -> Flags:
        """Mask (n,), bool: true where the labels of the row are known, also if it is known to carry none."""
        if self.indices is not None:
            return self.indices >= 0
        return np.ones(len(self), dtype=np.bool_) if self.unknown is None else ~self.unknown

    @property
    def n_unlabelled(self) -> int:
        """Number of rows whose labels are unknown."""
        return len(self) - int(np.count_nonzero(self.known))

    def dense(self, start: int, stop: int) -> Float64:
        """Return rows ``start`` to ``stop`` of the 0/1 matrix Y; rows whose labels are unknown are NaN.

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
            Y = np.asarray(self.indicator[start:stop].toarray(), dtype=np.float64)
            if self.unknown is not None:
                Y[self.unknown[start:stop]] = np.nan
            return Y
        indices = self.indices[start:stop]
        Y = np.zeros((len(indices), self.n_labels))
        Y[np.arange(len(indices)), indices] = 1.0
        Y[indices < 0] = np.nan  # an index of -1 has set the last column of these rows
        return Y

    def sparse(self) -> scipy.sparse.csr_array:
        """Return the 0/1 matrix Y (n, L) float64 of all rows as a sparse matrix; rows whose labels are unknown are empty."""
        if self.indices is None:
            assert self.indicator is not None
            return self.indicator.astype(np.float64)
        known = self.indices >= 0
        starts = np.concatenate([[0], np.cumsum(known)])
        columns = self.indices[known]
        return scipy.sparse.csr_array(
            (np.ones(len(columns)), columns, starts), shape=(len(self), self.n_labels)
        )

    def shared_with(self, answers: Labels) -> Flags:
        """Return which of the k answers to each of these n rows share a label with it.

        Parameters
        ----------
        answers : Labels
            Labels of n times k rows over the same classes, the k answers to the first row first. An unknown label is shared
            with no row.

        Returns
        -------
        ndarray of shape (n, k), bool

        Examples
        --------
        >>> queries, answers = read_labels(["cat", "dog"]), read_labels(["cat", "dog", "cat", "dog"])
        >>> queries.shared_with(answers)
        array([[ True, False],
               [False,  True]])
        """
        k = len(answers) // max(len(self), 1)
        if self.indices is not None:
            assert answers.indices is not None
            own = self.indices[:, None]
            return np.asarray((answers.indices.reshape(len(self), k) == own) & (own >= 0))
        assert self.indicator is not None
        assert answers.indicator is not None
        repeated = self.indicator[np.repeat(np.arange(len(self)), k)]  # (n k, L)
        shared = np.asarray(repeated.multiply(answers.indicator).sum(axis=1)) > 0
        return shared.reshape(len(self), k)

    def take(self, rows: ArrayLike) -> Labels:
        """Return the labels of some rows, in the order given.

        Parameters
        ----------
        rows : array-like of int or bool
            Row numbers, or a mask over all rows.

        Returns
        -------
        Labels
            Its `classes` are the same, even if no row carries some of them.
        """
        rows = np.asarray(rows)
        if self.indices is None:
            assert self.indicator is not None
            unknown = None if self.unknown is None else self.unknown[rows]
            return Labels(self.classes, True, None, self.indicator[rows], unknown)
        return Labels(self.classes, False, self.indices[rows], None)


def read_labels(
    y: Any,
    *,
    n_rows: int | None = None,
    classes: Array | None = None,
    multilabel: bool | None = None,
    name: str = "y",
    missing: bool = False,
    missing_label: object = None,
    fewest: int = 2,
) -> Labels:
    """Check labels and read them into the form that the library works with.

    If `missing` is true, labels may be unknown. An unknown label is None, NaN, NaT, pandas.NA, a masked entry or
    `missing_label`. In an indicator matrix it fills the whole row. The other rows are read as if the unknown ones were not there.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Class labels of any hashable kind, a 0/1 indicator matrix with a column for each label, or a list of labels for each row.
        Class labels can be tuples if `y` is a one-dimensional object array.
    n_rows : int or None, default=None
        The expected number of rows, if it is known.
    classes : ndarray of shape (L,) or None, default=None
        All labels. None takes the labels found in `y`. If `classes` is given, all rows may be unknown.
    multilabel : bool or None, default=None
        True expects an indicator matrix, false class labels, None either.
    name : str, default="y"
        Name of the labels in errors.
    missing : bool, default=False
        Whether labels may be unknown. If false, a missing label is refused.
    missing_label : object, default=None
        One more label that means unknown if `missing` is true, such as -1 or "". Labels are compared by equality. None and NaN
        add nothing. With an indicator matrix it must not be 0 or 1.
    fewest : int, default=2
        The smallest number of classes accepted if `classes` is None.

    Returns
    -------
    Labels
        Its `known` is false where the label is unknown.

    Raises
    ------
    InputError
        If `y` cannot be used, for example if a row of an indicator matrix is partly missing.

    Examples
    --------
    >>> read_labels([[0, 1, 1], [1, 0, 0]]).multilabel
    True
    >>> read_labels(["cat", "bat"], classes=np.array(["cat", "dog"]))
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: y holds 1 unknown label: 'bat'; the 2 known ones are 'cat', 'dog'
    >>> labels = read_labels([7, 8, None, -1], missing=True, missing_label=-1)
    >>> labels.classes, labels.indices
    (array([7, 8]), array([ 0,  1, -1, -1], dtype=int32))
    >>> labels = read_labels([[1, 0], [np.nan, np.nan], [0, 1], [0, 0]], missing=True)
    >>> labels.known, labels.n_unlabelled
    (array([ True, False,  True,  True]), 1)
    """
    if y is None:
        raise InputError(f"supquant requires {name} to be passed, but the target {name} is None")
    given, known = labelled_rows(y, missing=missing, missing_label=missing_label, name=name)
    if given.ndim not in (1, 2):
        raise InputError(f"{name} should be a 1d array, got an array of shape {given.shape} instead")
    listed = _are_label_lists(given)
    is_matrix = listed or is_indicator(given)
    n_known = given.shape[0]
    n = n_known if known is None else len(known)
    if n_rows is not None and n != n_rows:
        raise InputError(f"{name} must have a label for each of the {n_rows} rows of X, got {n}")
    if classes is None and n == 0:
        raise InputError(f"{name} has 0 sample(s), at least 1 is required")
    if classes is None and n_known == 0:
        raise InputError(f"{name} has no labelled row: all {n} labels are missing")
    if multilabel is not None and multilabel != is_matrix:
        forms = ("a 1d array of class labels", "an indicator matrix")
        raise InputError(f"{name} must be {forms[multilabel]} as in fit, got {forms[is_matrix]}")
    if listed:
        labels = _read_lists(given, classes, name)
    elif is_matrix:
        labels = _read_indicator(given, classes, name, n - n_known)
    else:
        if given.ndim == 2:
            from sklearn.exceptions import DataConversionWarning  # noqa: PLC0415  # the import takes seconds

            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. "
                f"Please change the shape of {name} to (n_samples, ), for example using ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
        labels = _read_class_labels(given.ravel(), classes, name, n - n_known, fewest)
    return labels if known is None else _with_unknown_rows(labels, known)


@dataclass(frozen=True, eq=False)
class UnknownLabels:
    """Labels that are not among the known ones; made by `find_unknown`.

    Parameters
    ----------
    distinct : list
        The unknown labels, each once.
    rows : ndarray of shape (n,), bool
        True for the rows with such a label.
    labels : ndarray of shape (n,), object
        The labels of all rows, or lists of them; None where a label is missing.
    """

    distinct: list[Any]
    rows: Flags
    labels: Array


def find_unknown(
    y: Any, classes: Array, *, multilabel: bool, missing_label: object = None, name: str = "y"
) -> UnknownLabels | None:
    """Find the labels in `y` that are not among the known ones.

    Parameters
    ----------
    y, missing_label, name
        As in `read_labels`. An indicator matrix has no unknown labels, and neither has a list of labels for each row where one
        label is expected, or the reverse: `read_labels` refuses it.
    classes : ndarray of shape (L,)
        The known labels.
    multilabel : bool
        Whether a row may carry several labels.

    Returns
    -------
    UnknownLabels or None
        None if all labels are known.

    Examples
    --------
    >>> found = find_unknown(["cat", "cow", None], np.array(["cat", "dog"]), multilabel=False)
    >>> found.distinct, found.rows
    (['cow'], array([False,  True, False]))
    """
    given, present = labelled_rows(y, missing=True, missing_label=missing_label, name=name)
    listed = _are_label_lists(given)
    if (
        listed != multilabel
        or scipy.sparse.issparse(given)
        or given.ndim not in (1, 2)
        or is_indicator(given)
    ):
        return None
    rows, known = given.ravel(), set(classes.tolist())
    if listed:
        try:
            distinct = [label for label in dict.fromkeys(chain.from_iterable(rows)) if label not in known]
        except TypeError:  # labels that cannot be compared, which `read_labels` refuses
            return None
        unknown = np.array([not known.issuperset(row) for row in rows])
    else:
        labels, positions = _distinct(rows, name)
        is_unknown = np.array([label not in known for label in labels.tolist()], dtype=np.bool_)
        distinct, unknown = labels[is_unknown].tolist(), is_unknown[positions]
    if not distinct:
        return None
    if present is None:
        return UnknownLabels(distinct, unknown, rows.astype(object))
    all_labels = np.full(len(present), None, dtype=object)
    all_labels[present] = rows
    with_unknown = present.copy()
    with_unknown[present] = unknown
    return UnknownLabels(distinct, with_unknown, all_labels)


def describe_unknown(unknown: list[Any], classes: Array, name: str = "y") -> str:
    """Return how an error names unknown labels and the known ones (L,).

    Examples
    --------
    >>> describe_unknown(["cow"], np.array(["cat", "dog"]))
    "y holds 1 unknown label: 'cow'; the 2 known ones are 'cat', 'dog'"
    """
    return (
        f"{name} holds {len(unknown)} unknown label{'s' * (len(unknown) > 1)}: {_shown(unknown)}; "
        f"the {len(classes)} known ones are {_shown(classes.tolist())}"
    )


def _read_class_labels(
    values: Array, classes: Array | None, name: str, n_unlabelled: int, fewest: int
) -> Labels:
    """Return the labels of rows that all carry one class label (n,)."""
    distinct, positions = _distinct(values, name)
    if classes is None:
        if len(distinct) < fewest:
            raise InputError(
                f"{name} holds a single class (1 class: {_shown(distinct.tolist())}); at least 2 are required"
                + _unlabelled_shown(n_unlabelled)
            )
        return Labels(distinct, False, positions.astype(np.int32), None)
    known = {label: index for index, label in enumerate(classes.tolist())}
    unknown = [label for label in distinct.tolist() if label not in known]
    if unknown:
        raise InputError(describe_unknown(unknown, classes, name))
    lookup = np.array([known[label] for label in distinct.tolist()], dtype=np.int32)  # (distinct,)
    return Labels(classes, False, lookup[positions], None)


def _distinct(values: Array, name: str) -> tuple[Array, Array]:
    """Return the sorted distinct class labels and the position of each row's label among them."""
    kind = values.dtype.kind
    if kind == "O":
        return _distinct_objects(values, name)
    if kind == "c":
        raise InputError(f"Complex data not supported as labels in {name}")
    if kind not in "biufUS" and len(values) > 0:
        raise InputError(f"Unknown label type: {values.dtype} in {name}; make the labels strings or integers")
    if kind == "f":
        if np.isnan(values).any():
            raise InputError(f"Input {name} contains NaN.")
        if np.isinf(values).any():
            raise InputError(f"Input {name} contains infinity, which is not a class label.")
        if (values != np.floor(values)).any():
            raise InputError(f"Unknown label type: continuous. {name} must hold classes, got fractions")
    distinct, positions = np.unique(values, return_inverse=True)
    return distinct, positions


def _distinct_objects(values: Array, name: str) -> tuple[Array, Array]:
    """Do the same as `_distinct` for an array of Python objects."""
    try:
        found = dict.fromkeys(values)
    except TypeError as error:
        raise InputError(f"Unknown label type in {name}: class labels must be hashable ({error})") from error
    if any(is_missing(label) for label in found):
        raise InputError(f"Input {name} contains NaN or None where a label is required.")
    if any(isinstance(label, float | np.floating) and not label.is_integer() for label in found):
        raise InputError(f"Unknown label type: continuous. {name} must hold classes, got fractions")
    try:
        ordered = sorted(found)
    except TypeError:  # labels of different types cannot be compared
        ordered = sorted(found, key=lambda label: (type(label).__name__, repr(label)))
    distinct = np.empty(len(ordered), dtype=object)
    distinct[:] = ordered
    index = {label: position for position, label in enumerate(ordered)}
    return distinct, np.fromiter((index[label] for label in values), dtype=np.int32, count=len(values))


def _read_indicator(given: Any, classes: Array | None, name: str, n_unlabelled: int) -> Labels:
    """Return the labels of an indicator matrix (n, L) without missing rows."""
    expected = None if classes is None else len(classes)
    if expected is not None and given.shape[1] != expected:
        raise InputError(f"{name} must have {expected} columns, one per label, got {given.shape[1]}")
    if given.dtype.kind not in "biuf":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            if given.dtype.kind == "O" and any(map(is_missing, given.ravel())):
                raise InputError(f"Input {name} contains NaN or None where a label is required.") from error
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
            + _unlabelled_shown(n_unlabelled)
        )
    return Labels(np.arange(matrix.shape[1]), True, None, matrix.astype(bool))


def _are_label_lists(values: Any) -> bool:
    """Return whether an array holds a list, set or array of labels for each row. A tuple is one label."""
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 1
        and values.dtype.kind == "O"
        and len(values) > 0
        and all(
            row.ndim == 1 and row.dtype.kind in "iuUO"
            if isinstance(row, np.ndarray)
            else isinstance(row, list | set | frozenset)
            for row in values
        )
    )


def _read_lists(rows: Array, classes: Array | None, name: str) -> Labels:
    """Return the labels of rows (n,) that list their labels."""
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
    return Labels(classes, True, None, matrix)


def _with_unknown_rows(labels: Labels, known: Flags) -> Labels:
    """Return the labels of all rows, given those of the rows in the mask `known` (n,)."""
    if labels.indices is not None:
        indices = np.full(len(known), -1, dtype=np.int32)
        indices[known] = labels.indices
        return replace(labels, indices=indices)
    assert labels.indicator is not None
    counts = np.zeros(len(known), dtype=np.intp)  # number of labels of each row
    counts[known] = np.diff(labels.indicator.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indicator = scipy.sparse.csr_array(
        (labels.indicator.data, labels.indicator.indices, indptr), shape=(len(known), labels.n_labels)
    )
    return replace(labels, indicator=indicator, unknown=~known)


def _unlabelled_shown(count: int) -> str:
    return f"; {count} row{'s are' if count > 1 else ' is'} unlabelled" if count else ""


def _shown(labels: list[Any], limit: int = 5) -> str:
    return ", ".join(map(repr, labels[:limit])) + (", ..." if len(labels) > limit else "")
