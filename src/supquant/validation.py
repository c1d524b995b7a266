"""The gate for vectors and parameters: they come out checked and ready to use, or with one clear error.

Labels have theirs in `supquant.labels`.
"""

from __future__ import annotations

import math
import numbers
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "as_float32",
    "check_choice",
    "check_integer",
    "check_nonnegative",
    "check_positive",
    "check_vectors",
    "random_generator",
    "resolve_jobs",
]

_ROWS_PER_CHECK = 4096
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_vectors(
    X: Any,
    *,
    name: str = "X",
    n_features: int | None = None,
    min_rows: int = 1,
    estimator: str = "supquant",
) -> NDArray[Any]:
    """Check that vectors are a two-dimensional array of finite numbers that float32 can hold.

    They keep their dtype. Nothing is copied that NumPy can view: a memory map stays mapped, and no temporary
    of full size is made.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Real numbers of any dtype: an array, a memory map, a torch tensor, a DataFrame, a list of rows.
    name : str
        What the errors call it.
    n_features : int or None
        The width expected, if it is known.
    min_rows : int
        The fewest rows accepted.
    estimator : str
        Who expects `n_features`.

    Returns
    -------
    ndarray of shape (n, d)
        A view of `X` where possible; float64 where `X` holds Python objects.

    Raises
    ------
    InputError
        If `X` cannot be used; an `InputTypeError` if it is of a kind that holds no dense numbers.

    Examples
    --------
    >>> check_vectors([[0, 1], [2, 3]]).shape
    (2, 2)
    >>> check_vectors([[0.0, float("nan")]])
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: Input X contains NaN (first in row 0).
    """
    try:
        array = X if _needs_no_check(X, min_rows) else _as_array(X, min_rows, name)
    except TypeError as error:
        raise InputTypeError(f"{name}: {error}") from error
    except (ValueError, OverflowError, RuntimeError) as error:  # torch tensors raise RuntimeError
        raise InputError(f"{name}: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if n_features is not None and array.shape[1] != n_features:
        raise InputError(
            f"{name} has {array.shape[1]} features, "
            f"but {estimator} is expecting {n_features} features as input"
        )
    if array.dtype.kind == "f":
        _check_finite(array, name)
    return np.asarray(array)


def _as_array(X: Any, min_rows: int, name: str) -> NDArray[Any]:
    from sklearn.utils import check_array  # noqa: PLC0415  # takes seconds; arrays of numbers do without

    array: NDArray[Any] = check_array(
        X, ensure_all_finite=False, ensure_min_samples=min_rows, input_name=name
    )
    return array


def _needs_no_check(X: Any, min_rows: int) -> bool:
    """Whether scikit-learn would give X back as it is; it takes longer to find out than a search of a small index."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.kind in "fiu"
        and len(X) >= min_rows
        and X.shape[1] > 0
    )


def _check_finite(array: NDArray[Any], name: str) -> None:
    """Refuse what is not a finite float32; extremes per block need no temporary, and NaN spreads to both."""
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


def as_float32(block: NDArray[Any]) -> NDArray[np.float32]:
    """Give a block of checked rows as C-contiguous float32: itself if it is that already, else a copy.

    Parameters
    ----------
    block : ndarray of shape (n, d)
        Rows of what `check_vectors` returned.

    Returns
    -------
    ndarray of shape (n, d), float32

    Examples
    --------
    >>> as_float32(np.array([[1, 2]], dtype=np.uint8))
    array([[1., 2.]], dtype=float32)
    """
    return np.ascontiguousarray(block, dtype=np.float32)


def check_positive(value: Any, name: str) -> float:
    """Check for a finite number above zero.

    Parameters
    ----------
    value : float
        What was given.
    name : str
        What the error calls it.

    Returns
    -------
    float

    Examples
    --------
    >>> check_positive(0, "quantization_weight")
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: quantization_weight must be a finite number above 0, got 0
    """
    number = _finite(value)
    if number is None or number <= 0:
        raise InputError(f"{name} must be a finite number above 0, got {value!r}")
    return number


def check_nonnegative(value: Any, name: str) -> float:
    """Check for a finite number, zero or above.

    Parameters
    ----------
    value : float
        What was given.
    name : str
        What the error calls it.

    Returns
    -------
    float

    Examples
    --------
    >>> check_nonnegative(0, "tol")
    0.0
    """
    number = _finite(value)
    if number is None or number < 0:
        raise InputError(f"{name} must be a finite number, 0 or above, got {value!r}")
    return number


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return float(value)


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Check for a whole number between two bounds, both included.

    Parameters
    ----------
    value : int
        What was given.
    name : str
        What the error calls it.
    low : int
        The smallest accepted.
    high : int or None
        The largest accepted, if there is one.

    Returns
    -------
    int

    Examples
    --------
    >>> check_integer(300, "n_codewords", 2, 256)
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: n_codewords must be an integer from 2 to 256, got 300
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise InputError(f"{name} must be an integer {bounds}, got {value!r}")
    return int(value)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Check for one of a few words.

    Parameters
    ----------
    value : str
        What was given.
    name : str
        What the error calls it.
    choices : sequence of str
        What is accepted.

    Returns
    -------
    str

    Examples
    --------
    >>> check_choice("cosine", "ranking", ("euclidean", "semantic"))
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: ranking must be 'euclidean' or 'semantic', got 'cosine'
    """
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def random_generator(random_state: Any) -> np.random.Generator:
    """Make a generator of random numbers from what scikit-learn calls a random state.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        None is unpredictable; an int always gives the same numbers; a Generator is used itself; a RandomState
        gives one seed.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> int(random_generator(0).integers(100)) == int(random_generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(check_integer(random_state, "random_state", 0))


def resolve_jobs(n_jobs: Any) -> int:
    """Find the number of threads to use.

    Parameters
    ----------
    n_jobs : int or None
        None or -1: every core this process may run on. Otherwise the number itself, at least 1.

    Returns
    -------
    int

    Examples
    --------
    >>> resolve_jobs(2)
    2
    """
    if n_jobs is None or (isinstance(n_jobs, numbers.Integral) and n_jobs == -1):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs < 1:
        raise InputError(f"n_jobs must be None, -1 or an integer of at least 1, got {n_jobs!r}")
    return int(n_jobs)
