"""The gate for vectors: they are checked here, and unusable ones are refused with one clear error.

Parameters are checked in `supquant.inputs.parameters`, labels in `supquant.inputs.labels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from supquant.errors import InputError, InputTypeError
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.parallel import row_blocks
from supquant.rows import RowBlock, Rows, rows_of
from supquant.system import memory_bytes

if TYPE_CHECKING:
    from supquant.arrays import Array, Float32, Float64

__all__ = [
    "as_float32",
    "check_columns",
    "check_training_rows",
    "check_training_vectors",
    "check_vectors",
    "distant_centre",
    "is_plain",
    "refuse_masked",
]

_ROWS_PER_CHECK = 4096
"""Number of rows that are checked at a time."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)
"""The largest finite float32."""

MAX_VALUE = 1e15
"""Maximum absolute value in training vectors. Sums of squares of larger values could overflow float32."""

MIN_VALUE = 1e-15
"""Minimum of the largest absolute value in training vectors, unless all are zero. Squares of smaller values underflow float32."""

CENTRE_ROWS = 1024
"""The centre of training vectors is that of at most this number of them."""

SQUARE_MATRICES = 4
"""A fit holds this number of float64 matrices of columns by columns at a time. Measured with 2,500 and 5,000 columns."""

MAX_DISTANCE = 100
"""Training vectors that are this many times as far from zero as from their mean are centred. Queries lose labels from 600 on."""


def check_vectors(
    X: Any,
    *,
    name: str = "X",
    n_features: int | None = None,
    min_rows: int = 1,
    estimator: str = "supquant",
    finite: bool = True,
) -> Array:
    """Check that vectors are a two-dimensional array of finite numbers that float32 can hold.

    The dtype is kept. If NumPy can view `X`, nothing is copied: a memory map stays mapped, and no temporary array has the size
    of `X`.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Real numbers of any dtype: an array, a memory map, a torch tensor, a DataFrame, a list of rows.
        What lies on a GPU is copied.
    name : str, default="X"
        Name of the vectors in errors.
    n_features : int or None, default=None
        The expected number of columns, if it is known.
    min_rows : int, default=1
        The smallest number of rows accepted.
    estimator : str, default="supquant"
        Name, in errors, of the estimator that expects `n_features`.
    finite : bool, default=True
        Whether float32 values are checked. With False the caller checks them. Values of other dtypes are checked in any case.

    Returns
    -------
    ndarray of shape (n, d)
        A view of `X` if possible; float64 if `X` holds Python objects.

    Raises
    ------
    InputError
        If `X` cannot be used. It is an `InputTypeError` if the type of `X` holds no dense numbers.

    Examples
    --------
    >>> check_vectors([[0, 1], [2, 3]]).shape
    (2, 2)
    >>> check_vectors([[0.0, float("nan")]])
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: Input X contains NaN (first in row 0).
    """
    X = copy_to_host(X)
    if _is_plain_array(X, min_rows):
        array: Array = X
    elif isinstance(X, Rows):  # their values are checked where they are read
        _check_width(X, n_features, name, estimator)
        return cast("Array", X)
    else:
        array = _as_array(X, min_rows, name)
    _check_width(array, n_features, name, estimator)
    if array.dtype.kind == "f" and (finite or array.dtype != np.float32):
        _check_finite(array, name)
    return array


def _check_width(array: Array | Rows, n_features: int | None, name: str, estimator: str) -> None:
    if n_features is not None and array.shape[1] != n_features:
        raise InputError(
            f"{name} has {array.shape[1]} features, "
            f"but {estimator} is expecting {n_features} features as input"
        )


