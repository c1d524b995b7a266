"""Labels that a codec does not know yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from supquant.arrays import ArrayLike
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.unlabelled import narrowed

__all__ = ["read_new_labels"]


def read_new_labels(y: ArrayLike, n_rows: int, known: NDArray[Any]) -> Labels:
    """Read the labels of rows that are added to a codec, one per row.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        The labels.
    n_rows : int
        The number of rows.
    known : ndarray of shape (L,)
        The labels that the codec knows. The new ones must be of the same kind, and none of these.

    Returns
    -------
    Labels

    Examples
    --------
    >>> import numpy as np
    >>> read_new_labels(["c", "d"], 2, np.array(["a", "b"])).classes
    array(['c', 'd'], dtype='<U1')
    """
    found = read_labels(y, n_rows=n_rows, multilabel=False, fewest=1)
    found = replace(found, classes=narrowed(found.classes))  # an object array of strings is one of strings
    plain = (narrowed(known), found.classes)
    kinds = {"number" if each.dtype.kind in "iuf" else each.dtype.kind for each in plain}
    if len(kinds) > 1:
        raise InputError(
            f"labels to add must be of the kind that the model knows, {known.dtype}, got {found.classes.dtype}"
        )
    before = set(known.tolist())
    again = [label for label in found.classes.tolist() if label in before]
    if again:
        raise InputError(f"labels to add must be new ones, got {again[:5]}, which the model knows")
    return found
