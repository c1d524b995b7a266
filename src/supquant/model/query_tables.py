"""The queries of codes of meaning and position: vectors to features, query vectors and look-up tables."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.codebooks import CodebookCodec, pack_codebooks
from supquant.codec.interface import QueryTables
from supquant.codec.queries import QUERY_ROWS, pack_rows, row_products
from supquant.inputs.parameters import resolve_jobs
from supquant.inputs.validation import as_float32, check_vectors
from supquant.kernels import Packed, QueryKernel
from supquant.model.feature_map import MeaningMap
from supquant.model.vectors import (
    FeatureParts,
    checked_novelty,
    label_queries,
    position_queries,
    query_rule,
)
from supquant.model.words import item_novelty

__all__ = ["N_CURVES", "SupervisedQueries"]

RANKINGS = ("label", "position")
"""The rankings of a `SupervisedCodec`; the first one is the default."""

NOVELTY_BINS = np.array([0.1, 0.35, 0.65], dtype=np.float32)
"""Bounds between groups of queries, as probabilities of being new. Each group has its own curve from scores to probabilities."""

N_CURVES = len(NOVELTY_BINS) + 2
"""Curves of a codec: one for items whose labels are all known, and one for each group of queries that `NOVELTY_BINS` divide."""

_CURVE_BOUNDS = np.concatenate([[-np.inf], NOVELTY_BINS]).astype(np.float32)
"""Bounds of novelty between the queries of one curve and of the next. No query is below the first of them: the first curve is
for items whose labels are all known."""

_MIN_SHARE = np.float32(1e-6)
"""The share of meaning in the vector of an item is taken to be at least this great where it is divided by."""

_NO_BOUNDS = np.empty(0, dtype=np.float32)


class SupervisedQueries(CodebookCodec):
    """The part of `SupervisedCodec` that makes look-up tables of queries.

    Where there are compiled kernels, `query_tables` takes all steps in one call, if no labels were added after the fit. The steps
    are also methods of their own, and the same bits come of them.
    """

    curves: Float32

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone. What is made from them is made anew in a copy, and compiled code cannot be copied."""
        return {each.name: getattr(self, each.name) for each in fields(cast("Any", self))}

    @property
    def map(self) -> MeaningMap:
        """The feature map."""
        return cast("MeaningMap", self.feature_map)

    @property
    def _n_meaning(self) -> int:
        """Width of m and n together."""
        return self.map.spelling.n_columns + 1

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` knows; the first one is the default."""
        return RANKINGS

    def prepare(
        self, features: Float32, ranking: str | None = None, *, all_labelled: bool = False
    ) -> Float32:
        """Return the vectors v (b, D) of queries with features (b, F); their products with items are scores.

        Parameters
        ----------
        features : ndarray of shape (b, F), float32
        ranking : {"label", "position"} or None, default=None
            None takes ``"label"``.
        all_labelled : bool, default=False
            Whether the labels of all items are known.
        """
        ranking = self._ranking(ranking)
        if ranking == "position":
            return position_queries(FeatureParts.of(features, self.map))
        if self._added_columns is None and (compiled := kernels.compiled()) is not None:
            rule = query_rule(self.map, ranking, all_labelled=all_labelled)
            return compiled.query_vectors(np.ascontiguousarray(features), rule)
        parts = FeatureParts.of(features, self.map)
        return label_queries(parts, self.map, self._added_columns, all_labelled=all_labelled)

    @cached_property
    def _added_columns(self) -> Packed | None:
        """Directions of added labels, transposed: (g, a); None where no labels were added."""
        if self.map.n_labels == self.map.n_trained:
            return None
        return pack_rows(self.map.added_directions.T)

    @cached_property
    def _packed_codebooks(self) -> Packed:
        """The negative codewords (M K, D)."""
        return pack_codebooks(self.codebooks)

    def tables_of(self, prepared: Float32, ranking: str | None = None, *, n_threads: int = 1) -> Float32:
        """Return look-up tables (q, M, K) of query vectors v (q, D): ``-v . c`` for every codeword c."""
        self._ranking(ranking)
        tables = row_products(prepared, self._packed_codebooks, n_threads)
        return tables.reshape(len(prepared), self.n_codebooks, self.n_codewords)

    def query_tables(
        self,
        Q: ArrayLike,
        ranking: str | None = None,
        *,
        novelty: ArrayLike | None = None,
        all_labelled: bool = False,
        n_jobs: int | None = None,
    ) -> QueryTables:
        """Return what a scan needs of queries; it is the same bits for a query alone and in a batch.

        Parameters
        ----------
        Q : array-like of shape (q, p)
            Vectors of queries.
        ranking : {"label", "position"} or None, default=None
            None takes ``"label"``.
        novelty : float, array-like of shape (q,) or None, default=None
            The probability that a query is of no known class; None takes the probability that the model predicts.
        all_labelled : bool, default=False
            Whether the labels of all items are known. Then no query is new, unless `novelty` says so.
        n_jobs : int or None, default=None
            Number of threads; None takes all cores.

        Returns
        -------
        QueryTables
        """
        ranking = self._ranking(ranking)
        kernel = self._query_kernels.get((ranking, all_labelled))  # it checks the values itself
        x = as_float32(
            check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0, finite=kernel is None)
        )
        n_threads = resolve_jobs(n_jobs)
        if all_labelled and novelty is None:
            novelty = 0.0
        given = None if novelty is None else checked_novelty(novelty, len(x))
        if kernel is None:
            features = self._features_of(x, given, n_threads)
            vectors = self.prepare(features, ranking, all_labelled=all_labelled)
            tables = self.tables_of(vectors, ranking, n_threads=n_threads)
            curve_of = self.curves_of(features, all_labelled=all_labelled)
        else:
            tables = np.empty((len(x), self.n_codebooks, self.n_codewords), dtype=np.float32)
            curve_of = np.empty(len(x), dtype=np.int64)
            if not kernel.tables(x, given, tables, curve_of, n_threads):
                check_vectors(Q, name="Q")
        offsets = np.zeros(len(x), dtype=np.float32)
        if ranking != "label":
            return QueryTables(tables, offsets, descending=True)
        return QueryTables(tables, offsets, descending=True, curve=self.curves, curve_of=curve_of)

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items like those of codes (q, M) uint8."""
        ranking, g, r = self._ranking(ranking), self.map.n_position, self.map.spelling.n_columns
        decoded = self.decode(codes)  # (q, r + 1 + g): meaning, novelty, position
        novelty = item_novelty(decoded[:, r : r + 1])
        position = decoded[:, r + 1 :]
        features = np.zeros((len(codes), self.map.n_columns + 1 + 2 * g), dtype=np.float32)
        features[:, :r] = np.clip(decoded[:, :r] / np.maximum(1 - novelty, _MIN_SHARE), 0, 1)
        features[:, self.map.n_columns] = novelty[:, 0]
        features[:, self.map.n_columns + 1 :] = np.hstack([position, self.map.cosines(position)])
        tables = self.tables_of(self.prepare(features, ranking), ranking)
        offsets = np.zeros(len(codes), dtype=np.float32)
        if ranking != "label":
            return QueryTables(tables, offsets, descending=True)
        return QueryTables(
            tables, offsets, descending=True, curve=self.curves, curve_of=self.curves_of(features)
        )

    @cached_property
    def _query_kernels(self) -> dict[tuple[str, bool], QueryKernel]:
        """The map to look-up tables in compiled code, by ranking and `all_labelled`; none where its steps are taken singly."""
        compiled, features = kernels.compiled(), self.map.compiled
        if compiled is None or features is None:
            return {}
        return {
            (ranking, all_labelled): compiled.query_map(
                features,
                query_rule(self.map, ranking, all_labelled=all_labelled),
                self._packed_codebooks,
                _curve_bounds(all_labelled),
            )
            for ranking in RANKINGS
            for all_labelled in (False, True)
        }

    def curves_of(self, features: Float32, *, all_labelled: bool = False) -> NDArray[np.int64]:
        """Return the number of the curve (q,) that turns scores into probabilities, for queries with features (q, F)."""
        untrained = FeatureParts.of(features, self.map).untrained[:, 0]
        return _curve_bounds(all_labelled).searchsorted(untrained, side="right").astype(np.int64, copy=False)

    def query_vectors(
        self,
        Q: ArrayLike,
        ranking: str | None = None,
        *,
        novelty: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Float32:
        """Return the vectors v (q, D) of queries Q (q, p); their products with decoded items are the scores of `query_tables`."""
        return self.prepare(self.query_features(Q, novelty=novelty, n_jobs=n_jobs), ranking)

    def query_features(
        self, Q: ArrayLike, *, novelty: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Float32:
        """Return the features (q, F) of queries Q (q, p); a `novelty` that is given replaces the one predicted."""
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        given = None if novelty is None else checked_novelty(novelty, len(Q))
        return self._features_of(Q, given, resolve_jobs(n_jobs))

    def _features_of(self, Q: NDArray[Any], given: Float32 | None, n_threads: int) -> Float32:
        """Return the features (q, F) of checked queries Q (q, p), with the novelty (q,) that is given or predicted."""
        if len(Q) <= QUERY_ROWS:
            features = self.features(as_float32(Q))
        else:
            features = np.empty((len(Q), self.map.n_columns + 1 + 2 * self.map.n_position), dtype=np.float32)
            self._by_queries(Q, n_threads, (features,), lambda made: (made,))
        if given is not None:
            features[:, self.map.n_columns] = given
        return features


def _curve_bounds(all_labelled: bool) -> Float32:
    """Return the bounds of novelty between the queries of one curve and of the next."""
    return _NO_BOUNDS if all_labelled else _CURVE_BOUNDS
