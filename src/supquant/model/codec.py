"""Codes that keep what an item is and where it lies: the codec of supervised quantization by default.

    X -> features -> item vectors t -> encode -> codes          codes -> decode
                  -> query vectors v -> tables_of -> (q, M, K) look-up tables; a scan adds up the score  v . t

`model/vectors.py` says what the vectors of items and queries are. `model/query_tables.py` holds the second line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes, Float32
from supquant.assignment import ItemSearch
from supquant.codec.base import check_flag, check_part, classes_from_plain, plain_classes
from supquant.codec.codebooks import MissingLabels
from supquant.codec.interface import FeatureMap
from supquant.codec.probabilities import IDENTITY, check_curve, stack_curves
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.validation import as_float32, check_vectors
from supquant.model.item_search import LabelSearch, item_search
from supquant.model.new_labels import read_new_labels
from supquant.model.query_tables import N_CURVES, SupervisedQueries
from supquant.model.vectors import FeatureParts, item_vectors
from supquant.model.words import LABELLED, N_KINDS, any_unlabelled, item_kinds


@dataclass(frozen=True, eq=False, repr=False)
class SupervisedCodec(SupervisedQueries):
    """Encodes, decodes and makes look-up tables, for codes of meaning and position.

    Parameters
    ----------
    codebooks : ndarray of shape (M, K, D), float32
        The codewords. D is r + 1 + g, the widths of m, n and z; the column of n is scaled by `NOVELTY_WEIGHT`.
    classes : ndarray of shape (L,)
        The labels; with `multilabel`, their column numbers.
    multilabel : bool
        Whether an item may have several labels.
    weights : ndarray of shape (3, 2), float32
        Weights of a squared error in meaning (m and n) and in position (z) while codes are searched: for items with known
        labels, for items that look familiar, and for items that look new.
    words : ndarray of shape (M, K), uint8
        The purpose of every codeword, such as `FREE_WORD`; see `model/words.py`.
    feature_map : MeaningMap
        The map from vectors to features.
    curves : ndarray of shape (N_CURVES, 2, k), float32
        Scores, ascending, and the probabilities of a shared label that they stand for. The first curve is that of items whose
        labels are all known. The others are those of other items, for the groups of queries from the least new to the newest.
    missing_label : str, float, int or None, default=None
        A label that means "unknown", beside None, NaN and masked entries.
    """

    codebooks: Float32
    classes: NDArray[Any]
    multilabel: bool
    weights: Float32
    words: NDArray[np.uint8]
    feature_map: FeatureMap | None
    curves: Float32 = field(default_factory=lambda: stack_curves([IDENTITY] * N_CURVES))
    missing_label: str | float | int | None = None

    TYPE: ClassVar[str] = "supervised"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("codebooks", "weights", "words", "curves")
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
        check_part("curves", self.curves, N_CURVES, 2, "k")
        for curve in self.curves:
            check_curve(curve)
        super().__post_init__()

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

    # items ---------------------------------------------------------------------------------------------------------------

    def transform(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the vectors t (n, D) of items X (n, p) without labels; codes approximate them."""
        return self._by_blocks(
            X, n_jobs, self.n_components, np.float32, lambda features, _: self.item_vectors(features)
        )

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
            items = self.item_vectors(self.map.of_labelled(x) if known.all() else self.map.of_items(x), given)
            if missing_labels == "drop":
                items[~known, : self._n_meaning] = 0
            return self.encode_vectors(items, spelled)

        return self._by_blocks(X, n_jobs, self.n_codebooks, np.uint8, encode_block, of_vectors=True)

    def _are_spelled(self, own: NDArray[np.int32]) -> bool:
        """Return whether labels (b,) are known, and none was added after the fit."""
        return bool(((own >= 0) & (own < self.map.n_trained)).all())

    def encode_vectors(self, items: Float32, known: NDArray[np.bool_]) -> Codes:
        """Return the codes (n, M) of item vectors t (n, D), searched on one thread; `known` (n,) says whose labels are known."""
        codes = np.empty((len(items), self.n_codebooks), dtype=np.uint8)
        kinds = item_kinds(items[:, self._n_meaning - 1], known)
        for kind, search in enumerate(self._searches):
            rows = kinds == kind
            if rows.all():
                return search.search(items)
            if rows.any():
                codes[rows] = search.search(items[rows])
        return codes

    @cached_property
    def _searches(self) -> list[ItemSearch | LabelSearch]:
        """The searches for codes: one for each kind of items."""
        return [
            item_search(self.codebooks, self.words, self._n_meaning, kind, weights)
            for kind, weights in enumerate(self.weights)
        ]

    def any_unlabelled(self, codes: Codes) -> bool:
        """Return whether any of codes (n, M) is that of an item without labels."""
        return any_unlabelled(self.words, codes)

    # more labels ---------------------------------------------------------------------------------------------------------

    def extended(self, X: ArrayLike, y: ArrayLike) -> SupervisedCodec:
        """Return a codec that also knows the labels `y` of rows X (n, p); see `SupervisedQuantizer.extend`."""
        if self.multilabel:
            raise InputError("labels can be added where every item has one label, not several")
        X = check_vectors(X, n_features=self.n_inputs)
        found = read_new_labels(y, len(X), self.classes)
        map_ = self.map.with_classes(as_float32(X), found)
        return replace(self, feature_map=map_, classes=np.concatenate([self.classes, found.classes]))

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
            "classes": plain_classes(self.classes),
            "multilabel": self.multilabel,
            "missing_label": self.missing_label,
        }

    def _check_steps(self) -> None:
        super()._check_steps()
        if self.multilabel != self.map.multilabel:
            raise InputError(f"multilabel is {self.multilabel}, and {self.map.multilabel} in the feature map")

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        parts: dict[str, Any] = {**arrays, **own}
        parts["classes"] = classes_from_plain(own["classes"])
        return cls(**parts)
