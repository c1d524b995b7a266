"""Codes that are sums of codewords: what every quantizer ends in.

X -> features -> project -> encode -> codes            codes -> decode
              -> prepare -> tables_of -> (q, M, K) look-up tables, summed over the codebooks of a code by a scan

Two rankings share the codes. ``"euclidean"`` prepares a query by projecting it, and its tables sum to squared distances;
``"semantic"`` prepares its label vector, and the tables sum to products with the label vectors ``W's`` of the codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.assignment import CodeSearch
from supquant.codec.base import (
    MOST_CODEBOOKS,
    ProjectingCodec,
    check_part,
    classes_from_plain,
    plain_classes,
)
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.meaning import Meaning
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.labels import Labels, read_labels
from supquant.validation import as_float32, check_choice, check_integer, check_vectors, resolve_jobs

MissingLabels = Literal["predict", "drop"]
Ranking = Literal["semantic", "euclidean"]

RANKINGS: tuple[Ranking, ...] = ("semantic", "euclidean")
"""The rankings of an `AdditiveCodec` that knows what its codes mean; without a meaning it has the last one."""

_MEANING = "meaning."
"""Prefix of a meaning's arrays in a file."""

_SETTINGS = ("multilabel", "constant", "quantization_weight", "constraint_weight", "independent")


