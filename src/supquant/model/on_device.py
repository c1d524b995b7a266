"""Vectors to codes on a GPU: what `SupervisedCodec` does with items, block by block.

    x -> targets (kernels/cuda/meaning.py) -> costs of codewords -> codes        items without labels
    x -> positions, less the words of labels -> costs -> position words          items with labels that have words

Costs and searches are those of `supquant.assignment.CodeSearch`, whose tables are sent there once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32, Float64
from supquant.assignment import ItemSearch
from supquant.errors import DeviceError, InputError
from supquant.inputs.gpu_arrays import copy_to_host, is_on_gpu
from supquant.inputs.labels import Labels
from supquant.inputs.validation import check_vectors, is_plain
from supquant.kernels import device
from supquant.model.feature_map import SupervisedMap
from supquant.model.words import LABELLED, UNLABELLED, LabelSearch
from supquant.parallel import row_blocks
from supquant.rows import CentredRows, rows_of

__all__ = ["AnySearch", "DeviceEncoder", "on_gpu", "takes_gpu"]

BLOCK_ROWS = 1 << 15
"""Number of vectors that are searched at a time."""


def takes_gpu(X: Any) -> bool:
    """Return whether items X (n, p) are to be encoded on a GPU: they lie there, or `use_device` has chosen it."""
    return is_on_gpu(X) or device.device_name() == "cuda"


class DeviceEncoder:
    """A codec on a GPU. Its tables stay there as long as the codec lives.

    Parameters
    ----------
    feature_map : SupervisedMap
    searches : sequence of ItemSearch or LabelSearch
        The searches for codes: one for each kind of items.
    n_codebooks : int
    centre : ndarray of shape (p,), float64, or None
        Taken off all vectors.
    """

    def __init__(
        self,
        feature_map: SupervisedMap,
        searches: Sequence[ItemSearch | LabelSearch],
        n_codebooks: int,
        centre: Float64 | None,
    ) -> None:
        self._map, self._searches = feature_map, searches
        self._n_codebooks, self._centre = n_codebooks, centre

    def can_encode(self, X: Any, labels: Labels | None) -> bool:
        """Return whether a GPU can encode items with these labels; raise a `DeviceError` if they lie there, and it cannot.

        The error is also raised if there is no GPU.
        """
        device.cuda()
        why = ""
        if self._map.compiled is None:
            why = "with labels that were added after the fit"
        elif labels is not None and (
            labels.indices is None or not isinstance(self._searches[LABELLED], LabelSearch)
        ):
            why = "items with labels that have no codewords of their own"
        if why and is_on_gpu(X):
            raise DeviceError(f"a GPU cannot encode {why}: give vectors that are in the memory of the CPU")
        return not why

    @cached_property
    def searches(self) -> list[AnySearch]:
        """The searches for codes of item vectors, one for each kind of items."""
        return [on_gpu(search) for search in self._searches]

    @cached_property
    def _meaning(self) -> Any:
        return device.cuda().Meaning(self._map.parts, self._map.stretch)

    @cached_property
    def _unlabelled(self) -> _DeviceSearch:
        search = self._searches[UNLABELLED]
        assert isinstance(search, ItemSearch)
        return _DeviceSearch(search)

    @cached_property
    def _labelled(self) -> _LabelledSearch:
        search = self._searches[LABELLED]
        assert isinstance(search, LabelSearch)
        return _LabelledSearch(search, self._map.spelling.words)

    def encode(self, X: Any, labels: Labels | None, *, drop: bool) -> Any:
        """Return the codes (n, M) of items X (n, p): an array like X, in the memory that X lies in.

        Parameters
        ----------
        X : array (n, p)
        labels : Labels or None
            Their labels; a label is -1 if it is unknown. None if all are.
        drop : bool
            Whether meaning is left out of the codes of items without labels.
        """
        cuda = device.cuda()
        import cupy as cp  # noqa: PLC0415  # an extra

        own = None if labels is None else labels.indices

        def of_block(x: Any, rows: slice) -> Any:
            if own is None:
                return self._unlabelled.codes(self._meaning.targets(x, self._unlabelled.scale, drop=drop))
            known = np.flatnonzero(own[rows] >= 0)
            if len(known) == len(x):
                return self._labelled.codes(self._meaning, x, own[rows])
            codes = cp.empty((len(x), self._n_codebooks), dtype=cp.uint8)
            there, others = cp.asarray(known), cp.asarray(np.flatnonzero(own[rows] < 0))
            targets = self._meaning.targets(x[others], self._unlabelled.scale, drop=drop)
            codes[others] = self._unlabelled.codes(targets)
            if len(known):
                codes[there] = self._labelled.codes(self._meaning, x[there], own[rows][known])
            return codes

        checked = self._checked(X)
        try:
            codes = cuda.encode_blocks(checked, of_block, self._n_codebooks, self._centre)
        except ValueError as error:
            if type(error).__name__ == "NotFiniteError":
                check_vectors(X)  # says where
            raise
        return _like(codes, X)

    def _checked(self, X: Any) -> Any:
        """Return vectors (n, p) whose type and shape are good; the GPU looks at their values."""
        n_inputs, centre = self._map.n_inputs, self._centre
        if is_on_gpu(X):
            if X.ndim != 2 or X.shape[1] != n_inputs:
                raise InputError(f"X must have shape (n, {n_inputs}), got {tuple(X.shape)}")
            x = X.detach() if hasattr(X, "detach") else X
            return x.float() if "bfloat16" in str(x.dtype) else x
        checked = X if is_plain(X, n_inputs) else check_vectors(X, n_features=n_inputs, min_rows=0)
        return checked if centre is None else CentredRows(rows_of(checked), centre)


class _DeviceSearch:
    """A search for codes of vectors whose columns count by weights, on a GPU."""

    def __init__(self, search: ItemSearch) -> None:
        cuda, own = device.cuda(), search.search_
        arrays = cuda.arrays
        few, pull = own._few_words, own._pull
        if (
            few is not None
        ):  # the products of other words are zero, so that their costs are those of forbidden words
            kept = np.zeros_like(pull)
            kept[:, few] = pull[:, few]
            pull = kept
        M, K, _ = own.codebooks.shape
        self.scale = arrays.asarray(search.scale)
        self._pull, self._squares = cuda.Matrix(np.ascontiguousarray(pull.T)), arrays.asarray(own._squares)
        self._search = cuda.Search(own._cross, own._product, K, own.constraint, own.constant, own.beam)
        self._by_beam, self._max_sweeps = M > 2, own.max_sweeps

    def codes(self, targets: Any, start: Any = None) -> Any:
        """Return codes (n, M) for targets (n, D), which are weighted, starting from the given codes, or from scratch."""
        costs, by_beam = self._pull.products(targets), self._by_beam and start is None
        return self._search.codes(
            costs, self._squares, start=start, by_beam=by_beam, max_sweeps=self._max_sweeps
        )


class VectorSearch:
    """What `ItemSearch` does, on a GPU: a search for codes of vectors that are in the memory of the CPU."""

    def __init__(self, search: ItemSearch) -> None:
        self._search, self._n_codebooks = _DeviceSearch(search), len(search.search_.codebooks)

    def search(self, vectors: Float32, codes: Codes | None = None) -> Codes:
        """Find codes (n, M) for vectors (n, D), starting from the given codes, or from scratch."""
        found = np.empty((len(vectors), self._n_codebooks), dtype=np.uint8)
        arrays = device.cuda().arrays
        for block in row_blocks(len(vectors), BLOCK_ROWS):
            rows = slice(*block)
            targets = arrays.asarray(np.ascontiguousarray(vectors[rows])) * self._search.scale
            start = None if codes is None else arrays.asarray(np.ascontiguousarray(codes[rows]))
            found[rows] = copy_to_host(self._search.codes(targets, start))
        return found


AnySearch = ItemSearch | LabelSearch | VectorSearch
"""A search for codes of item vectors."""


def on_gpu(search: ItemSearch | LabelSearch) -> LabelSearch | VectorSearch:
    """Return a search for codes of item vectors with the same results, on a GPU."""
    if isinstance(search, ItemSearch):
        return VectorSearch(search)
    positions = search.positions
    if positions is None:
        return search
    return replace(search, positions=replace(positions, search_=VectorSearch(positions.search_)))  # type: ignore[arg-type]


class _LabelledSearch:
    """The words of labels, and on a GPU those of position."""

    def __init__(self, search: LabelSearch, spelling: NDArray[np.int32]) -> None:
        import cupy as cp  # noqa: PLC0415  # an extra

        self._of_labels: Codes = search._codewords[spelling]  # (L, M') the codewords of every label
        self._on_gpu = cp.asarray(self._of_labels)
        self._positions = search.positions
        if search.positions is not None:
            self._codebooks = cp.asarray(search.positions.of_labels)
            self._words = cp.asarray(search.positions.words)
            self._search = _DeviceSearch(search.positions.search_)

    def codes(self, meaning: Any, x: Any, own: NDArray[np.int32]) -> Any:
        """Return codes (n, M) of items x (n, p) with labels (n,)."""
        import cupy as cp  # noqa: PLC0415  # an extra

        found = self._on_gpu[cp.asarray(own)]
        if self._positions is None:
            return found
        targets = device.cuda().labelled_targets(
            meaning.places(x), found, self._codebooks, self._search.scale
        )
        places = self._search.codes(targets)
        # words[i, m] = self._words[m, places[i, m]]
        words = cp.take_along_axis(self._words, places.T.astype(cp.int64), axis=1).T
        return cp.ascontiguousarray(cp.concatenate([found, words], axis=1))


def _like(codes: Any, X: Any) -> Any:
    """Return codes on a GPU as a tensor if X is one of torch."""
    if type(X).__module__.partition(".")[0] == "torch":
        return sys.modules["torch"].from_dlpack(codes)
    return codes
