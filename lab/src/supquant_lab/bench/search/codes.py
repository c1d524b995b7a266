"""Report: the codes that are searched, with their codec and queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.codec.additive import AdditiveCodec
from supquant.model.codec import SupervisedCodec
from supquant.published import PublishedQuantizer
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.bench.data import BenchmarkData, benchmark_data
from supquant_lab.bench.search.cells import BITS, QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress
    from supquant_lab.bench.search.cells import Stock

DIMENSIONS = 32
"""Dimensions of uniform codes. With so few, FAISS spends almost no time on tables, and 32 sub-quantizers divide them."""

ANCHORS = 1000
"""Number of anchors of the trained model."""

LEARNED_ROWS = 10_000
"""Number of rows that the model is trained on."""

MAX_ITER = 5
"""Training iterations of the model."""


@dataclass(frozen=True)
class SearchData:
    """Codes, their codec, and queries."""

    codec: AdditiveCodec | SupervisedCodec
    codes: npt.NDArray[np.uint8]  # (n, M)
    queries: npt.NDArray[np.float32]  # (64, p), before the features
    about: dict[str, Any]


class CodeSource:
    """Makes codes of both kinds; the same stock gives the same codes.

    Trained codes are drawn with replacement from the codes of a model for labelled rows.

    Parameters
    ----------
    quick : bool
        Whether to train a model in about a second.
    callback : callable, optional
        Gets the fits' `Progress`.
    """

    def __init__(self, *, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> None:
        self._quick = quick
        self._callback = callback
        self._models: dict[int, tuple[PublishedQuantizer, npt.NDArray[np.uint8]]] = {}

    def make(self, stock: Stock) -> SearchData:
        """Return the codes of a stock."""
        if stock.source == "uniform":
            return uniform(stock)
        quantizer, codes = self._model(stock.bits)
        drawn = codes[np.random.default_rng(0).integers(len(codes), size=stock.rows)]
        about = {
            "dataset": self._data.name,
            "model_rows": len(codes),
            "model_distinct_codes": len(kernels.active().distinct(codes)[0]),
        }
        return SearchData(quantizer.codec_, drawn, self._data.queries[: max(QUERIES)], about)

    @cached_property
    def _data(self) -> BenchmarkData:
        return benchmark_data(quick=self._quick)

    def _model(self, bits: int) -> tuple[PublishedQuantizer, npt.NDArray[np.uint8]]:
        """Return a fitted model, which starts from that of the shorter code, and the codes of all labelled rows."""
        if bits not in self._models:
            learned, anchors, max_iter = (1000, 100, 1) if self._quick else (LEARNED_ROWS, ANCHORS, MAX_ITER)
            quantizer = PublishedQuantizer(
                bits // 8,
                features=AnchorKernel(anchors, random_state=0),
                init=self._model(bits // 2)[0] if bits > min(BITS) else None,
                max_iter=max_iter,
                random_state=0,
                callback=self._callback,
            )
            quantizer.fit(self._data.X[:learned], self._data.y[:learned])
            self._models[bits] = quantizer, quantizer.encode(self._data.X, self._data.y)
        return self._models[bits]


def uniform(stock: Stock) -> SearchData:
    """Return random codes of random codebooks.

    Examples
    --------
    >>> from supquant_lab.bench.search.cells import Stock
    >>> uniform(Stock("uniform", 1000, 64)).codes.shape
    (1000, 8)
    """
    rng = np.random.default_rng(0)
    M = stock.bits // 8
    codes = rng.integers(256, size=(stock.rows, M), dtype=np.uint8)
    codebooks = rng.standard_normal((M, 256, DIMENSIONS), dtype=np.float32)
    queries = rng.standard_normal((max(QUERIES), DIMENSIONS), dtype=np.float32)
    return SearchData(AdditiveCodec(codebooks=codebooks), codes, queries, {})
