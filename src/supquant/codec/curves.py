"""Curves from scores to probabilities: points (2, k), ascending scores and their probabilities, joined by straight lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.errors import InputError

__all__ = ["IDENTITY", "check_curve", "least_product", "read_curve", "stack_curves"]

IDENTITY = np.array([[0, 1], [0, 1]], dtype=np.float32)
"""The curve (2, 2) under which a score between 0 and 1 is its own probability."""


def read_curve(curve: Float32, products: NDArray[np.floating]) -> Float32:
    """Return the probabilities on a curve (2, k) at products of any shape.

    Examples
    --------
    >>> read_curve(np.float32([[0, 2], [0.1, 0.9]]), np.float32([-1, 1, 3]))
    array([0.1, 0.5, 0.9], dtype=float32)
    """
    return np.interp(products, *curve).astype(np.float32)


def least_product(curve: Float32, probability: float) -> float:
    """Return a product below which a curve (2, k) stays under a probability.

    It is the last point of the curve that lies under the probability; infinity if all points do, minus infinity if none does.

    Examples
    --------
    >>> curve = np.float32([[0, 1, 2], [0.1, 0.5, 0.9]])
    >>> [least_product(curve, p) for p in (0.05, 0.5, 0.6, 0.95)]
    [-inf, 0.0, 1.0, inf]
    """
    products, probabilities = curve
    reached = int(np.searchsorted(probabilities, np.float32(probability)))
    if reached == 0:
        return -np.inf
    return float(products[reached - 1]) if reached < len(products) else np.inf


def check_curve(curve: Float32) -> None:
    """Raise an `InputError` for what is no curve (2, k)."""
    if curve.ndim != 2 or len(curve) != 2 or curve.dtype != np.float32:
        raise InputError(f"curve must be float32 of shape (2, k), got {curve.dtype} of shape {curve.shape}")
    if not (np.diff(curve) >= 0).all() or curve.shape[1] < 2:
        raise InputError("a curve must have two points at least and never fall")


def stack_curves(curves: Sequence[Float32]) -> Float32:
    """Return curves (2, k) of several lengths as one array (c, 2, k); shorter ones repeat their last point.

    Examples
    --------
    >>> stack_curves([np.float32([[0, 1], [0, 1]]), np.float32([[0, 1, 2], [0, 0.5, 1]])])[0]
    array([[0., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    width = max(curve.shape[1] for curve in curves)
    return np.stack([np.pad(curve, ((0, 0), (0, width - curve.shape[1])), mode="edge") for curve in curves])
