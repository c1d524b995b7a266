"""Vectors to features: a Gaussian kernel on anchors drawn from the training rows.

It is the representation of "Supervised Discrete Hashing" (Shen et al., 2015), which the supervised quantization paper uses:

    phi(x) = [exp(-|x - a_1|^2 / 2 sigma^2), ..., exp(-|x - a_h|^2 / 2 sigma^2)],
    sigma = the mean over training rows of the distance to the nearest anchor.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant.arrays import ArrayLike, Float32
from supquant.codec.gaussian_map import GaussianMap, map_rows, squared_distances, squared_norms
from supquant.codec.interface import FeatureMap
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer, check_positive, random_generator, resolve_jobs
from supquant.inputs.validation import as_float32, check_training_rows, check_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import row_blocks, single_blas
from supquant.rows import RowBlock, Rows

WIDE = 2000
"""With ``"auto"``, vectors of more dimensions are their own features, because they separate classes linearly."""

MAX_ANCHORS = 1000
"""Number of anchors with ``"auto"``, or a quarter of the number of rows if that is less."""


class AnchorKernel(TransformerMixin, BaseEstimator):
    """Gaussian kernel features on anchors drawn from the training rows.

    Parameters
    ----------
    n_anchors : int, default=1000
        Number of anchors; all rows become anchors if there are fewer rows.
    bandwidth : float or None, default=None
        Sigma. None uses the published rule: the mean over rows of the distance to the nearest anchor.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The features do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Chooses the rows that become anchors.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, p), float32
        The anchors.
    bandwidth_ : float
        Sigma.
    map_ : GaussianMap
        The frozen map from a block of float32 vectors to its features.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import AnchorKernel
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> AnchorKernel(20, random_state=0).fit_transform(X).shape
    (100, 20)
    """

    def __init__(
        self,
        n_anchors: int = 1000,
        *,
        bandwidth: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.n_jobs = n_jobs
        self.random_state = random_state

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw the anchors from rows X (n, p) and measure the bandwidth; `y` is ignored.

        Returns
        -------
        AnchorKernel
            The fitted estimator itself.
        """
        del y
        n_anchors = check_integer(self.n_anchors, "n_anchors", 1)
        if self.bandwidth is not None:
            check_positive(self.bandwidth, "bandwidth")
        rows = check_training_rows(X)
        rng = random_generator(self.random_state)
        chosen = np.sort(rng.permutation(len(rows))[:n_anchors])
        anchors = as_float32(rows[chosen])
        bandwidth = self.bandwidth or _mean_nearest(rows, anchors, resolve_jobs(self.n_jobs))
        self.n_features_in_ = int(rows.shape[1])
        self.anchors_ = anchors
        self.bandwidth_ = float(bandwidth)
        self.map_ = GaussianMap(anchors, self.bandwidth_)
        return self

    def transform(self, X: ArrayLike) -> Float32:
        """Map X (n, p) to its features (n, n_anchors) float32."""
        check_is_fitted(self)
        X = check_vectors(X, n_features=self.n_features_in_, estimator=type(self).__name__)
        return map_rows(self.map_, X, len(self.anchors_), resolve_jobs(self.n_jobs))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are always float32
        return tags


def _mean_nearest(X: Rows, anchors: Float32, n_jobs: int) -> float:
    """Return the mean distance of rows X (n, p) to their nearest anchor, or 1 if that is 0."""
    shared = anchors, squared_norms(anchors)
    with single_blas():
        sums = X.map_blocks(_nearest, row_blocks(len(X)), shared, n_jobs=n_jobs)
        return float(sum(sums)) / len(X) or 1.0


def _nearest(block: RowBlock, own: None, shared: tuple[Float32, Float32]) -> float:
    """Return the sum over the rows (b, p) of a block of the distance to the nearest anchor."""
    del own
    anchors, norms = shared
    nearest = squared_distances(as_float32(block.x), anchors, norms).min(axis=1)
    return float(np.sqrt(nearest, dtype=np.float64).sum())


# the parameter `features` of estimators --------------------------------------------------------------------------------

Features = AnchorKernel | Literal["auto"] | None


def check_features(features: object) -> None:
    """Raise an `InputError` unless `fit_feature_map` accepts these features."""
    if features is not None and not isinstance(features, AnchorKernel) and features != "auto":
        raise InputError(f"features must be 'auto', an AnchorKernel or None, got {features!r}")


def fit_feature_map(
    features: Features, X: NDArray[Any] | Rows, rng: np.random.Generator, n_jobs: int | None
) -> FeatureMap | None:
    """Fit the map from vectors X (n, p) to features.

    Parameters
    ----------
    features : AnchorKernel, "auto" or None
        The parameter of the estimator.
    X : ndarray or Rows of shape (n, p)
        Training rows.
    rng : numpy Generator
        Seeds a kernel that has no seed of its own.
    n_jobs : int or None
        Number of threads; None uses all cores.

    Returns
    -------
    FeatureMap or None
        None if the vectors are their own features.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    >>> fit_feature_map("auto", X, np.random.default_rng(0), 1)(X).shape
    (40, 10)
    """
    if features == "auto":
        if X.shape[1] > WIDE:
            return None
        features = AnchorKernel(min(MAX_ANCHORS, max(1, len(X) // 4)), n_jobs=n_jobs)
    if features is None:
        return None
    kernel = clone(features)
    if kernel.random_state is None:
        kernel.set_params(random_state=int(rng.integers(2**31)))
    fitted: FeatureMap = kernel.fit(X).map_
    return fitted