@dataclass(frozen=True, eq=False)
class AdditiveCodec(ProjectingCodec):
    """Encodes, decodes and makes look-up tables.

    Parameters
    ----------
    codebooks : (M, K, r) float32
    projection : (d, r) float32 or None
        None where the codebooks lie in the space of the features.
    classifier : (r, E) float32 or None
        From decoded vectors to label vectors: L labels, and what features say beyond them. None where no labels were
        learned from.
    classes : (L,) array or None
        The labels; with `multilabel`, their column numbers.
    multilabel : bool
    constant : float
        Eps, the inter-dictionary product of every code.
    quantization_weight, constraint_weight : float
        Gamma and mu, which weigh the parts of an encoding's cost.
    seeds : (s, M) uint8 or None
        Codes of training rows that an encoding of more than two codebooks may start from.
    independent : bool
        Whether codebooks have disjoint supports, so that each codeword is chosen by itself.
    feature_map : FeatureMap or None
    meaning : Meaning or None
        What label vectors say; None where codes are ranked by distance alone.
    """

    codebooks: Float32
    projection: Float32 | None = None
    classifier: Float32 | None = None
    classes: NDArray[Any] | None = None
    multilabel: bool = False
    constant: float = 0.0
    quantization_weight: float = 1.0
    constraint_weight: float = 0.0
    seeds: Codes | None = None
    independent: bool = False
    feature_map: FeatureMap | None = None
    meaning: Meaning | None = None

    TYPE: ClassVar[str] = "additive"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("codebooks", "projection", "classifier", "seeds")

    def __post_init__(self) -> None:
        check_part("codebooks", self.codebooks, "M", "K", "r")
        check_integer(self.n_codebooks, "the number of codebooks", 1, MOST_CODEBOOKS)
        check_integer(self.n_codewords, "the number of codewords", 1, 256)
        if self.projection is not None:
            check_part("projection", self.projection, "d", self.n_components)
        if self.classifier is not None:
            check_part("classifier", self.classifier, self.n_components, "L")
        if self.meaning is not None and (self.classifier is None or self.classes is None):
            raise InputError("a codec with a meaning must have a classifier and classes")
        super().__post_init__()

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        return int(self.codebooks.shape[0])

    @property
    def n_codewords(self) -> int:
        """K."""
        return int(self.codebooks.shape[1])

    @property
    def n_components(self) -> int:
        """r, the width of projected and decoded vectors."""
        return int(self.codebooks.shape[2])

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` knows; the first one is the default."""
        return RANKINGS if self.meaning is not None else RANKINGS[-1:]

    # the steps of a query --------------------------------------------------------------------------------------------

    def prepare(self, features: Float32, ranking: str | None = None) -> Float32:
        """Turn features (b, d) of queries into what tables are made of: projections (b, r), or label vectors (b, E)."""
        if self._ranking(ranking) == "euclidean":
            return self.project(features)
        meaning, n_labels = self._known_meaning(), self._n_labels
        scores = features if meaning.scaling is None else row_products(features, self._score_rows)
        return meaning.query_vectors(scores, n_labels, multilabel=self.multilabel)

    def tables_of(self, prepared: Float32, ranking: str | None = None) -> Float32:
        """Make look-up tables (q, M, K) for prepared queries.

        ``"euclidean"``, of projections (q, r): ``|c|^2 - 2 q . c``, whose sum over a code's codewords is the squared distance
        to the decoded vector less ``|q|^2`` and less eps, which are the same for all codes (equation 5 of the paper).
        ``"semantic"``, of label vectors v (q, E): ``-v . W'c``.
        """
        if self._ranking(ranking) == "semantic":
            tables = row_products(prepared, self._meanings)
        else:
            tables = row_products(prepared, self.codebooks.reshape(-1, self.n_components))
            tables *= -2
            tables += self._squared_norms
        return tables.reshape(len(prepared), self.n_codebooks, self.n_codewords)

    def offsets_of(self, projected: Float32) -> Float32:
        """Give what a sum of Euclidean tables lacks to be a squared distance, (q,): ``|q|^2 + eps``."""
        squares: Float32 = np.einsum("ij,ij->i", projected, projected) + np.float32(self.constant)
        return squares

    @cached_property
    def _squared_norms(self) -> Float32:
        """``|c|^2`` of every codeword, (MK,)."""
        flat = self.codebooks.reshape(-1, self.n_components)
        norms: Float32 = np.einsum("ij,ij->i", flat, flat)
        return norms

    @cached_property
    def _meanings(self) -> Float32:
        """``-W'c`` of every codeword, (MK, E)."""
        flat = self.codebooks.reshape(-1, self.n_components)
        return np.asarray(-(flat @ self._learned_classifier()))

    @cached_property
    def _score_rows(self) -> Float32:
        """W'P', (L, d): from features to scores."""
        classifier = self._learned_classifier()
        return np.ascontiguousarray(
            (classifier if self.projection is None else self.projection @ classifier).T
        )

    # whole ways --------------------------------------------------------------------------------------------------------

    def transform(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Project vectors X (n, p) into the space of the codebooks, (n, r) float32.

        Sums are of double precision: those of single precision tell by their last bit where a row stood among others.
        """

        def project(features: Float32, _: object) -> NDArray[Any]:
            return features if self.projection is None else features.astype(np.float64) @ self.projection

        return self._by_blocks(X, n_jobs, self.n_components, np.float32, project)

    def query_tables(
        self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Make what a scan needs of queries Q (q, p): the same bits for a query alone and in a batch."""
        ranking = self._ranking(ranking)
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        tables = np.empty((len(Q), self.n_codebooks, self.n_codewords), dtype=np.float32)
        offsets = np.zeros(len(Q), dtype=np.float32)
        if ranking == "semantic":
            self._by_queries(
                Q, n_jobs, (tables,), lambda x: (self.tables_of(self.prepare(x, ranking), ranking),)
            )
            return QueryTables(tables, offsets, descending=True, curve=self._known_meaning().curve)

        def made_of(features: Float32) -> tuple[Float32, Float32]:
            projected = self.project(features)
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # what overflows is refused below, or by the scan
                return self.tables_of(projected, ranking), self.offsets_of(projected)

        self._by_queries(Q, n_jobs, (tables, offsets), made_of)
        if not np.isfinite(offsets).all():
            row = int(np.argmin(np.isfinite(offsets)))
            raise InputError(f"row {row} of Q lies too far out: its squared distances are beyond float32")
        return QueryTables(tables, offsets)

    def tables(self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None) -> Float32:
        """Make look-up tables (q, M, K) float32 for queries Q (q, p); smaller sums are nearer."""
        return self.query_tables(Q, ranking, n_jobs=n_jobs).tables

    def rank(
        self, Q: object, codes: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Rank all codes (n, M) for every query Q (q, p): row numbers (q, n), nearest first, ties in order of insertion.

        The order is that of float32 tables summed in codebook order.
        """
        checked = self.check_codes(codes)
        tables = self.tables(Q, ranking, n_jobs=n_jobs)
        sums = kernels.active().table_sums(checked, tables, n_threads=resolve_jobs(n_jobs))
        return sums.argsort(axis=1, kind="stable")

    def decision_function(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Score every label for vectors X (n, p): ``W'P'x``, or the probabilities among their features; (n, L) float32."""
        classifier = self._learned_classifier()

        def scores(features: Float32, _: tuple[int, int]) -> Float32:
            if self._features_are_labels:
                return features[:, : self._n_labels]
            return self.project(features) @ classifier

        width = self._n_labels if self._features_are_labels else classifier.shape[1]
        return self._by_blocks(X, n_jobs, width, np.float32, scores)

    def predict_proba(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Give the probability of every label for vectors X (n, p): (n, L) float32."""
        meaning, L = self._known_meaning(), self._n_labels
        scores = self.decision_function(X, n_jobs=n_jobs)
        return meaning.probabilities(scores, L, multilabel=self.multilabel)

    def encode_items(
        self,
        X: object,
        y: object = None,
        *,
        missing_labels: MissingLabels = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8, heeding labels `y` of the kind it was learned from.

        Without `y` it is `encode`, which takes labels that were read already.
        """
        if y is None:
            return self.encode(X, missing_labels=missing_labels, n_jobs=n_jobs)
        if self.classes is None:
            raise InputError("this codec was learned without labels: encode its items without y")
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        labels = read_labels(y, n_rows=len(X), classes=self.classes, multilabel=self.multilabel)
        return self.encode(X, labels, missing_labels=missing_labels, n_jobs=n_jobs)

    def encode(
        self,
        X: object,
        labels: Labels | None = None,
        *,
        missing_labels: MissingLabels = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8.

        Without labels, ``missing_labels="predict"`` puts the predicted label vector in their place, and ``"drop"`` looks
        at the quantization error alone.
        """
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        return self._by_blocks(
            X, n_jobs, self.n_codebooks, np.uint8, self._block_encoder(labels, missing_labels)
        )

    def encode_features(self, features: Float32, *, missing_labels: MissingLabels = "predict") -> Codes:
        """Give features (n, d) float32 their codes (n, M), without labels and on one thread."""
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        return self._block_encoder(None, missing_labels)(features, (0, len(features)))

    def encode_projected(self, Z: object, *, missing_labels: MissingLabels = "predict") -> Codes:
        """Give vectors that `transform` made, (n, r), their codes (n, M), without labels and on one thread.

        Labels are predicted from them, which a codec whose features are label vectors refuses.
        """
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        if self._features_are_labels and missing_labels == "predict":
            raise InputError(
                "projections do not hold the labels that this codec's features predict: encode X"
            )
        projected = as_float32(check_vectors(Z, n_features=self.n_components, min_rows=0))
        search = self._search(missing_labels == "predict")
        return search.search(as_float32(search.target(projected, None)))

    def mean_cost(self, features: Float32) -> float:
        """Give the mean cost of the codes found for features (n, d) without labels: lower is a better search."""
        search = self._search(labelled=True)
        targets = search.target(self.project(features), self._item_vectors(features, None))
        return float(search.costs(targets, search.search(as_float32(targets))).mean())

    def _block_encoder(
        self, labels: Labels | None, missing_labels: MissingLabels
    ) -> Callable[[Float32, tuple[int, int]], Codes]:
        search = self._search(labels is not None or missing_labels == "predict")

        def encode_block(features: Float32, block: tuple[int, int]) -> Codes:
            projected = self.project(features)
            if self.independent:
                nearest: Codes = self.tables_of(projected, "euclidean").argmin(axis=2).astype(np.uint8)
                return nearest
            y = self._item_vectors(features, None if labels is None else labels.dense(*block))
            return search.search(as_float32(search.target(projected, y)))

        return encode_block

    def _item_vectors(
        self, features: Float32, labels: NDArray[np.float64] | None
    ) -> NDArray[np.floating] | None:
        """Give the label vectors of items, from labels (b, L) or features (b, d); None: their scores are to be taken."""
        if not self._features_are_labels:
            return labels
        assert self.meaning is not None
        assert self.meaning.shares is not None
        if labels is None:
            return features * self.meaning.shares
        return label_columns(labels, len(self.meaning.shares))

    def decode(self, codes: object) -> Float32:
        """Give the vectors (n, r) that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

    # files --------------------------------------------------------------------------------------------------------------

    def _stored_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = super()._stored_arrays()
        if self.meaning is not None:
            arrays |= {_MEANING + name: value for name, value in self.meaning.arrays().items()}
        return arrays

    def _stored_settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _SETTINGS}
        own["classes"] = None if self.classes is None else plain_classes(self.classes)
        return own

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        classes = own.pop("classes")
        meaning = {
            name.removeprefix(_MEANING): arrays.pop(name)
            for name in list(arrays)
            if name.startswith(_MEANING)
        }
        parts: dict[str, Any] = {
            **arrays,
            **own,
            "meaning": Meaning.from_arrays(meaning) if meaning else None,
        }
        return cls(**parts, classes=None if classes is None else classes_from_plain(classes))

    # parts ----------------------------------------------------------------------------------------------------------------

    def _search(self, labelled: bool) -> CodeSearch:
        classifier = self.classifier if labelled else None
        return CodeSearch(
            self.codebooks.astype(np.float64),
            None if classifier is None else classifier.astype(np.float64),
            self.quantization_weight,
            self.constraint_weight,
            self.constant,
            self.seeds,
            self._target_basis(),
        )

    def _target_basis(self) -> Float32 | None:
        """Give a basis (r, r') of the space of projected vectors where it is small: costs need no more of a codeword.

        W lies in it too, so it holds every target. A projection fitted to few codewords spans few dimensions.
        """
        if self.projection is None:
            return None
        values, vectors = np.linalg.eigh(self.projection.T.astype(np.float64) @ self.projection)
        kept = vectors[:, values > 1e-12 * values[-1]]
        return kept.astype(np.float32) if 2 * kept.shape[1] <= len(kept) else None

    @property
    def _features_are_labels(self) -> bool:
        """Whether features are label vectors already."""
        return self.meaning is not None and self.meaning.shares is not None

    @property
    def _n_labels(self) -> int:
        assert self.classes is not None
        return len(self.classes)

    def _known_meaning(self) -> Meaning:
        if self.meaning is None:
            raise InputError("this codec does not know what its codes mean: it ranks by distance alone")
        return self.meaning

    def _learned_classifier(self) -> Float32:
        if self.classifier is None:
            raise InputError("this codec was learned without labels and predicts none")
        return self.classifier


def label_columns(labels: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Give the label vectors (n, E) of items whose labels (n, L) are known: nothing beyond the labels counts.

    Examples
    --------
    >>> label_columns(np.eye(2), 3)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    return np.pad(labels, ((0, 0), (0, width - labels.shape[1])))


def spread_codes(codes: Codes, limit: int) -> Codes:
    """Give at most `limit` distinct ones (s, M) of codes (n, M), spread evenly over the rows in sorted order."""
    distinct, counts = kernels.active().distinct(codes)
    ranks = np.linspace(0, len(codes) - 1, min(limit, len(codes))).round()
    return distinct[np.unique(np.searchsorted(np.cumsum(counts), ranks, side="right"))]
