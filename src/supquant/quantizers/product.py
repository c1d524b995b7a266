"""Product quantization: the unsupervised baseline, and where supervised codes start from.

"Product quantization for nearest neighbor search" (Jegou, Douze, Schmid, 2011): the dimensions are cut into M groups, and
k-means gives each group a codebook of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from supquant.arrays import Float32
from supquant.codec import AdditiveCodec
from supquant.errors import InputError
from supquant.parallel import ordered_map, single_blas
from supquant.quantizers.base import FittedQuantizer
from supquant.validation import as_float32, check_integer, check_vectors, random_generator, resolve_jobs

ROWS_PER_CODEWORD = 256
"""Rows that k-means looks at for each codeword; more change the centres little."""


class ProductQuantizer(FittedQuantizer):
    """Codes of M bytes, each the nearest of K centres in its share of the dimensions.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the bytes of a code.
    n_codewords : int, default=256
        K, at most 256.
    max_iter : int, default=25
        Of k-means.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None

    Attributes
    ----------
    codec_ : AdditiveCodec
    training_codes_ : (n, M) uint8
    n_iter_ : int
        Iterations of k-means, the most of any group.
    n_features_in_ : int

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

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the codebooks from vectors X (n, p); `y` is ignored."""
        del y
        X = check_vectors(X)
        M = check_integer(self.n_codebooks, "n_codebooks", 1, X.shape[1])
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        max_iter = check_integer(self.max_iter, "max_iter", 1)
        check_enough_rows(len(X), K)
        n_jobs = resolve_jobs(self.n_jobs)
        rng = random_generator(self.random_state)
        codebooks, self.n_iter_ = product_codebooks(
            sample_rows(X, K, rng), column_groups(X.shape[1], M), K, rng=rng, max_iter=max_iter, n_jobs=n_jobs
        )
        self.codec_ = AdditiveCodec(codebooks, independent=True)
        self.n_features_in_ = int(X.shape[1])
        self.training_codes_ = self.codec_.encode(X, n_jobs=self.n_jobs)
        return self

    def encode(self, X: object) -> NDArray[np.uint8]:
        """Give vectors X (n, p) their codes (n, M) uint8."""
        return self._codec().encode(X, n_jobs=self.n_jobs)


def sample_rows(X: NDArray[Any], n_codewords: int, rng: np.random.Generator) -> Float32:
    """Choose the rows (s, d) that k-means looks at, in their order."""
    return as_float32(X[np.sort(rng.permutation(len(X))[: ROWS_PER_CODEWORD * n_codewords])])


def column_groups(n_columns: int, n_codebooks: int) -> list[NDArray[np.intp]]:
    """Cut the columns into the consecutive groups that codebooks stand for."""
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
    """Run k-means on each group of columns of Z (n, r).

    Returns the codebooks (M, K, r), zero outside their group, and the most iterations that a group took.
    """
    seeds = rng.integers(2**31, size=len(groups))
    codebooks = np.zeros((len(groups), n_codewords, Z.shape[1]), dtype=np.float32)

    def centres(item: tuple[NDArray[np.intp], int]) -> tuple[Float32, int]:
        columns, seed = item
        if len(columns) == 0:  # more codebooks than dimensions
            return np.zeros((n_codewords, 0), dtype=np.float32), 0
        kmeans = KMeans(n_codewords, n_init=1, max_iter=max_iter, random_state=int(seed))
        with threadpool_limits(1, user_api="openmp"):
            kmeans.fit(np.ascontiguousarray(Z[:, columns]))
        return kmeans.cluster_centers_, kmeans.n_iter_

    iterations = 1
    with single_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than codewords are fine
        found = ordered_map(centres, zip(groups, seeds, strict=True), n_jobs)
        for codebook, columns, (centre, n_iter) in zip(codebooks, groups, found, strict=True):
            codebook[:, columns] = centre
            iterations = max(iterations, n_iter)
    return codebooks, iterations


def check_enough_rows(n_rows: int, n_codewords: int) -> None:
    """Refuse to learn more codewords than there are rows."""
    if n_rows < n_codewords:
        raise InputError(
            f"n_samples={n_rows} should be >= n_codewords={n_codewords}: give more rows, or ask for fewer codewords"
        )
