"""Product quantization: the unsupervised baseline, and the start of supervised codes.

"Product quantization for nearest neighbor search" (Jegou, Douze, Schmid, 2011). The dimensions are cut into M groups, and
k-means learns one codebook for each group.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from supquant.arrays import Float32
from supquant.codec import AdditiveCodec
from supquant.parallel import ordered_map, single_blas
from supquant.parameters import check_integer, resolve_jobs
from supquant.quantizers.base import UnsupervisedQuantizer
from supquant.quantizers.seeding import plus_plus_seeds
from supquant.validation import as_float32

ROWS_PER_CODEWORD = 256
"""K-means sees at most this number of rows for each codeword; more rows change the centres little."""


class ProductQuantizer(UnsupervisedQuantizer):
    """Product quantization: a byte of a code is the number of the nearest of K centres in one group of dimensions.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code. At most the number of dimensions.
    n_codewords : int, default=256
        K, the number of centres in each group, from 2 to 256.
    max_iter : int, default=25
        Maximum number of k-means iterations.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The codes do not depend on it.
    random_state : int, Generator or None, default=None
        Seed. The same seed gives the same codes.

    Attributes
    ----------
    codec_ : AdditiveCodec
        The learned model; it encodes, decodes and makes tables.
    training_codes_ : (n, M) uint8
        Codes of the training rows.
    n_iter_ : int
        Number of k-means iterations of the group that took the most.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import ProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> pq = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    >>> pq.encode(X[:3]).shape, pq.tables(X[:3]).shape
    ((3, 2), (3, 2, 16))
    """

    _file_kind: ClassVar[str] = "product-quantizer"
    _recorded: ClassVar[tuple[str, ...]] = ("n_iter",)

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        max_iter: int = 25,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.n_codewords = n_codewords
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self, n_features: int) -> None:
        del n_features
        check_integer(self.max_iter, "max_iter", 1)

    def _learn(self, X: NDArray[Any], rng: np.random.Generator) -> None:
        codebooks, n_iter = product_codebooks(
            sample_rows(X, self.n_codewords, rng),
            column_groups(X.shape[1], self.n_codebooks),
            self.n_codewords,
            rng=rng,
            max_iter=self.max_iter,
            n_jobs=resolve_jobs(self.n_jobs),
        )
        codec = AdditiveCodec(codebooks, independent=True)
        self._store(codec, codec.encode(X, n_jobs=self.n_jobs))
        self.n_iter_ = n_iter


def sample_rows(X: NDArray[Any], n_codewords: int, rng: np.random.Generator) -> Float32:
    """Return a random sample (s, d) of the rows of X (n, d) for k-means, in their order."""
    return as_float32(X[np.sort(rng.permutation(len(X))[: ROWS_PER_CODEWORD * n_codewords])])


def column_groups(n_columns: int, n_codebooks: int) -> list[NDArray[np.intp]]:
    """Return the columns of each codebook: consecutive groups, which differ in size by at most one."""
    return np.array_split(np.arange(n_columns), n_codebooks)


def product_codebooks(
    Z: Float32,
    groups: Sequence[NDArray[np.intp]],
    n_codewords: int,
    *,
    rng: np.random.Generator,
    max_iter: int,
    n_jobs: int,
) -> tuple[Float32, int]:
    """Run k-means on each group of columns.

    Parameters
    ----------
    Z : (n, r) float32
    groups : sequence of M int arrays
        Columns of each group.
    n_codewords : int
        K.
    rng : Generator
    max_iter : int
        Maximum number of k-means iterations.
    n_jobs : int
        Number of threads.

    Returns
    -------
    codebooks : (M, K, r) float32
        Zero outside their group.
    n_iter : int
        Number of iterations of the group that took the most, at least 1.
    """
    seeds = rng.integers(2**31, size=len(groups))
    codebooks = np.zeros((len(groups), n_codewords, Z.shape[1]), dtype=np.float32)

    def centres(item: tuple[NDArray[np.intp], int]) -> tuple[Float32, int]:
        columns, seed = item
        if len(columns) == 0:  # more codebooks than dimensions
            return np.zeros((n_codewords, 0), dtype=np.float32), 0
        kmeans = KMeans(
            n_codewords, init=plus_plus_seeds, n_init=1, max_iter=max_iter, random_state=int(seed)
        )
        with threadpool_limits(1, user_api="openmp"):
            kmeans.fit(np.ascontiguousarray(Z[:, columns]))
        return kmeans.cluster_centers_, kmeans.n_iter_

    iterations = 1
    with single_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than codewords are allowed
        found = ordered_map(centres, zip(groups, seeds, strict=True), n_jobs)
        for codebook, columns, (centre, n_iter) in zip(codebooks, groups, found, strict=True):
            codebook[:, columns] = centre
            iterations = max(iterations, n_iter)
    return codebooks, iterations
