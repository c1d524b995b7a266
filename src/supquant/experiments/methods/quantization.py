"""Report: the methods whose items are codes, `sq` and `pq`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import kernels
from supquant.codec import RANKINGS
from supquant.experiments.methods.interface import Array, Callback, Fitted, Method, Settings, Steps, Training
from supquant.parallel import row_blocks
from supquant.quantizers import ProductQuantizer, SupervisedQuantizer

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST_BITS = 16


class FittedCodes(Fitted):
    """A fitted quantizer; items are codes (n, M) uint8."""

    def __init__(
        self,
        quantizer: Any,
        seconds: float,
        parameters: Mapping[str, Any],
        *,
        chain_seconds: float | None = None,
        encode_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.quantizer = quantizer
        self.fit_seconds = seconds
        self.chain_seconds = seconds if chain_seconds is None else chain_seconds
        self.parameters = parameters
        self.encode_settings = encode_settings or {}

    def learned(self) -> Array:
        """Give the codes (n, M) that training ended with."""
        codes: Array = self.quantizer.training_codes_
        return codes

    def encoded(self, X: Array) -> Array:
        """Give codes (n, M) of vectors without labels."""
        codes: Array = self.quantizer.encode(X, **self.encode_settings)
        return codes

    def steps(self, items: Array, ranking: str) -> Steps:
        """Give features, look-up tables and the scan of all codes."""
        codec, scan = self.quantizer.codec_, kernels.active().table_sums
        return {
            "features": codec.features,
            "tables": lambda features: codec.tables_of(codec.project(features), ranking),
            "scan": lambda tables: scan(items, tables),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Give M, a byte a codebook."""
        return float(items.shape[1])

    def distinct(self, items: Array) -> int:
        """Count the different codes."""
        codes, _ = kernels.active().distinct(items)
        return len(codes)

    def quantization_error(self, X: Array, items: Array) -> float:
        """Compare decoded with projected vectors, block by block."""
        codec = self.quantizer.codec_
        error, squares, total = 0.0, 0.0, np.zeros(1)
        for start, stop in row_blocks(len(X)):
            projected = np.asarray(codec.project(codec.features(X[start:stop])), dtype=np.float64)  # (b, r)
            error += float(np.square(projected - self.quantizer.decode(items[start:stop])).sum())
            squares += float(np.square(projected).sum())
            total = total + projected.sum(axis=0)
        return error / (squares - float(np.square(total).sum()) / len(X))


class SupervisedQuantization(Method):
    """`sq`: a longer code starts from the shorter one, 16, 32, 64, ... bits, as published."""

    rankings = RANKINGS

    def __init__(self, training: Training, settings: Settings, callback: Callback | None = None) -> None:
        super().__init__(training, settings, callback)
        self._chain: dict[int, FittedCodes] = {}

    def fitted(self, bits: int) -> FittedCodes:
        """Fit the shorter codes first; what was fitted is kept."""
        if bits not in self._chain:
            shorter_bits = next_shorter(bits)
            self._chain[bits] = self._fit(bits, None if shorter_bits is None else self.fitted(shorter_bits))
        return self._chain[bits]

    def _fit(self, bits: int, shorter: FittedCodes | None) -> FittedCodes:
        settings = self.settings
        quantizer = SupervisedQuantizer(
            bits // 8,
            features=settings.features(),
            init=None if shorter is None else shorter.quantizer,
            random_state=settings.seed,
            n_jobs=settings.n_jobs,
            callback=self.callback,
            **settings.quantizer_settings(),
        )
        began = time.perf_counter()
        quantizer.fit(self.training.X, self.training.y)
        seconds = time.perf_counter() - began
        told = quantizer.get_params(deep=False)
        parameters = {
            name: value for name, value in told.items() if name not in ("features", "init", "callback")
        }
        parameters |= {
            "anchors": settings.anchors,
            "starts_from_bits": next_shorter(bits),
            "missing_labels": settings.missing_labels,
            "n_iter": quantizer.n_iter_,
        }
        return FittedCodes(
            quantizer,
            seconds,
            parameters,
            chain_seconds=seconds + (0.0 if shorter is None else shorter.chain_seconds),
            encode_settings={"missing_labels": settings.missing_labels},
        )


class ProductQuantization(Method):
    """`pq`: codes of the vectors themselves; labels are not used."""

    def fitted(self, bits: int) -> FittedCodes:
        """Fit at this length alone."""
        quantizer = ProductQuantizer(bits // 8, random_state=self.settings.seed, n_jobs=self.settings.n_jobs)
        began = time.perf_counter()
        quantizer.fit(self.training.X)
        return FittedCodes(quantizer, time.perf_counter() - began, quantizer.get_params(deep=False))


def next_shorter(bits: int) -> int | None:
    """Give the code length that a longer one starts from; None for the shortest.

    Examples
    --------
    >>> [next_shorter(bits) for bits in (8, 16, 32, 40, 64)]
    [None, None, 16, 32, 32]
    """
    if bits <= SHORTEST_BITS:
        return None
    shorter = SHORTEST_BITS
    while 2 * shorter < bits:
        shorter *= 2
    return shorter
