"""Report: the codes that are searched, with the codec and the queries that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.codec import AdditiveCodec, SemanticCodec
from supquant.features import AnchorKernel
from supquant.quantizers import SupervisedQuantizer
from supquant_experiments.bench.data import BenchmarkData, benchmark_data
from supquant_experiments.bench.search.cells import BITS, QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress
    from supquant_experiments.bench.search.cells import Stock

DIMENSIONS = (
    32  # of uniform codes: few, so that FAISS spends next to nothing on tables; 32 sub-quantizers divide it
)
ANCHORS = 1000
LEARNED_ROWS = 10_000
MAX_ITER = 5


@dataclass(frozen=True)
class SearchData:
    """Codes, and what asks for them."""

    codec: AdditiveCodec | SemanticCodec
    codes: npt.NDArray[np.uint8]  # (n, M)
    queries: npt.NDArray[np.float32]  # (64, p), as a user has them
    about: dict[str, Any]


class CodeSource:
    """Makes codes of either kind; the same stock gives the same codes.

    Trained ones are those that a model has for labelled rows, drawn with replacement to the number of rows asked for.

    Parameters
    ----------
    quick : bool
        A model learned in a second.
    callback : callable, optional
        Gets the fits' `Progress`.
    """

    def __init__(self, *, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> None:
        self._quick = quick
        self._callback = callback
        self._models: dict[int, tuple[SupervisedQuantizer, npt.NDArray[np.uint8]]] = {}

    def make(self, stock: Stock) -> SearchData:
        """Give the codes of a stock."""
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

    def _model(self, bits: int) -> tuple[SupervisedQuantizer, npt.NDArray[np.uint8]]:
        """Fit a model, a longer code starting from a shorter one, and give it with the codes of all labelled rows."""
        if bits not in self._models:
            learned, anchors, max_iter = (1000, 100, 1) if self._quick else (LEARNED_ROWS, ANCHORS, MAX_ITER)
            quantizer = SupervisedQuantizer(
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
    """Give random codes of random codebooks.

    Examples
    --------
    >>> from supquant_experiments.bench.search.cells import Stock
    >>> uniform(Stock("uniform", 1000, 64)).codes.shape
    (1000, 8)
    """
    rng = np.random.default_rng(0)
    M = stock.bits // 8
    codes = rng.integers(256, size=(stock.rows, M), dtype=np.uint8)
    codebooks = rng.standard_normal((M, 256, DIMENSIONS), dtype=np.float32)
    queries = rng.standard_normal((max(QUERIES), DIMENSIONS), dtype=np.float32)
    return SearchData(AdditiveCodec(codebooks=codebooks), codes, queries, {})
