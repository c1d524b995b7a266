"""Vectors to features: a Gaussian kernel on anchors drawn from the training rows.

It is the representation of "Supervised Discrete Hashing" (Shen et al., 2015), which the supervised quantization paper uses:

    phi(x) = [exp(-|x - a_1|^2 / 2 sigma^2), ..., exp(-|x - a_h|^2 / 2 sigma^2)],
    sigma = the mean over training rows of the distance to the nearest anchor.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant.arrays import ArrayLike, Float32
from supquant.codec.gaussian_map import GaussianMap, map_rows, squared_distances, squared_norms
from supquant.inputs.parameters import check_integer, check_positive, random_generator, resolve_jobs
from supquant.inputs.validation import as_float32, check_training_rows, check_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import row_blocks, single_blas
from supquant.rows import RowBlock, Rows


class AnchorKernel(TransformerMixin, BaseEstimator):
    """Gaussian kernel features on anchors drawn from the training rows.

    Parameters
    ----------
    n_anchors : int, default=1000
        Number of anchors; all rows become anchors if they are fewer.
    bandwidth : float or None, default=None
        Sigma. None takes the published rule: the mean over rows of the distance to the nearest anchor.
    n_jobs : int or None, default=None
        Number of threads; None takes all cores. Features do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Chooses the rows that become anchors.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, p), float32
        The anchors.
    bandwidth_ : float
        Sigma.
    map_ : GaussianMap
        The frozen map from a float32 block to its features.

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
    """Return the mean distance of rows X (n, p) to their nearest anchor; 1 where it is 0."""
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
