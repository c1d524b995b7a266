"""What codecs share whose codes are sums of codewords."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from supquant import kernels
from supquant.arrays import ArrayLike, Float32
from supquant.codec.base import MOST_CODEBOOKS, ProjectingCodec, check_part
from supquant.codec.queries import pack_rows
from supquant.kernels import Packed
from supquant.parameters import check_integer

HALF_ERROR = 1e-3
"""Codebooks are rounded to half precision if no column of theirs then changes by more than this part of its length. A half has an
error of at most .0005 of its value, unless it is below .00006."""


def as_halves(codebooks: Float32) -> Float32:
    """Round codebooks (M, K, D) to half precision, so that the tables of a query read half the bytes.

    Codewords that would lose more than the last bits of a half, because they are very large or very small, stay as they are.

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
        """Raise an `InputError` unless the codebooks have the given width, or any if it is a letter, and a possible size."""
        check_part("codebooks", self.codebooks, "M", "K", width)
        check_integer(self.n_codebooks, "the number of codebooks", 1, MOST_CODEBOOKS)
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
