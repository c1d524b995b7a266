"""The gate for parameters: they are checked here, and invalid ones are refused with one clear error."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError
from supquant.system import count_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "check_choice",
    "check_integer",
    "check_nonnegative",
    "check_number",
    "check_positive",
    "random_generator",
    "resolve_jobs",
]

_THREADS_PER_CORE, _FEW_THREADS = 4, 16
"""The maximum number of threads is this number per core, or this number in all, whichever is larger."""


def check_positive(value: Any, name: str, high: float | None = None) -> float:
    """Return a parameter as a float; raise an `InputError` unless it is finite, above 0, and at most `high` if that is given.

    Examples
    --------
    >>> check_positive(0, "quantization_weight")
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: quantization_weight must be a finite number above 0, got 0
    """
    number = _finite_number(value, high)
    if number is None or number <= 0:
        raise InputError(f"{name} must be a finite number above 0{_at_most(high)}, got {value!r}")
    return number


def check_number(value: Any, name: str) -> float:
    """Return a parameter as a float; raise an `InputError` unless it is a finite number.

    Examples
    --------
    >>> check_number(-1, "constant")
    -1.0
    """
    number = _finite_number(value, None)
    if number is None:
        raise InputError(f"{name} must be a finite number, got {value!r}")
    return number


def check_nonnegative(value: Any, name: str, high: float | None = None) -> float:
    """Return a parameter as `check_positive` does, but accept 0 too.

    Examples
    --------
    >>> check_nonnegative(0, "tol")
    0.0
    """
    number = _finite_number(value, high)
    if number is None or number < 0:
        raise InputError(f"{name} must be a finite number, 0 or above{_at_most(high)}, got {value!r}")
    return number


def _finite_number(value: Any, high: float | None) -> float | None:
    """Return the value as a float, or None if it is not a finite number or above `high`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return None
    return None if not math.isfinite(number) or (high is not None and number > high) else number


def _at_most(high: float | None) -> str:
    return "" if high is None else f" and at most {high:g}"


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return a parameter as an int; raise an `InputError` unless it is an integer from `low` to `high`, or of at least `low`.

    Examples
    --------
    >>> check_integer(300, "n_codewords", 2, 256)
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: n_codewords must be an integer from 2 to 256, got 300
    """
    # The type int is compared first, here and below: a search of one query should not wait for the slow check.
    is_integer = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    if not is_integer or value < low or (high is not None and value > high):
        bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise InputError(f"{name} must be an integer {bounds}, got {value!r}")
    return int(value)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return a parameter; raise an `InputError` unless it is one of the strings `choices`.

    Examples
    --------
    >>> check_choice("cosine", "ranking", ("euclidean", "label"))
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: ranking must be 'euclidean' or 'label', got 'cosine'
    """
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a random number generator for a `random_state` parameter.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        None makes an unpredictable generator. An int is a seed. A Generator is returned itself. A RandomState draws a seed.

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
    """Return the number of threads for an `n_jobs` parameter.

    More threads than cores do not make anything faster, and thousands of them would slow down the whole process. So a large
    number is reduced to four per core, or to 16 if that is more.

    Parameters
    ----------
    n_jobs : int or None
        None or -1 is the number of cores that this process may use. Any other value must be at least 1.

    Returns
    -------
    int

    Examples
    --------
    >>> resolve_jobs(2)
    2
    >>> resolve_jobs(2**40) < 100_000
    True
    """
    if type(n_jobs) is int and 1 <= n_jobs <= _FEW_THREADS:
        return n_jobs
    if n_jobs is None or (isinstance(n_jobs, numbers.Integral) and n_jobs == -1):
        return count_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs < 1:
        raise InputError(f"n_jobs must be None, -1 or an integer of at least 1, got {n_jobs!r}")
    return int(n_jobs) if n_jobs <= _FEW_THREADS else min(int(n_jobs), _max_threads())


def _max_threads() -> int:
    return max(_THREADS_PER_CORE * count_cores(), _FEW_THREADS)
