"""Costs to codes: the beam and the exchange of codewords, as `Kernels.beam` and `Kernels.assign` describe them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from supquant.arrays import Float32
from supquant.errors import DeviceError
from supquant.kernels.cuda.compiling import kernel, largest_shared_memory

__all__ = ["Search"]

_WARP = 32


class Search:
    """The search for codes, for one set of codebooks.

    Parameters
    ----------
    cross, product : ndarray (M*K, M*K) float32
        As in `Kernels.assign`.
    K : int
    mu, eps : float
    beam : int, default=1
        Number of beginnings of a code that are kept while a start is chosen.
    """

    def __init__(
        self, cross: Float32, product: Float32, K: int, mu: float, eps: float, beam: int = 1
    ) -> None:
        self.M, self.K = len(cross) // K, K
        self._mu, self._eps = np.float32(mu), np.float32(eps)
        plain = mu == 0
        self._cross = cp.asarray(cross)
        self._product = self._cross if plain else cp.asarray(product)
        threads = max(-(-K // _WARP), -(-self.M // _WARP)) * _WARP
        self._numbers = {"M": self.M, "K": K, "THREADS": threads, "WIDTH": beam, "PLAIN": int(plain)}

    @cached_property
    def _shared_bytes(self) -> int:
        measured = cp.empty(1, dtype=cp.int32)
        kernel("search", "shared_bytes", **self._numbers)((1,), (1,), (measured,))
        needed = int(measured[0])
        if needed > (there := largest_shared_memory()):
            raise DeviceError(
                f"a search for {self.M} codewords of {self.K} needs {needed} bytes of shared memory, and this GPU has {there}"
            )
        return needed

    def codes(
        self, unary: Any, more: Any = None, *, start: Any = None, by_beam: bool = False, max_sweeps: int = 20
    ) -> Any:
        """Return codes (n, M) uint8 of low cost.

        Parameters
        ----------
        unary : array (n, M*K) float32
        more : array (M*K,) float32, default=None
            Added to every row of the costs.
        start : array (n, M) uint8, default=None
            Codes from which the search starts. None starts from zeros.
        by_beam : bool, default=False
            Whether a beam chooses the start.
        max_sweeps : int, default=20
            Largest number of visits to each codebook. With 0 the start is returned.
        """
        codes = cp.empty((len(unary), self.M), dtype=cp.uint8)
        if not len(unary):
            return codes
        null = np.uint64(0)
        arguments = (
            unary,
            null if more is None else more,
            self._cross,
            self._product,
            self._mu,
            self._eps,
            null if start is None else start,
            np.int32(by_beam),
            np.int32(max_sweeps),
            codes,
        )
        launch = kernel("search", "search", **self._numbers)
        launch((len(unary),), (self._numbers["THREADS"],), arguments, shared_mem=self._shared_bytes)
        return codes
