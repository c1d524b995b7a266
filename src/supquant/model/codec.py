"""Codes that keep what an item is and where it lies: the codec of the default model.

    X -> features -> item vectors t -> encode -> codes          codes -> decode
                  -> query vectors v -> tables_of -> (q, M, K) look-up tables; a scan adds up the score  v . t

`model/vectors.py` says what the vectors of items and queries are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32, Float64
from supquant.assignment import ItemSearch
from supquant.codec.base import (
    add_prefix,
    check_flag,
    check_part,
    classes_from_plain,
    plain_classes,
    split_prefix,
)
from supquant.codec.codebooks import CodebookCodec, MissingLabels, pack_codebooks
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.probabilities import IDENTITY, check_curve, stack_curves
from supquant.codec.queries import QUERY_ROWS, fill_blocks, pack_rows, row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import resolve_jobs
from supquant.inputs.validation import as_float32, check_vectors
from supquant.kernels import Packed, QueryKernel
from supquant.model.added_classes import read_new_labels
from supquant.model.discovery import Discovered, FoundClasses, assign, likeness_and_novelty
from supquant.model.feature_map import SupervisedMap
from supquant.model.on_device import DeviceEncoder, takes_gpu
from supquant.model.vectors import (
    FeatureParts,
    checked_novelty,
    item_novelty,
    item_positions,
    item_vectors,
    label_queries,
    position_queries,
    query_rule,
)
from supquant.model.words import (
    LABELLED,
    N_KINDS,
    LabelSearch,
    any_unlabelled,
    are_labelled,
    item_search,
)
from supquant.parallel import row_blocks, single_blas
from supquant.rows import CentredRows, rows_of

RANKINGS = ("label", "position")
"""The rankings of a `SupervisedCodec`; the first one is the default."""

NOVELTY_BINS = np.array([0.1, 0.35, 0.65], dtype=np.float32)
"""Bounds between groups of queries, as probabilities of being new. Each group has its own curve from scores to probabilities."""

N_CURVES = len(NOVELTY_BINS) + 2
"""Curves of a codec: one for items whose labels are all known, and one for each group of queries that `NOVELTY_BINS` divide."""

_CURVE_BOUNDS = np.concatenate([[-np.inf], NOVELTY_BINS]).astype(np.float32)
"""The bounds of all curves. No query is below the first bound: the first curve is for items whose labels are all known."""

_MIN_SHARE = np.float32(1e-6)
"""Lower limit of the fraction of meaning in the vector of an item, where it is a divisor."""

_NO_BOUNDS = np.empty(0, dtype=np.float32)

_FOUND = "found."
"""Prefix of the arrays of found classes in a file."""


@dataclass(frozen=True, eq=False, repr=False)
class SupervisedCodec(CodebookCodec):
    """Encodes, decodes and makes look-up tables, for codes of meaning and position.

    Parameters
    ----------
    codebooks : ndarray of shape (M, K, D), float32
        The codewords. D is r + f + g, the widths of m, E and z.
    classes : ndarray of shape (L,)
        The labels; with `multilabel`, their column numbers.
    multilabel : bool
        Whether an item may have several labels.
    weights : ndarray of shape (2, 2), float32
        Weights of a squared error in meaning (m and E) and in position (z) while codes are searched: for items with known
        labels, and for items without.
    words : ndarray of shape (M, K), uint8
        The purpose of every codeword, such as `FREE_WORD`; see `model/words.py`.
    feature_map : SupervisedMap
        The map from vectors to features.
    curves : ndarray of shape (N_CURVES, 2, k), float32
        Scores, ascending, and the probabilities of a shared label that they stand for. The first curve is that of items whose
        labels are all known. The others are those of other items, for the groups of queries from the least new to the newest.
    missing_label : str, float, int or None, default=None
        A label that means "unknown", in addition to None, NaN and masked entries.
    found : FoundClasses or None, default=None
        The classes that nobody has labelled, found among rows without labels.
    centre : ndarray of shape (p,), float64, or None, default=None
        Taken off all vectors before they become float32; None takes nothing off. `features` gets vectors without it.
    """

    codebooks: Float32
    classes: NDArray[Any]
    multilabel: bool
    weights: Float32
    words: NDArray[np.uint8]
    feature_map: FeatureMap | None
    curves: Float32 = field(default_factory=lambda: stack_curves([IDENTITY] * N_CURVES))
    missing_label: str | float | int | None = None
    found: FoundClasses | None = None
    centre: Float64 | None = None

    TYPE: ClassVar[str] = "supervised"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("codebooks", "weights", "words", "curves", "centre")
    projection: ClassVar[None] = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.feature_map is None:
            raise InputError("a supervised codec must have a feature map")
        self._check_codebooks(self._n_meaning + self.map.n_position)
        if len(self.classes) != self.map.n_labels:
            raise InputError(f"expected {self.map.n_labels} classes, got {len(self.classes)}")
        check_flag(self.multilabel, "multilabel")
        check_part("weights", self.weights, N_KINDS, 2)
        if self.words.dtype != np.uint8 or self.words.shape != self.codebooks.shape[:2]:
            raise InputError(
                f"words must be uint8 of shape {self.codebooks.shape[:2]}, got {self.words.dtype} of shape {self.words.shape}"
            )
        if not isinstance(self.missing_label, str | int | float | None):
            raise InputError(f"missing_label must be a label, got {self.missing_label!r}")
        if self.centre is not None and (
            self.centre.dtype != np.float64 or self.centre.shape != (self.n_inputs,)
        ):
            raise InputError(
                f"centre must be float64 of shape ({self.n_inputs},), got {self.centre.dtype} of shape {self.centre.shape}"
            )
        if self.centre is not None and not np.isfinite(self.centre).all():
            raise InputError("centre has values that are not finite")
        check_part("curves", self.curves, N_CURVES, 2, "k")
        for curve in self.curves:
            check_curve(curve)
        super().__post_init__()

    @property
    def map(self) -> SupervisedMap:
        """The feature map."""
        return cast("SupervisedMap", self.feature_map)

    @property
    def _n_meaning(self) -> int:
        """Width of m and E together."""
        return self.map.spelling.n_columns + self.map.n_likeness

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` knows; the first one is the default."""
        return RANKINGS

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone. A copy makes the rest again, and compiled code cannot be copied."""
        return {each.name: getattr(self, each.name) for each in fields(cast("Any", self))}

    def _vectors(self, X: ArrayLike, name: str = "X", *, finite: bool = True) -> Any:
        checked = super()._vectors(X, name, finite=finite)
        return checked if self.centre is None else CentredRows(rows_of(checked), self.centre)

    # predictions ---------------------------------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the probability of every label for vectors X (n, p): (n, L) float32."""
        return self._by_blocks(
            X,
            n_jobs,
            self.map.n_labels,
            np.float32,
            lambda x, _: self.map.probabilities(x),
            of_vectors=True,
        )

    def decision_function(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the score of every label for vectors X (n, p), which is its probability: (n, L) float32."""
        return self.predict_proba(X, n_jobs=n_jobs)

    def novelty(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the probability (n,) that vectors X (n, p) are of no known class."""
        column = slice(self.map.n_columns, self.map.n_columns + 1)
        return self._by_blocks(X, n_jobs, 1, np.float32, lambda features, _: features[:, column])[:, 0]

    def discover(self, X: ArrayLike, *, n_jobs: int | None = None) -> Discovered:
        """Return the found class of vectors X (n, p), the agreement with its members, and the novelty."""
        X = self._vectors(X)

        def of_block(x: Float32, _: object) -> tuple[NDArray[Any], ...]:
            return assign(*likeness_and_novelty(self.map, self.map.of_items(x)), self._found_centres)

        found = Discovered(
            np.empty(len(X), dtype=np.int64),
            np.empty(len(X), dtype=np.float32),
            np.empty(len(X), dtype=np.float32),
        )
        blocks = row_blocks(len(X), self.map.block_rows)
        with single_blas():
            fill_blocks(of_block, X, found, blocks, resolve_jobs(n_jobs))
        return found

    def discover_codes(self, codes: ArrayLike) -> Discovered:
        """Return the same for items of which only the codes (n, M) are there. Items with labels belong to no group."""
        meaning, likeness, place = self._parts_of(self.check_codes(codes))
        u = item_novelty(meaning, self.map)[:, 0]
        return assign(likeness, self.map.without_added(u, place), self._found_centres)

    @property
    def _found_centres(self) -> Float32:
        """The centres (k, f) of the found classes; none if there are no such classes."""
        return (
            np.zeros((0, self.map.n_likeness), dtype=np.float32) if self.found is None else self.found.centres
        )

    # items ---------------------------------------------------------------------------------------------------------------

    def transform(self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None) -> Float32:
        """Return the vectors t (n, D) of items X (n, p), which codes approximate; some or all of their labels may be known."""
        labels = None if y is None else self._read_labels(y, len(self._vectors(X)))

        def of_block(features: Float32, block: tuple[int, int]) -> Float32:
            given = None if labels is None else self.map.spelling.of_labels(labels, *block)
            return self.item_vectors(features, given)

        return self._by_blocks(X, n_jobs, self.n_components, np.float32, of_block)

    def item_vectors(self, features: Float32, labels: NDArray[np.floating] | None = None) -> Float32:
        """Return the vectors t (b, D) of items with features (b, F); spelled labels of unknown items are NaN, or None for all."""
        return item_vectors(FeatureParts.of(features, self.map), self.map, labels)

    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        return read_labels(
            y,
            n_rows=n_rows,
            classes=self.classes,
            multilabel=self.multilabel,
            missing=True,
            missing_label=self.missing_label,
        )

    def _encode(
        self, X: ArrayLike, labels: Labels | None, missing_labels: MissingLabels, n_jobs: int | None
    ) -> Codes:
        if takes_gpu(X) and self._on_device.can_encode(X, labels):
            codes: Codes = self._on_device.encode(X, labels, drop=missing_labels == "drop")
            return codes
        search = self._searches[LABELLED]

        def encode_block(x: Float32, block: tuple[int, int]) -> Codes:
            own = None if labels is None or labels.indices is None else labels.indices[slice(*block)]
            if isinstance(search, LabelSearch) and own is not None and self._are_spelled(own):
                positions = None if search.positions is None else self.map.positions(x)
                return search.codes_of(self.map.spelling.words[own], positions)
            given = None if labels is None else self.map.spelling.of_labels(labels, *block)
            known = np.zeros(len(x), dtype=bool) if given is None else ~np.isnan(given[:, 0])
            spelled = known.copy()
            if given is not None:  # no codeword means an added label
                spelled &= ~(given[:, self.map.spelling.n_columns :] == 1).any(axis=1)
            items = self.item_vectors(
                self.map.of_labelled(x) if spelled.all() else self.map.of_items(x), given
            )
            if missing_labels == "drop":
                items[~known, : self._n_meaning] = 0
            return self.encode_vectors(items, spelled)

        return self._by_blocks(X, n_jobs, self.n_codebooks, np.uint8, encode_block, of_vectors=True)

    @cached_property
    def _on_device(self) -> DeviceEncoder:
        """The codec on a GPU, for items."""
        return DeviceEncoder(self.map, self._searches, self.n_codebooks, self.centre)

    def _are_spelled(self, own: NDArray[np.int32]) -> bool:
        """Return whether labels (b,) are known, and none was added after the fit."""
        return bool(((own >= 0) & (own < self.map.n_trained)).all())

    def encode_vectors(self, items: Float32, known: NDArray[np.bool_], *, on_gpu: bool = False) -> Codes:
        """Return the codes (n, M) of item vectors t (n, D), searched on one thread; `known` (n,) says whose labels are known.

        With `on_gpu`, the search is on the GPU.
        """
        codes = np.empty((len(items), self.n_codebooks), dtype=np.uint8)
        searches = self._on_device.searches if on_gpu else self._searches
        for search, rows in zip(searches, (known, ~known), strict=True):
            if rows.all():
                return search.search(items)
            if rows.any():
                codes[rows] = search.search(items[rows])
        return codes

    @cached_property
    def _searches(self) -> list[ItemSearch | LabelSearch]:
        """The searches for codes: one for each kind of items."""
        return [
            item_search(
                self.codebooks, self.words, self.map.spelling.n_columns, self._n_meaning, kind, weights
            )
            for kind, weights in enumerate(self.weights)
        ]

    def any_unlabelled(self, codes: Codes) -> bool:
        """Return whether any of codes (n, M) is that of an item without labels."""
        return any_unlabelled(self.words, codes)

    def are_labelled(self, codes: Codes) -> NDArray[np.bool_]:
        """Return for each of codes (n, M) whether it is that of an item with labels."""
        return are_labelled(self.words, codes)

    # queries ---------------------------------------------------------------------------------------------------------

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
        if self._added_columns is None and (compiled := kernels.compiled()) is not None:
            rule = query_rule(self.map, ranking, all_labelled=all_labelled)
            return compiled.query_vectors(np.ascontiguousarray(features), rule)
        parts = FeatureParts.of(features, self.map)
        if ranking == "position":
            return position_queries(parts, self.map)
        return label_queries(parts, self.map, self._added_columns, all_labelled=all_labelled)

    @cached_property
    def _added_columns(self) -> Packed | None:
        """Directions of added labels, transposed: (g, a); None if no labels were added."""
        if self.map.n_labels == self.map.n_trained:
            return None
        return pack_rows(self.map.added_directions.T)

    @cached_property
    def from_position(self) -> Packed:
        """The metric (p, g), packed: factors of a position become those of a unit vector."""
        return pack_rows(self.map.metric)

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
        """Return what a scan needs of queries, with the same bits for a query alone and in a batch.

        Parameters
        ----------
        Q : array-like of shape (q, p)
            Vectors of queries.
        ranking : {"label", "position"} or None, default=None
            None takes ``"label"``.
        novelty : float, array-like of shape (q,) or None, default=None
            The probability that a query is of no known class; None takes the model's prediction.
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
        x = as_float32(self._vectors(Q, "Q", finite=kernel is None)[:])
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
        return self._finished(tables, ranking, curve_of)

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items like those of codes (q, M) uint8."""
        ranking, map_ = self._ranking(ranking), self.map
        meaning, likeness, place = self._parts_of(codes)
        r = meaning.shape[1]
        u = item_novelty(meaning, map_)
        known = np.clip(meaning / np.maximum(1 - u, _MIN_SHARE), 0, 1)
        added = np.zeros((len(codes), map_.n_columns - r), dtype=np.float32)
        alike = likeness / np.maximum(u, _MIN_SHARE)
        features = np.hstack([known, added, u, alike, place, map_.cosines(place)], dtype=np.float32)
        tables = self.tables_of(self.prepare(features, ranking), ranking)
        return self._finished(tables, ranking, self.curves_of(features))

    def _parts_of(self, codes: Codes) -> tuple[Float32, Float32, Float32]:
        """Return what codes (n, M) say of the meaning (n, r), the likeness (n, f) and the position (n, g) of items."""
        decoded = self.decode(codes)
        meaning, likeness, _ = np.split(decoded, [self.map.spelling.n_columns, self._n_meaning], axis=1)
        return meaning, np.ascontiguousarray(likeness), item_positions(decoded, self.map)

    def _finished(self, tables: Float32, ranking: str, curve_of: NDArray[np.int64]) -> QueryTables:
        """Return look-up tables (q, M, K) with the curve (q,) that turns the scores of each query into probabilities."""
        offsets = np.zeros(len(tables), dtype=np.float32)
        if ranking != "label":
            return QueryTables(tables, offsets, descending=True)
        return QueryTables(tables, offsets, descending=True, curve=self.curves, curve_of=curve_of)

    @cached_property
    def _query_kernels(self) -> dict[tuple[str, bool], QueryKernel]:
        """The map to look-up tables in compiled code, by ranking and `all_labelled`; empty if its steps are taken one by one."""
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
        all_labelled: bool = False,
        n_jobs: int | None = None,
    ) -> Float32:
        """Return the vectors v (q, D) of queries Q (q, p); their products with decoded items are the scores of `query_tables`."""
        if all_labelled and novelty is None:
            novelty = 0.0
        features = self.query_features(Q, novelty=novelty, n_jobs=n_jobs)
        return self.prepare(features, ranking, all_labelled=all_labelled)

    def query_features(
        self, Q: ArrayLike, *, novelty: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Float32:
        """Return the features (q, F) of queries Q (q, p); a `novelty` that is given replaces the one predicted."""
        Q = self._vectors(Q, "Q")
        given = None if novelty is None else checked_novelty(novelty, len(Q))
        return self._features_of(Q, given, resolve_jobs(n_jobs))

    def _features_of(self, Q: NDArray[Any], given: Float32 | None, n_threads: int) -> Float32:
        """Return the features (q, F) of checked queries Q (q, p), with the novelty (q,) that is given or predicted."""
        if len(Q) <= QUERY_ROWS:
            features = self.features(as_float32(Q[:]))
        else:
            features = np.empty((len(Q), self.map.n_features), dtype=np.float32)
            self._by_queries(Q, n_threads, (features,), lambda made: (made,))
        if given is not None:
            features[:, self.map.n_columns] = given
        return features

    # more labels ---------------------------------------------------------------------------------------------------------

    def extended(self, X: ArrayLike, y: ArrayLike) -> SupervisedCodec:
        """Return a codec that also knows the labels `y` of rows X (n, p); see `SupervisedQuantizer.extend`."""
        if self.multilabel:
            raise InputError("labels can be added only if every item has one label, not several")
        X = self._vectors(check_vectors(X))
        found, classes = read_new_labels(y, len(X), self.classes, self.missing_label)
        z = self.map.positions(as_float32(X[found.known]))
        return replace(self, feature_map=self.map.with_classes(z, found.take(found.known)), classes=classes)

    def extended_by_codes(self, codes: ArrayLike, y: ArrayLike) -> SupervisedCodec:
        """Return a codec that also knows the labels `y` of items of which only the codes (n, M) are there."""
        if self.multilabel:
            raise InputError("labels can be added only if every item has one label, not several")
        codes = self.check_codes(codes)
        found, classes = read_new_labels(y, len(codes), self.classes, self.missing_label)
        z = self._parts_of(codes[found.known])[2]
        return replace(self, feature_map=self.map.with_classes(z, found.take(found.known)), classes=classes)

    def reads_codes_of(self, other: object) -> bool:
        """Return whether codes of another codec mean the same under this one: codebooks and words are equal."""
        return (
            isinstance(other, SupervisedCodec)
            and np.array_equal(self.codebooks, other.codebooks)
            and np.array_equal(self.words, other.words)
        )

    # files ---------------------------------------------------------------------------------------------------------------

    def _stored_settings(self) -> dict[str, Any]:
        return {
            "type": self.TYPE,
            "classes": plain_classes(self.classes),
            "multilabel": self.multilabel,
            "missing_label": self.missing_label,
        }

    def _stored_arrays(self) -> dict[str, NDArray[Any]]:
        own = {} if self.found is None else add_prefix(_FOUND, self.found.arrays())
        return super()._stored_arrays() | own

    def _check_steps(self) -> None:
        super()._check_steps()
        if self.multilabel != self.map.multilabel:
            raise InputError(f"multilabel is {self.multilabel}, and {self.map.multilabel} in the feature map")

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        of_found, arrays = split_prefix(_FOUND, arrays)
        parts: dict[str, Any] = {**arrays, **own}
        parts["classes"] = classes_from_plain(own["classes"])
        if of_found:
            n_likeness = parts["feature_map"].n_likeness
            parts["found"] = FoundClasses.from_arrays(of_found, parts["classes"], n_likeness)
        return cls(**parts)


def _curve_bounds(all_labelled: bool) -> Float32:
    """Return the bounds of novelty between the queries of one curve and of the next."""
    return _NO_BOUNDS if all_labelled else _CURVE_BOUNDS
