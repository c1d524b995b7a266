"""Vectors to features: the fitted map that an estimator's parameter `features` stands for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from supquant.codec.feature_map import FeatureMap
from supquant.errors import InputError
from supquant.published.anchor_kernel import AnchorKernel
from supquant.rows import Rows

Features = AnchorKernel | Literal["auto"] | None

WIDE = 2000
"""Vectors with more dimensions than this are taken as they are by ``"auto"``: they separate classes linearly."""

MOST_ANCHORS = 1000
"""Number of anchors that ``"auto"`` takes; a quarter of the rows where that is less."""


def check_features(features: object) -> None:
    """Raise an `InputError` unless `fit_feature_map` takes these features."""
    if features is not None and not isinstance(features, AnchorKernel) and features != "auto":
        raise InputError(f"features must be 'auto', an AnchorKernel or None, got {features!r}")


def fit_feature_map(
    features: Features, X: NDArray[Any] | Rows, rng: np.random.Generator, n_jobs: int | None
) -> FeatureMap | None:
    """Fit the map from vectors X (n, p) to features.

    Parameters
    ----------
    features : AnchorKernel, "auto" or None
        What the estimator was given.
    X : ndarray of shape (n, p)
        Training rows.
    rng : numpy Generator
        Seeds a kernel that has no seed of its own.
    n_jobs : int or None
        Number of threads; None takes all cores.

    Returns
    -------
    FeatureMap or None
        None where vectors are taken as they are.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    >>> fit_feature_map("auto", X, np.random.default_rng(0), 1)(X).shape
    (40, 10)
    """
    if features == "auto":
        if X.shape[1] > WIDE:
            return None
        features = AnchorKernel(min(MOST_ANCHORS, max(1, len(X) // 4)), n_jobs=n_jobs)
    if features is None:
        return None
    kernel = clone(features)
    if kernel.random_state is None:
        kernel.set_params(random_state=int(rng.integers(2**31)))
    fitted: FeatureMap = kernel.fit(X).map_
    return fitted
