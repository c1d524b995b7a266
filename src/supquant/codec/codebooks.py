"""What codecs share whose codes are sums of codewords."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.base import MAX_CODEBOOKS, ProjectingCodec, check_part
from supquant.codec.queries import pack_rows
from supquant.inputs.gpu_arrays import is_on_gpu
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_choice, check_integer
from supquant.inputs.validation import check_vectors, is_plain
from supquant.kernels import Packed

MissingLabels = Literal["predict", "drop"]
"""How items without labels are encoded: `CodebookCodec.encode_items` describes it."""

HALF_ERROR = 1e-3
"""Codebooks are rounded to half precision if this changes no column by more than this fraction of its norm. A half-precision
number has a relative error of at most .0005, unless it is below .00006."""


def as_halves(codebooks: Float32) -> Float32:
    """Round codebooks (M, K, D) to half precision, so that computing the tables of a query reads half as many bytes.

    Codebooks stay as they are if a column would lose more than that, because its numbers are very large or very small.

    Examples
    --------
    >>> as_halves(np.float32([[[0.1, 1.0]]])), as_halves(np.float32([[[0.1, 1e5]]]))
    (array([[[0.09997559, 1.        ]]], dtype=float32), array([[[1.e-01, 1.e+05]]], dtype=float32))
    """
    with np.errstate(over="ignore"):
        rounded = codebooks.astype(np.float16).astype(np.float32)
    lost = np.square(rounded - codebooks).sum(axis=(0, 1))  # (D,) of each column
    return rounded if (lost <= HALF_ERROR**2 * np.square(codebooks).sum(axis=(0, 1))).all() else codebooks


def pack_codebooks(codebooks: Float32) -> Packed:
    """Pack the negative codewords (M K, r) of codebooks (M, K, r): their products with queries are look-up tables."""
    return pack_rows(-codebooks.reshape(-1, codebooks.shape[2]))


class CodebookCodec(ProjectingCodec):
    """A codec with codebooks (M, K, r): a code (M,) stands for ``sum(codebooks[m, code[m]] for m in range(M))``."""

    codebooks: Float32

    def _check_codebooks(self, width: int | str) -> None:
        """Raise an `InputError` unless the codebooks have a valid size and the given width, which is any if it is a letter."""
        check_part("codebooks", self.codebooks, "M", "K", width)
        check_integer(self.n_codebooks, "the number of codebooks", 1, MAX_CODEBOOKS)
        check_integer(self.n_codewords, "the number of codewords", 1, 256)

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        return int(self.codebooks.shape[0])

    @property
    def n_codewords(self) -> int:
        """K, the codewords of a codebook."""
        return int(self.codebooks.shape[1])

    @property
    def n_components(self) -> int:
        """r, the width of decoded vectors."""
        return int(self.codebooks.shape[2])

    @abstractmethod
    def prepare(self, features: Float32, ranking: str | None = None) -> Float32:
        """Return what tables are computed from, for queries with features (b, d)."""

    @abstractmethod
    def tables_of(self, prepared: Float32, ranking: str | None = None) -> Float32:
        """Return the look-up tables (q, M, K) of prepared queries."""

    def _check_steps(self) -> None:
        """Raise a ValueError if parts from a file do not fit together. No query is mapped to no tables."""
        features = self._features_of_nothing()
        for ranking in self.rankings:
            self.tables_of(self.prepare(features, ranking), ranking)

    def decode(self, codes: ArrayLike) -> Float32:
        """Return the vectors (n, r) that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

    def encode_items(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        missing_labels: MissingLabels = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Encode vectors X (n, p): codes (n, M) uint8.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Vectors of items.
        y : array-like or None, default=None
            Their labels, of the kind that the codec was learned from. None means that all are unknown. With a
            `SupervisedCodec`, some labels may be unknown.
        missing_labels : {"predict", "drop"}, default="predict"
            How items without labels are encoded: ``"predict"`` encodes their predicted labels, and ``"drop"`` only their
            position.
        n_jobs : int or None, default=None
            Number of threads; None uses all cores.

        Returns
        -------
        ndarray of shape (n, M), uint8
        """
        if y is None:
            return self.encode(X, missing_labels=missing_labels, n_jobs=n_jobs)
        if not is_on_gpu(X) and not is_plain(X, self.n_inputs):  # then `encode` checks them
            X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        return self.encode(X, self._read_labels(y, len(X)), missing_labels=missing_labels, n_jobs=n_jobs)

    def encode(
        self,
        X: ArrayLike,
        labels: Labels | None = None,
        *,
        missing_labels: MissingLabels = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Encode vectors X (n, p), as `encode_items` does, with labels that have been read: codes (n, M) uint8."""
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        return self._encode(X, labels, missing_labels, n_jobs)

    @abstractmethod
    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels: ...

    @abstractmethod
    def _encode(
        self, X: ArrayLike, labels: Labels | None, missing_labels: MissingLabels, n_jobs: int | None
    ) -> Codes: ...
