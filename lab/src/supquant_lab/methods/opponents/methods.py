"""Report: what a user would take in place of supquant, each a map of vectors and a way to store what it gives.

A `grid` has the values of parameters that a validation on labelled training rows tries, and `weights` those of the weight of the
cosine, which needs no further fit; see `supquant_lab.methods.opponents.validation`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances_argmin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from supquant.arrays import Array
from supquant.errors import InputError
from supquant_lab.methods.interface import Fitted, Method, Steps
from supquant_lab.methods.opponents.clusters import semi_supervised_centres
from supquant_lab.methods.opponents.code_alignment import AlignedCodes
from supquant_lab.methods.opponents.maps import (
    LinearHead,
    RotatedComponents,
    UnitLength,
    WithinClass,
    label_numbers,
)
from supquant_lab.methods.opponents.stores import (
    AdditiveCodes,
    EightBits,
    Floats,
    ProductCodes,
    RaBitQ,
    Reranked,
    Signs,
    Store,
)

LR_ITERATIONS = 200
"""Maximum number of L-BFGS iterations of a logistic regression."""

Grid = Mapping[str, Sequence[Any]]


class MappedItems(Fitted):
    """Items are what a store makes of mapped vectors."""

    def __init__(self, mapped: UnitLength, store: Store, **record: Any) -> None:
        super().__init__(**record)
        self._mapped = mapped
        self._store = store

    def encoded(self, X: Array) -> Any:
        """Return the items of vectors."""
        return self._store.encoded(self._mapped(X))

    def steps(self, items: Any, ranking: str) -> Steps:
        """Return the steps: the mapped query, and the scores of the store."""
        del ranking
        return {"features": self._mapped, "scan": self._store.score(items)}

    def bytes_per_item(self, items: Any) -> float:
        """Return the bytes of the store."""
        return self._store.bytes_per_item(items)


class Opponent(Method):
    """A map that learns from labelled rows, and a store that learns from all rows.

    Attributes
    ----------
    defaults : mapping
        Parameters, and their values if nothing is tuned.
    weights : sequence of float
        Values of the parameter `weight` that a validation tries; none if it is no parameter.
    tuned_as : type or None
        The method whose tuning this one takes over, because they differ in the store alone.
    """

    rankings = ("cosine",)
    defaults: ClassVar[Mapping[str, Any]] = {}
    weights: ClassVar[Sequence[float]] = ()
    tuned_as: ClassVar[type[Opponent] | None] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The defaults, and what was given."""
        given = self.settings.parameters
        for name in given:
            if name not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                raise InputError(f"the method {self.name} has no parameter {name!r}; it has {known}")
        return {**self.defaults, **given}

    def map(self, bits: int) -> UnitLength:
        """Return the map before its fit."""
        del bits
        return UnitLength()

    def store(self, bits: int) -> Store:
        """Return the store before its fit."""
        del bits
        return Floats()

    def fitted(self, bits: int) -> Fitted:
        """Fit the map and the store."""
        began, parameters = time.perf_counter(), self.parameters
        mapped = self.map(bits).fit(self.training)
        store = self.store(bits).fit(mapped(self.training.every_row))
        return MappedItems(mapped, store, parameters=parameters, seconds=time.perf_counter() - began)

    def _product_codes(self, bits: int, name: str = "pq", **parameters: Any) -> Store:
        return ProductCodes(name, bits, self.settings.seed, self.settings.n_jobs, parameters)


# labels ------------------------------------------------------------------------------------------------------------------


class LabelledItems(NamedTuple):
    """Labels, as numbers (n,) or as probabilities (n, L), and what is stored of vectors."""

    labels: Array
    vectors: Any


