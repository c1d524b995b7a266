"""Product quantization: the unsupervised baseline, and the start of supervised codes.

"Product quantization for nearest neighbor search" (Jegou, Douze, Schmid, 2011). The dimensions are divided into M groups, and
k-means learns one codebook for each group.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from supquant.clustering import column_groups, product_codebooks, sample_rows
from supquant.codec.additive import AdditiveCodec
from supquant.estimators.base import UnsupervisedQuantizer
from supquant.inputs.parameters import check_integer, resolve_jobs


class ProductQuantizer(UnsupervisedQuantizer):
    """Product quantization: a byte of a code is the number of the nearest of K centres in one group of dimensions.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, at most the number of dimensions.
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
        Largest number of k-means iterations of a group.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import ProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> pq = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    >>> pq.encode(X[:3]).shape, pq.codec_.tables(X[:3]).shape
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
