"""Vectors to features: classes that are added after the fit, from a few labelled rows of each.

A class is described by the mean of the positions of its rows; the fit computes these means for the trained classes. Items have no
column for an added class, so codes stay as they are.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Float32
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.unlabelled import narrowed
from supquant.kernels import Packed, pack_rows

QUERY_RIDGE = 3.0
"""Ridge on the scatter within classes for the logits of queries, in units of its mean diagonal. It is large because the mean of a
few rows is uncertain."""

ITEM_RIDGE = 0.1
"""Ridge on the scatter within classes for the directions that order items, in the same units. Uncertain means do less harm to an
order than to probabilities."""


def read_new_labels(
    y: ArrayLike, n_rows: int, known: NDArray[Any], missing_label: object = None
) -> tuple[Labels, NDArray[Any]]:
    """Read the labels of rows that are added to a codec, one label per row. Rows may have no label.

    The labels must be of the same kinds as the `known` labels (L,) of the codec, and none of these.

    Returns
    -------
    labels : Labels
        Those of all n rows, over the classes to add.
    classes : ndarray of shape (L + a,)
        The known classes, then these.

    Examples
    --------
    >>> labels, classes = read_new_labels(["c", None, "d"], 3, np.array(["a", "b"]))
    >>> labels.indices, classes
    (array([ 0, -1,  1], dtype=int32), array(['a', 'b', 'c', 'd'], dtype='<U1'))
    """
    found = read_labels(
        y, n_rows=n_rows, multilabel=False, missing=True, missing_label=missing_label, fewest=1
    )
    new = narrowed(found.classes)  # an object array of strings is one of strings
    if not _kinds(new) <= _kinds(known):
        raise InputError(
            f"labels to add must be of the kind that the model knows, {known.dtype}, got {new.dtype}"
        )
    before = set(known.tolist())
    again = [label for label in new.tolist() if label in before]
    if again:
        raise InputError(f"labels to add must be new ones, got {again[:5]}, which the model knows")
    return found, _joined(known, new)


def _kinds(classes: NDArray[Any]) -> set[str]:
    """Return the kinds of class labels (L,): "number", "str", or the name of another type."""
    return {_kind(label) for label in classes.tolist()}


def _kind(label: Any) -> str:
    if isinstance(label, bool | np.bool_):
        return "bool"
    if isinstance(label, str):
        return "str"
    return "number" if isinstance(label, Real) else type(label).__name__


def _joined(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Return known and new classes in one array, in the dtype of the known ones if it can hold the new ones."""
    with np.errstate(invalid="ignore", over="ignore"):
        cast = new.astype(known.dtype)
    joined = np.concatenate([known, cast if cast.tolist() == new.tolist() else new])
    if joined.tolist() == known.tolist() + new.tolist():
        return joined
    joined = np.empty(len(known) + len(new), dtype=object)  # such as a very large integer among floats
    joined[:] = known.tolist() + new.tolist()
    return joined


def mean_positions(z: NDArray[Any], labels: Labels) -> Float32:
    """Return the mean positions (L, g) of classes, from positions z (n, g) of rows with one or several labels each.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> labels = read_labels(["cat", "cat", "dog"])
    >>> mean_positions(np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), labels)
    array([[1., 1.],
           [5., 5.]], dtype=float32)
    """
    carried = labels.sparse()
    sums, counts = carried.T @ z.astype(np.float64), np.asarray(carried.sum(axis=0))
    return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)


def class_logits(means: Float32, scatter: Float32) -> Packed:
    """Return weights (L, g + 1) from positions to the logits of classes with means (L, g); the last column holds the shifts.

    All classes are normal, with the mean scatter (g, g) of the trained ones. The logit 0 is that of a class around the origin,
    which stands for any other class.
    """
    weights = _solved(scatter, means, QUERY_RIDGE)
    shifts = -0.5 * np.einsum("cg,gc->c", means, weights)
    return pack_rows(np.vstack([weights, shifts]).T.astype(np.float32))


def class_directions(means: Float32, scatter: Float32) -> Float32:
    """Return directions (c, g) that tell classes with means (c, g) from others; the product with a position is 1 at the mean."""
    directions = _solved(scatter, means, ITEM_RIDGE).T
    products = np.einsum("cg,cg->c", directions, means)[:, None]
    return np.asarray(directions / np.where(products > 0, products, 1), dtype=np.float32)


def _solved(scatter: Float32, means: Float32, ridge: float) -> NDArray[np.float64]:
    """Return ``(scatter + ridge)^-1 means'`` (g, c)."""
    spread = scatter.astype(np.float64)
    spread[np.diag_indices_from(spread)] += ridge * np.trace(spread) / len(spread) + 1e-12
    return np.asarray(np.linalg.solve(spread, means.T.astype(np.float64)), dtype=np.float64)


def divided(p: Float32, u: Float32, z: Float32, by_place: Packed, added: slice) -> tuple[Float32, Float32]:
    """Divide the probability u of no trained class among the added classes and all others, by positions.

    Parameters
    ----------
    p : ndarray of shape (b, t), float32
        Probabilities of trained labels, given that the class is a trained one; or the mean vectors of these labels.
    u : ndarray of shape (b,), float32
        Probabilities of no trained class.
    z : ndarray of shape (b, g), float32
        Positions. Near the mean of a trained class, or of a found one that has no name yet, added classes get little.
    by_place : Packed, (n, g + 1)
        Weights of the logits of all these classes, from `class_logits`.
    added : slice
        The rows of `by_place` of added classes.

    Returns
    -------
    known : ndarray of shape (b, t + a), float32
        Like `p`, of trained and added labels, given that the class is a trained or an added one.
    new : ndarray of shape (b,), float32
        Probabilities of no trained and no added class.
    """
    scores = row_products(np.pad(z, ((0, 0), (0, 1)), constant_values=1), by_place)
    shares = scipy.special.softmax(np.hstack([np.zeros_like(scores[:, :1]), scores]), axis=1)[:, 1:][:, added]
    joint = np.hstack([(1 - u)[:, None] * p, u[:, None] * shares])
    left = u * (1 - shares.sum(axis=1))
    return (joint / np.maximum(1 - left, 1e-12)[:, None]).astype(np.float32), left.astype(np.float32)