class LabelsAndVectors(Fitted):
    """Items have a label, or the probabilities of all labels, and a vector.

    The score is the probability that the query has the label of the item, plus the weighted cosine.
    """

    def __init__(
        self,
        probabilities: Callable[[Array], Array],
        numbers: Array,
        X: Array,
        store: Store,
        *,
        soft: bool,
        weight: float,
        **record: Any,
    ) -> None:
        super().__init__(**record)
        self._probabilities = probabilities
        self._known = numbers, X
        self._store = store
        self._soft = soft
        self._weight = weight
        self._n_labels = probabilities(X[:1]).shape[1]

    def weighted(self, weight: float) -> LabelsAndVectors:
        """Return the same fit with another weight of the cosine."""
        other = copy(self)
        other._weight = weight
        other.parameters = {**self.parameters, "weight": weight}
        return other

    def learned(self) -> LabelledItems:
        """Return the labels of the training rows, and what is stored of their vectors."""
        numbers, X = self._known
        return LabelledItems(numbers, self._store.encoded(UnitLength()(X)))

    def encoded(self, X: Array) -> LabelledItems:
        """Return the probabilities of all labels, or the most probable label, and what is stored of the vectors."""
        p = self._probabilities(X)
        return LabelledItems(p if self._soft else p.argmax(axis=1), self._store.encoded(UnitLength()(X)))

    def steps(self, items: LabelledItems, ranking: str) -> Steps:
        """Return the steps: the probabilities of the query and its vector, and the sums."""
        del ranking
        by_vector, labels = self._store.score(items.vectors), items.labels

        def scan(query: Any) -> Array:
            p, vectors = query
            shared = p[:, labels] if labels.ndim == 1 else p @ labels.T  # (q, n)
            scores: Array = self._weight * by_vector(vectors) - shared
            return scores

        def encode(queries: Array) -> Any:
            return self._probabilities(queries), UnitLength()(queries)

        return {"encode": encode, "scan": scan}

    def bytes_per_item(self, items: LabelledItems) -> float:
        """Return the bytes of the label or the probabilities, and those of the store."""
        of_label = label_bytes(self._n_labels) if items.labels.ndim == 1 else 4 * self._n_labels
        return of_label + self._store.bytes_per_item(items.vectors)


def label_bytes(n_labels: int) -> int:
    """Return the bytes of the number of a label.

    Examples
    --------
    >>> label_bytes(256), label_bytes(257)
    (1, 2)
    """
    return 1 if n_labels <= 256 else 2


class LabelCosine(Opponent):
    """`label-cosine`: a logistic regression; items are labels, or their probabilities if `soft`, and vectors in floats."""

    name = "label-cosine"
    rankings = ("label",)
    defaults: ClassVar[Mapping[str, Any]] = {"C": 0.1, "soft": True, "weight": 1.0}
    grid: ClassVar[Grid] = {"C": (0.01, 0.1, 1.0), "soft": (True, False)}
    weights = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

    def fitted(self, bits: int) -> Fitted:
        """Fit the classifier and the store."""
        began, parameters = time.perf_counter(), self.parameters
        classes, numbers = label_numbers(self.training)
        regression = LogisticRegression(C=parameters["C"], max_iter=LR_ITERATIONS, tol=1e-3)
        classifier = make_pipeline(StandardScaler(), regression)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # a weak penalty may take more rounds than are of use
            classifier.fit(self.training.X, numbers)
        store = self.label_store(bits, len(classes)).fit(UnitLength()(self.training.every_row))
        return LabelsAndVectors(
            lambda X: classifier.predict_proba(X).astype(np.float32),
            numbers,
            self.training.X,
            store,
            soft=parameters["soft"],
            weight=parameters["weight"],
            parameters=parameters,
            seconds=time.perf_counter() - began,
        )

    def label_store(self, bits: int, n_labels: int) -> Store:
        """Return the store of vectors beside labels, before its fit."""
        del bits, n_labels
        return Floats()


