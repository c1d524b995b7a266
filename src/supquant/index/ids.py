"""What users call their rows: automatic numbers, 64-bit integers, or strings.

Ids from users are read into the same form, whether they are to be stored or looked up. `id_kinds` has the two kinds.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags
from supquant.errors import InputError
from supquant.index.id_kinds import Ids, IntegerIds, StringIds, integer_ids, join_integers
from supquant.inputs.validation import refuse_masked

__all__ = ["join_ids", "name_some", "read_ids"]

_MAX_NAMED = 3
"""An error names at most this number of ids."""


def read_ids(values: object, *, distinct: bool = False) -> Ids:
    """Read ids from a user.

    Parameters
    ----------
    values : sequence or array (n,)
        Integers that fit in 64 bits, or strings.
    distinct : bool, default=False
        Whether ids that come twice are refused.

    Returns
    -------
    Ids

    Raises
    ------
    InputError
        If `values` are not such ids.

    Examples
    --------
    >>> read_ids([7, 5]).take(np.array([1, 0]))
    array([5, 7])
    >>> read_ids([7, "seven"])
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: ids must be all integers or all strings, got int and str
    """
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        ids = _read_list(values)
    else:  # also a tensor, or a column of a table
        ids = _read_array(np.asarray(refuse_masked(values, "ids")), type(values).__name__)
    if distinct and len(repeated := ids.repeated()):
        raise InputError(f"these ids are given more than once: {name_some(repeated)}")
    return ids


def _read_array(values: NDArray[Any], given: str) -> Ids:
    if values.ndim != 1:
        got = f"an array of shape {values.shape}" if values.ndim else f"a {given}"
        raise InputError(f"ids must be a list or a one-dimensional array, got {got}")
    if values.dtype.kind == "i" or (values.dtype.kind == "u" and values.max(initial=0) < 2**63):
        return integer_ids(values.astype(np.int64))
    if len(values) and values.dtype.kind not in "uUTO":  # in a list, dates would become integers
        raise InputError(f"ids must be integers or strings, got {values.dtype}")
    return _read_list(values.tolist())


def _read_list(values: Sequence[Any]) -> Ids:
    kinds = set(map(type, values))
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return integer_ids(np.fromiter(map(operator.index, values), np.int64, len(values)))
        except OverflowError as error:
            raise InputError("ids must fit in 64 bits, between -2**63 and 2**63 - 1") from error
    if all(issubclass(kind, str) for kind in kinds):
        return StringIds.of_texts(values)
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"ids must be all integers or all strings, got {names}")


def name_some(ids: NDArray[Any]) -> str:
    """Return the first few of some ids (n,) as text for an error.

    Examples
    --------
    >>> name_some(np.arange(10, 20))
    '10, 11, 12 and 7 more'
    """
    named = ", ".join(map(repr, ids[:_MAX_NAMED].tolist()))
    return named if len(ids) <= _MAX_NAMED else f"{named} and {len(ids) - _MAX_NAMED} more"


def join_ids(pieces: Sequence[tuple[Ids, Flags | None]]) -> Ids:
    """Join the ids of several runs of rows, which are all integers or all strings.

    Parameters
    ----------
    pieces : sequence of (Ids, mask (n,) of bool or None)
        The ids of each run, and which of them to keep. None keeps all.

    Returns
    -------
    Ids
    """
    strings = [(ids, kept) for ids, kept in pieces if isinstance(ids, StringIds)]
    if strings:
        return StringIds.join(strings)
    return join_integers([(ids, kept) for ids, kept in pieces if isinstance(ids, IntegerIds)])