def refuse_masked(values: Any, name: str) -> Any:
    """Return values as they are; raise an `InputError` if they are a masked array, whose mask would be ignored.

    Examples
    --------
    >>> refuse_masked(np.ma.array([1, 2], mask=[False, True]), "ids")
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: ids must not be a masked array: fill it or leave masked entries out, then give a plain array
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            f"{name} must not be a masked array: fill it or leave masked entries out, then give a plain array"
        )
    return values


def check_training_vectors(X: Any) -> Array:
    """Check vectors to learn from, as `check_training_rows` does, and return them as `check_vectors` does."""
    array = check_vectors(X)
    check_training_rows(array)
    return array


def check_training_rows(X: Any) -> Rows:
    """Check vectors to learn from: as `check_vectors` does, and that float32 can hold sums of the squares of their values.

    Returns
    -------
    Rows of shape (n, d)
        Those of an array, or `X` itself.

    Raises
    ------
    InputError
        If a value is larger than `MAX_VALUE`, or all are smaller than `MIN_VALUE` and not zero.

    Examples
    --------
    >>> check_training_rows([[1.0, 1e30]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: X has a value of size 1e+30 in row 0; ...
    """
    rows = rows_of(check_vectors(X))
    if rows.checked:
        return rows
    blocks, largest = row_blocks(len(rows), _ROWS_PER_CHECK), 0.0
    for (start, _), (size, row) in zip(blocks, rows.map_blocks(_largest_of, blocks, None), strict=True):
        if size > MAX_VALUE:
            raise InputError(
                f"X has a value of size {size:.3g} in row {start + row}; squares of values above {MAX_VALUE:g} are too large "
                "for float32: divide X by a constant, or leave the row out"
            )
        largest = max(largest, size)
    if 0 < largest < MIN_VALUE:
        raise InputError(
            f"X has no value above {largest:.3g}, and squares of values below {MIN_VALUE:g} are too small for float32: "
            "multiply X by a constant"
        )
    rows.checked = True
    return rows


def check_columns(n_columns: int) -> None:
    """Raise an `InputError` if the machine has too little memory for the matrices of columns by columns that a fit holds."""
    needed = SQUARE_MATRICES * 8 * n_columns**2
    there = memory_bytes()
    if needed > there:
        raise InputError(
            f"X has {n_columns:,} columns, and a fit holds matrices of columns by columns: {needed / 1e9:,.0f} GB, of which this "
            f"machine has {there / 1e9:,.0f}; make fewer columns first, for example with sklearn.decomposition.TruncatedSVD"
        )


def distant_centre(rows: Rows) -> Float64 | None:
    """Return the mean of rows (n, p) if it is far from zero, and None if float32 can tell the rows apart as they are.

    Returns
    -------
    ndarray of shape (p,), float64, or None
        The mean of at most `CENTRE_ROWS` rows. It is far if it is more than `MAX_DISTANCE` times as long as the root mean square
        distance of rows from it.

    Examples
    --------
    >>> x = np.array([[1.0], [2.0], [3.0]])
    >>> distant_centre(rows_of(x + 1e6)), distant_centre(rows_of(x))
    (array([1000002.]), None)
    """
    sample = np.asarray(rows[:: -(-len(rows) // CENTRE_ROWS)], dtype=np.float64)
    centre = sample.mean(axis=0)
    spread = np.sqrt(np.square(sample - centre).sum(axis=1).mean())
    return centre if np.linalg.norm(centre) > MAX_DISTANCE * spread else None


def _largest_of(block: RowBlock, own: None, shared: None) -> tuple[float, int]:
    """Return the largest size of a value of a block, and the first row whose values are too large, if there is one."""
    del own, shared
    x = block.x
    size = max(float(x.max()), -float(x.min()))
    if size <= MAX_VALUE:
        return size, 0
    return size, int(np.argmax((np.abs(x.astype(np.float64)) > MAX_VALUE).any(axis=1)))


def _as_array(X: Any, min_rows: int, name: str) -> Array:
    """Return vectors of any type as an array (n, d) of real numbers."""
    from sklearn.utils import check_array  # noqa: PLC0415  # the import takes seconds, and plain arrays do not need it

    refuse_masked(X, name)
    if _holds_text(X):
        raise InputTypeError(
            f"{name} must be vectors of numbers, got text: encode it with what made the vectors of the model"
        )
    try:
        array = np.asarray(
            check_array(X, ensure_all_finite=False, ensure_min_samples=min_rows, input_name=name)
        )
    except TypeError as error:
        raise InputTypeError(f"{name}: {error}") from error
    except (ValueError, OverflowError, RuntimeError) as error:  # torch tensors raise RuntimeError
        raise InputError(f"{name}: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def _holds_text(X: Any) -> bool:
    """Return whether X is a text, or a list or an array of texts."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "SU"
    return isinstance(X, str | bytes) or (isinstance(X, list | tuple) and len(X) > 0 and _holds_text(X[0]))


def _is_plain_array(X: Any, min_rows: int) -> bool:
    """Return whether `check_array` of scikit-learn would return X itself. That check takes longer than a small search."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.kind in "fiu"
        and len(X) >= min_rows
        and X.shape[1] > 0
    )


def is_plain(X: Any, n_features: int) -> bool:
    """Return whether `check_vectors` has only the values of X to look at: an array (n, n_features) of real numbers.

    Examples
    --------
    >>> is_plain(np.zeros((2, 3)), 3), is_plain([[0.0, 1.0]], 2)
    (True, False)
    """
    return _is_plain_array(X, 0) and X.shape[1] == n_features


def _check_finite(array: Array, name: str) -> None:
    """Refuse values that are not finite float32.

    The smallest and largest value of a block need no temporary array. Both are NaN if one value is.
    """
    for start in range(0, len(array), _ROWS_PER_CHECK):
        block = array[start : start + _ROWS_PER_CHECK]
        low, high = float(block.min()), float(block.max())
        if low >= -_FLOAT32_MAX and high <= _FLOAT32_MAX:
            continue
        bad, what = np.isnan(block), "NaN"
        if not bad.any():
            bad = np.abs(block.astype(np.float64)) > _FLOAT32_MAX
            what = "infinity or a value too large for dtype('float32')"
        row = start + int(np.argmax(bad.any(axis=1)))
        raise InputError(f"Input {name} contains {what} (first in row {row}).")


def as_float32(block: Array) -> Float32:
    """Return a block of checked rows as C-contiguous float32.

    Parameters
    ----------
    block : ndarray of shape (n, d)
        Rows of an array that `check_vectors` returned.

    Returns
    -------
    ndarray of shape (n, d), float32
        The block itself if it is C-contiguous float32, else a copy.

    Examples
    --------
    >>> as_float32(np.array([[1, 2]], dtype=np.uint8))
    array([[1., 2.]], dtype=float32)
    """
    return np.ascontiguousarray(block, dtype=np.float32)