class LabelPQ(LabelCosine):
    """`label-pq`: the same, with one byte of label, or two, and product quantization in the others."""

    name = "label-pq"
    defaults: ClassVar[Mapping[str, Any]] = {"C": 0.1, "soft": False, "weight": 1.0}
    grid: ClassVar[Grid] = {"C": LabelCosine.grid["C"]}

    def label_store(self, bits: int, n_labels: int) -> Store:
        """Return the codes of the bytes that the label leaves."""
        left = bits - 8 * label_bytes(n_labels)
        if left < 8:
            raise InputError(
                f"label-pq needs at least {bits - left + 8} bits for {n_labels} labels, got {bits}"
            )
        return self._product_codes(left)


class SemiSupervisedClusters(Opponent):
    """`semi-kmeans`: items of the cluster of the query come first, and those of a cluster in the order of their cosine.

    The number of clusters is that of the labels, unless `n_clusters` gives that of known and new classes together.
    """

    name = "semi-kmeans"
    rankings = ("label",)
    defaults: ClassVar[Mapping[str, Any]] = {"n_clusters": None}

    def fitted(self, bits: int) -> Fitted:
        """Find the clusters."""
        del bits
        began, parameters, training = time.perf_counter(), self.parameters, self.training
        classes, numbers = label_numbers(training)
        mapped = UnitLength()
        rows = mapped(training.unlabelled) if len(training.unlabelled) else training.unlabelled
        rng = np.random.default_rng(self.settings.seed)
        n_clusters = parameters["n_clusters"] or len(classes)
        centres = semi_supervised_centres(mapped(training.X), numbers, rows, n_clusters, rng)
        indicators = np.eye(len(centres), dtype=np.float32)
        return LabelsAndVectors(
            lambda X: indicators[pairwise_distances_argmin(mapped(X), centres)],
            numbers,
            training.X,
            Floats(),
            soft=False,
            weight=0.1,  # cosines differ by 2 at most, so that the cluster comes first
            parameters=parameters,
            seconds=time.perf_counter() - began,
        )


# maps --------------------------------------------------------------------------------------------------------------------


class DiscriminantPQ(Opponent):
    """`lda-pq`: whitening within classes or linear discriminants, then product quantization."""

    name = "lda-pq"
    defaults: ClassVar[Mapping[str, Any]] = {"shrinkage": 0.1, "discriminant": False}
    grid: ClassVar[Grid] = {"shrinkage": (0.1, 0.5, 0.9), "discriminant": (False, True)}

    def map(self, bits: int) -> UnitLength:
        """Return the whitening before its fit."""
        del bits
        return WithinClass(**self.parameters)

    def store(self, bits: int) -> Store:
        """Return the codes before their fit."""
        return self._product_codes(bits)


class DiscriminantOPQ(DiscriminantPQ):
    """`lda-opq`: the same with optimized product quantization."""

    name = "lda-opq"
    tuned_as = DiscriminantPQ

    def store(self, bits: int) -> Store:
        """Return the codes before their fit."""
        return self._product_codes(bits, "opq", max_iter=20)


class LinearHeadFloats(Opponent):
    """`linear-head`: a learned linear map and the cosine after it, in floats."""

    name = "linear-head"
    defaults: ClassVar[Mapping[str, Any]] = {"temperature": 0.1, "penalty": 0.1}
    grid: ClassVar[Grid] = {"temperature": (0.05, 0.1, 0.2), "penalty": (0.1, 1.0)}

    def map(self, bits: int) -> UnitLength:
        """Return the head before its fit."""
        del bits
        return LinearHead(**self.parameters)


class LinearHeadPQ(LinearHeadFloats):
    """`linear-head-pq`: the same, then product quantization."""

    name = "linear-head-pq"
    tuned_as = LinearHeadFloats

    def store(self, bits: int) -> Store:
        """Return the codes before their fit."""
        return self._product_codes(bits)


# stores ------------------------------------------------------------------------------------------------------------------


class HashingBaseline(Opponent):
    """`hashing-baseline`: principal components, a random rotation, signs, and the Hamming distance.

    "Hashing-Baseline: Rethinking hashing in the age of pretrained models" (Moummad, Zaher, Rauch, Joly, 2025).
    """

    name = "hashing-baseline"
    rankings = ("hamming",)
    float_queries: ClassVar[bool] = False

    def map(self, bits: int) -> UnitLength:
        """Return the rotated components before their fit."""
        return RotatedComponents(bits, self.settings.seed)

    def store(self, bits: int) -> Store:
        """Return the signs."""
        del bits
        return Signs(float_queries=self.float_queries)


