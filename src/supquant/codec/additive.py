"""Codes that are sums of codewords: the codec of quantizers.

    X -> features -> project -> encode -> codes            codes -> decode
                  -> prepare -> tables_of -> (q, M, K) look-up tables; a scan sums their entries over the codebooks of a code

Two rankings share the codes. Under ``"euclidean"`` a query is prepared by projecting it, and its tables sum to squared distances.
Under ``"label"`` its label vector is prepared, and its tables sum to products with the label vectors ``W's`` of codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes, Float32
from supquant.assignment import CodeSearch
from supquant.codec.base import check_flag, check_part, classes_from_plain, plain_classes
from supquant.codec.codebooks import CodebookCodec, MissingLabels, pack_codebooks
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.probabilities import check_curve, label_probabilities, label_weights
from supquant.codec.queries import pack_rows, row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_choice, check_number
from supquant.inputs.validation import as_float32, check_vectors
from supquant.kernels import Packed

Ranking = Literal["label", "euclidean"]

RANKINGS: tuple[Ranking, ...] = ("label", "euclidean")
"""The rankings of an `AdditiveCodec`; one learned without labels has only the last."""

_SETTINGS = ("multilabel", "constant", "quantization_weight", "constraint_weight", "independent")
"""Names of the attributes that a file holds as JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveCodec(CodebookCodec):
    """Encodes, decodes and makes look-up tables.

    Parameters
    ----------
    codebooks : ndarray of shape (M, K, r), float32
        The codewords.
    projection : ndarray of shape (d, r), float32, or None, default=None
        From features to the space of the codebooks; None if the codebooks are in the space of the features.
    classifier : ndarray of shape (r, L), float32, or None, default=None
        W, from decoded vectors to label vectors; None without labels.
    classes : ndarray of shape (L,) or None, default=None
        The labels; with `multilabel`, their column numbers.
    multilabel : bool, default=False
        Whether an item may have several labels.
    constant : float, default=0.0
        Eps, the inter-dictionary product of every code.
    quantization_weight : float, default=1.0
        Gamma, the weight of the quantization error in the cost of a code.
    constraint_weight : float, default=0.0
        Mu, the weight of the deviation of the inter-dictionary product from eps.
    seeds : ndarray of shape (s, M), uint8, or None, default=None
        Codes of training rows from which the search for a code of more than two codebooks may start.
    independent : bool, default=False
        Whether codebooks have disjoint supports, so that each codeword is chosen by itself.
    feature_map : FeatureMap or None, default=None
        From vectors to features; None uses the vectors themselves.
    scaling : ndarray of shape (2, L), float32, or None, default=None
        Slopes and shifts that turn scores ``W'P'x`` into logits; None if codes are ranked by distance alone.
    curve : ndarray of shape (2, k), float32, or None, default=None
        Products of label vectors, ascending, and the probabilities of a shared label that they stand for. It is given together
        with `scaling`.
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
    scaling: Float32 | None = None
    curve: Float32 | None = None

    TYPE: ClassVar[str] = "additive"
    _ARRAYS: ClassVar[tuple[str, ...]] = (
        "codebooks",
        "projection",
        "classifier",
        "seeds",
        "scaling",
        "curve",
    )

    def __post_init__(self) -> None:
        self._check_codebooks("r")
        if self.projection is not None:
            check_part("projection", self.projection, "d", self.n_components)
        if self.classifier is not None:
            check_part("classifier", self.classifier, self.n_components, "L")
        if (self.scaling is None) != (self.curve is None):
            raise InputError("a codec must have both a scaling and a curve, or neither")
        if self.scaling is not None and self.curve is not None:
            if self.classifier is None or self.classes is None:
                raise InputError("a codec with a scaling must have a classifier and classes")
            check_part("classifier", self.classifier, self.n_components, len(self.classes))
            check_part("scaling", self.scaling, 2, len(self.classes))
            check_curve(self.curve)
        for name in _SETTINGS:
            check = check_flag if isinstance(getattr(AdditiveCodec, name), bool) else check_number
            check(getattr(self, name), name)
        if self.seeds is not None and (self.seeds.dtype != np.uint8 or not len(self.check_codes(self.seeds))):
            raise InputError(f"seeds must be codes (s, M) of uint8, got {self.seeds.dtype}")
        super().__post_init__()

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` takes; the first one is the default."""
        return RANKINGS if self.scaling is not None else RANKINGS[-1:]

    # the steps of a query --------------------------------------------------------------------------------------------

    def prepare(self, features: Float32, ranking: str | None = None) -> Float32:
        """Return what tables are computed from, for queries with features (b, d): projections (b, r) or label vectors (b, L)."""
        if self._ranking(ranking) == "euclidean":
            return self.project(features)
        return self.query_vectors(row_products(features, self._packed_scores))

    def query_vectors(self, scores: Float32) -> Float32:
        """Return the label vectors v (b, L) of queries with scores (b, L)."""
        return label_weights(self._probabilities(scores), multilabel=self.multilabel)

    def _probabilities(self, scores: Float32) -> Float32:
        """Return the probability of every label (b, L) for vectors with scores (b, L)."""
        if self.scaling is None:
            raise InputError("this codec was learned without labels: it ranks by distance alone")
        slopes, shifts = self.scaling
        return label_probabilities(scores * slopes + shifts, multilabel=self.multilabel)

    def tables_of(self, prepared: Float32, ranking: str | None = None) -> Float32:
        """Return the look-up tables (q, M, K) of prepared queries.

        ``"euclidean"``, for projections (q, r): the entry of a codeword c is ``|c|^2 - 2 q . c``. The sum over a code is the
        squared distance to the decoded vector, less ``|q|^2 + eps``, which is the same for all codes (equation 5 of the paper).
        ``"label"``, for label vectors v (q, L): the entry is ``-v . W'c``.
        """
        if self._ranking(ranking) == "label":
            tables = row_products(prepared, self._packed_meanings)
        else:
            tables = row_products(prepared, self._packed_codebooks)
            tables *= 2
            tables += self._squared_norms
        return tables.reshape(len(prepared), self.n_codebooks, self.n_codewords)

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items like those of codes (q, M) uint8.

        Examples
        --------
        >>> codec = AdditiveCodec(np.array([[[0], [1]]], dtype=np.float32))
        >>> codec.item_tables(np.array([[1]], dtype=np.uint8)).tables
        array([[[ 0., -1.]]], dtype=float32)
        """
        decoded, ranking = self.decode(codes), self._ranking(ranking)
        if ranking == "euclidean":
            return QueryTables(self.tables_of(decoded, ranking), self.offsets_of(decoded))
        vectors = self.query_vectors(decoded @ self._learned_classifier())
        offsets = np.zeros(len(codes), dtype=np.float32)
        return QueryTables(self.tables_of(vectors, ranking), offsets, descending=True, curve=self.curve)

    def offsets_of(self, projected: Float32) -> Float32:
        """Return ``|q|^2 + eps`` (q,) of projections (q, r): a sum of Euclidean tables plus this is a squared distance."""
        squares: Float32 = np.einsum("ij,ij->i", projected, projected) + np.float32(self.constant)
        return squares

    @cached_property
    def _squared_norms(self) -> Float32:
        """``|c|^2`` (M K,) of all codewords."""
        flat = self.codebooks.reshape(-1, self.n_components)
        norms: Float32 = np.einsum("ij,ij->i", flat, flat)
        return norms

    @cached_property
    def _packed_codebooks(self) -> Packed:
        """``-c`` (M K, r) of all codewords."""
        return pack_codebooks(self.codebooks)

    @cached_property
    def _packed_meanings(self) -> Packed:
        """``-W'c`` (M K, L) of all codewords."""
        flat = self.codebooks.reshape(-1, self.n_components)
        return pack_rows(-(flat @ self._learned_classifier()))

    @cached_property
    def _packed_scores(self) -> Packed:
        """W'P' (L, d), from features to scores."""
        classifier = self._learned_classifier()
        return pack_rows((classifier if self.projection is None else self.projection @ classifier).T)

    # from vectors ------------------------------------------------------------------------------------------------------

    def transform(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the projections (n, r) float32 of vectors X (n, p) into the space of the codebooks.

        Sums are float64. The last bit of a float32 sum would depend on the position of the row.
        """

        def project(features: Float32, _: object) -> NDArray[Any]:
            return features if self.projection is None else features.astype(np.float64) @ self.projection

        return self._by_blocks(X, n_jobs, self.n_components, np.float32, project)

    def query_tables(
        self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p); a query gets the same bits alone and in a batch."""
        ranking = self._ranking(ranking)
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        tables = np.empty((len(Q), self.n_codebooks, self.n_codewords), dtype=np.float32)
        offsets = np.zeros(len(Q), dtype=np.float32)
        if ranking == "label":
            self._by_queries(
                Q, n_jobs, (tables,), lambda x: (self.tables_of(self.prepare(x, ranking), ranking),)
            )
            return QueryTables(tables, offsets, descending=True, curve=self.curve)

        def tables_and_offsets(features: Float32) -> tuple[Float32, Float32]:
            projected = self.project(features)
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is refused below, or by the scan
                return self.tables_of(projected, ranking), self.offsets_of(projected)

        self._by_queries(Q, n_jobs, (tables, offsets), tables_and_offsets)
        if not np.isfinite(offsets).all():
            row = int(np.argmin(np.isfinite(offsets)))
            raise InputError(f"row {row} of Q is too far away: its squared distances overflow float32")
        return QueryTables(tables, offsets)

    def decision_function(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the score (n, L) float32 of every label for vectors X (n, p): ``W'P'x``."""
        classifier = self._learned_classifier()
        return self._by_blocks(
            X,
            n_jobs,
            classifier.shape[1],
            np.float32,
            lambda features, _: self.project(features) @ classifier,
        )

    def predict_proba(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the probability of every label for vectors X (n, p): (n, L) float32."""
        return self._probabilities(self.decision_function(X, n_jobs=n_jobs))

    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        if self.classes is None:
            raise InputError("this codec was learned without labels: encode its items without y")
        return read_labels(y, n_rows=n_rows, classes=self.classes, multilabel=self.multilabel)

    def _encode(
        self, X: ArrayLike, labels: Labels | None, missing_labels: MissingLabels, n_jobs: int | None
    ) -> Codes:
        search = self._search(labels is not None or missing_labels == "predict")

        def encode_block(features: Float32, block: tuple[int, int]) -> Codes:
            projected = self.project(features)
            if self.independent:
                nearest: Codes = self.tables_of(projected, "euclidean").argmin(axis=2).astype(np.uint8)
                return nearest
            y = None if labels is None else labels.dense(*block)
            return search.search(as_float32(search.target(projected, y)))

        return self._by_blocks(X, n_jobs, self.n_codebooks, np.uint8, encode_block)

    def encode_projected(self, Z: object, *, missing_labels: MissingLabels = "predict") -> Codes:
        """Encode projections Z (n, r), which `transform` returned, without labels and on one thread: codes (n, M) uint8."""
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        projected = as_float32(check_vectors(Z, n_features=self.n_components, min_rows=0))
        search = self._search(missing_labels == "predict")
        return search.search(as_float32(search.target(projected, None)))

    def mean_cost(self, features: Float32) -> float:
        """Return the mean cost of the codes found for features (n, d) without labels: the lower, the better the search."""
        search = self._search(labelled=True)
        targets = search.target(self.project(features), None)
        return float(search.costs(targets, search.search(as_float32(targets))).mean())

    # files --------------------------------------------------------------------------------------------------------------

    def _stored_settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _SETTINGS}
        own["classes"] = None if self.classes is None else plain_classes(self.classes)
        return own

    def _check_steps(self) -> None:
        for name in self._ARRAYS:
            if (array := getattr(self, name)) is not None and not np.isfinite(array).all():
                raise InputError(f"{name} holds NaN or infinity")
        super()._check_steps()

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        classes = own.pop("classes")
        parts: dict[str, Any] = {**arrays, **own}
        return cls(**parts, classes=None if classes is None else classes_from_plain(classes))

    # parts ----------------------------------------------------------------------------------------------------------------

    def _search(self, labelled: bool) -> CodeSearch:
        """Return the search for codes, with labels in its cost or without."""
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
        """Return a basis (r, r') of the space of projected vectors; None if r' is more than half of r.

        The cost of a codeword depends only on its products with targets. All targets are in this space, as W is. A projection
        that was fitted to few codewords spans few dimensions.
        """
        if self.projection is None:
            return None
        values, vectors = np.linalg.eigh(self.projection.T.astype(np.float64) @ self.projection)
        kept = vectors[:, values > 1e-12 * values[-1]]
        return kept.astype(np.float32) if 2 * kept.shape[1] <= len(kept) else None

    def _learned_classifier(self) -> Float32:
        if self.classifier is None:
            raise InputError("this codec was learned without labels and cannot predict any")
        return self.classifier