class RotatedSigns(HashingBaseline):
    """`signs`: the same bits, compared with the query in floats."""

    name = "signs"
    rankings = ("cosine",)
    float_queries = True


class AlignedBits(Opponent):
    """`crovca`: a head of one hidden layer on the vectors, whose bits agree for rows of one class, and the Hamming distance."""

    name = "crovca"
    rankings = ("hamming",)
    defaults: ClassVar[Mapping[str, Any]] = {"epochs": 20, "rate": 0.3}
    grid: ClassVar[Grid] = {"rate": (0.1, 0.3, 1.0)}

    def map(self, bits: int) -> UnitLength:
        """Return the head before its fit."""
        return AlignedCodes(bits, self.settings.seed, **self.parameters)

    def store(self, bits: int) -> Store:
        """Return the signs."""
        del bits
        return Signs(float_queries=False)


class ComponentsRaBitQ(Opponent):
    """`rabitq`: RaBitQ of the first principal components, one bit for each, and two floats."""

    name = "rabitq"
    rankings = ("euclidean",)

    def map(self, bits: int) -> UnitLength:
        """Return the rotated components before their fit."""
        return RotatedComponents(bits, self.settings.seed)

    def store(self, bits: int) -> Store:
        """Return the codes before their fit."""
        del bits
        return RaBitQ()


class RerankedRaBitQ(ComponentsRaBitQ):
    """`rabitq-rerank`: the first 100 items by these codes are ranked again by the cosine of float vectors."""

    name = "rabitq-rerank"

    def map(self, bits: int) -> UnitLength:
        """Return all components, of which the first are rotated."""
        return RotatedComponents(bits, self.settings.seed, keep_all=True)

    def store(self, bits: int) -> Store:
        """Return codes and floats."""
        return Reranked(RaBitQ(), bits)


class Int8Embeddings(Opponent):
    """`int8`: a byte per dimension, as sentence-transformers makes it."""

    name = "int8"

    def store(self, bits: int) -> Store:
        """Return the levels before their fit."""
        del bits
        return EightBits()


class BinaryEmbeddings(Opponent):
    """`binary`: a bit per dimension, as sentence-transformers makes it; all items are scored by the query in floats."""

    name = "binary"
    defaults: ClassVar[Mapping[str, Any]] = {"centred": False}
    grid: ClassVar[Grid] = {"centred": (False, True)}

    def store(self, bits: int) -> Store:
        """Return the signs before their fit."""
        del bits
        return Signs(**self.parameters)


class ResidualQuantization(Opponent):
    """`faiss-rq`: the residual quantizer of FAISS."""

    name = "faiss-rq"
    rankings = ("euclidean",)
    kind: ClassVar[str] = "ResidualQuantizer"

    def store(self, bits: int) -> Store:
        """Return the codes before their fit."""
        return AdditiveCodes(self.kind, bits, self.settings.seed)


class LocalSearchQuantization(ResidualQuantization):
    """`faiss-lsq`: the local-search quantizer of FAISS."""

    name = "faiss-lsq"
    kind = "LocalSearchQuantizer"


OPPONENTS: dict[str, type[Opponent]] = {
    method.name: method
    for method in (
        LabelCosine,
        LabelPQ,
        DiscriminantPQ,
        DiscriminantOPQ,
        LinearHeadFloats,
        LinearHeadPQ,
        SemiSupervisedClusters,
        HashingBaseline,
        RotatedSigns,
        AlignedBits,
        ComponentsRaBitQ,
        RerankedRaBitQ,
        Int8Embeddings,
        BinaryEmbeddings,
        ResidualQuantization,
        LocalSearchQuantization,
    )
}
"""The class of every opponent, by its name."""
