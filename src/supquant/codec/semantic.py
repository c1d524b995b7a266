"""Codes that keep what an item is and where it lies: what supervised quantization ends in by default.

    item   t = [ m | n | z ]     what it is, how new it looks, where it lies; read off its code as a sum of codewords
    query  v = [ ... ]           of the same width; a scan of look-up tables adds up the score  v . t

    m   (r,)  the labels where they are known, else ``(1 - u) s``: the mean of labels by their probabilities, less the chance u
              that the item is of no known class. Every label has a column while they are few; of many each has several words
              (`codec/spelling.py`)
    n   (1,)  0 where the labels are known, else how new the item looks, from 0 to 1 with the logarithm of u
    z   (g,)  the position of the vector, and the opinion of the classifier about it; the same with and without labels

A query is ``[(1 - u) s | NEW_BONUS u | POSITION_SLOPE u z + NEAREST_FIRST c]``: what is known is compared by labels, what is
new by position, and equal labels are ordered by cosine. Labels that are added after the fit have no columns: they are directions
in z. See `docs/ranking.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.assignment import ItemSearch
from supquant.codec.base import (
    MOST_CODEBOOKS,
    ProjectingCodec,
    check_part,
    classes_from_plain,
    plain_classes,
)
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.meaning import check_curve, label_weights
from supquant.codec.queries import by_queries, row_products
from supquant.codec.spelling import FAINTEST, FAINTEST_OF_LABELLED, Spelling
from supquant.errors import InputError
from supquant.labels import Labels, read_labels
from supquant.validation import as_float32, check_choice, check_integer, check_vectors, resolve_jobs

RANKINGS = ("semantic", "position")

NOVELTY_FLOOR = 0.01
"""Probability of being new at which the coordinate n begins: it is log(u / floor + 1), scaled to 1 at u = 1."""

NOVELTY_WEIGHT = 0.5
"""Scale of the coordinate n among those of meaning, while codes are searched."""

LOOKS_NEW = 0.3
"""Probability of being new from which on an item is searched a code as a new one."""

NOVELTY_BINS = np.array([0.1, 0.35, 0.65], dtype=np.float32)
"""Where queries are divided by their novelty, to turn scores into probabilities."""

NEW_BONUS = 0.35
"""What an item that is surely new gains for a query that is surely new, beside its position."""

POSITION_SLOPE = 1.25
"""What the product of positions counts for a query that is surely new."""

NEAREST_FIRST = 0.02
"""What the cosine counts for a query whose label is certain: it orders items whose labels score alike. For others it counts by
the third power of ``sum p^2``, so that it does not overturn small differences between labels."""


ADDED_LABEL = 2.0
"""What an item at the mean of a label that was added after the fit counts for a query that surely has this label."""

FREE_WORD, LABEL_WORD, POSITION_WORD, KNOWN_WORD = 0, 1, 2, 3
"""What a codeword is for. Items with a known label are made of label words, one for each word that the label is spelled with, and
of position words, which mean nothing: so they keep their label exactly. Where labels are too many for that, or an item has
several, the first word of an item with known labels is a known word, which means what it learned to, and others are free. Items
without labels take any words but known ones."""


class MeaningFeatures(Protocol):
    """A map from vectors (b, p) to features ``[s | u | z | c]``, as `SemanticCodec` reads them."""

    kind: ClassVar[str]
    multilabel: bool

    @property
    def n_inputs(self) -> int:
        """Width of the vectors that come in."""

    @property
    def n_trained(self) -> int:
        """Labels that were trained on: the first ones."""

    @property
    def spelling(self) -> Spelling:
        """What words trained labels are made of: the columns of items."""

    @property
    def n_columns(self) -> int:
        """Columns of s: those of trained labels, then one for every added one. One column u follows them."""

    @property
    def means(self) -> Float32:
        """Mean positions (L, g) of trained labels, and then of those that were added."""

    @property
    def added_directions(self) -> Float32:
        """Directions (c, g) of the added labels: the product with a position is 1 at the mean of a label."""

    @property
    def n_labels(self) -> int:
        """L."""

    @property
    def n_position(self) -> int:
        """g, the columns of z, the position, and of c, which gives the cosine as a product with z."""

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, r + 1 + 2 g)."""

    def of_labelled(self, x: Float32) -> Float32:
        """Map a block (b, p) of items with known labels: the same, but s and u may be zero."""

    def probabilities(self, x: Float32) -> Float32:
        """Return the probability of every label (b, L) for a block (b, p)."""

    def with_classes(self, x: Float32, labels: Labels) -> Self:
        """Return the map that knows more classes, those of rows x (n, p)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""


@dataclass(frozen=True, eq=False)
class SemanticCodec(ProjectingCodec):
    """Encodes, decodes and makes look-up tables, for codes of meaning and position.

    Parameters
    ----------
    codebooks : (M, K, D) float32
        D is the number of columns of trained labels, 1 and g together; the column of n is scaled by `NOVELTY_WEIGHT`.
    classes : (L,) array
        The labels; with `multilabel`, their column numbers.
    multilabel : bool
    weights : (3, 2) float32
        What a squared error in meaning (m and n) and one in position counts while codes are searched: for items with known
        labels, for those that look familiar, and for those that look new.
    words : (M, K) uint8
        What codewords are for: `FREE_WORD` and the others.
    feature_map : MeaningFeatures
    curves : (c, 2, k) float32
        Scores, ascending, and the probabilities of a shared label that they stand for: first among items whose labels are all
        known, then among others, for queries from the least new to the newest, as `NOVELTY_BINS` divide them.
    missing_label : object
        A label that means "unknown", beside None, NaN and masked entries.
    """

    codebooks: Float32
    classes: NDArray[Any]
    multilabel: bool
    weights: Float32
    words: NDArray[np.uint8]
    feature_map: FeatureMap | None
    curves: Float32 = field(default_factory=lambda: as_curves([np.array([[0, 1], [0, 1]], dtype=np.float32)]))
    missing_label: str | float | int | None = None

    TYPE: ClassVar[str] = "semantic"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("codebooks", "weights", "words", "curves")
    projection: ClassVar[None] = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.feature_map is None:
            raise InputError("a semantic codec must have a feature map")
        check_part("codebooks", self.codebooks, "M", "K", self._n_meaning + self.map.n_position)
        check_integer(self.n_codebooks, "the number of codebooks", 1, MOST_CODEBOOKS)
        check_integer(self.n_codewords, "the number of codewords", 1, 256)
        if len(self.classes) != self.map.n_labels:
            raise InputError(f"expected {self.map.n_labels} classes, got {len(self.classes)}")
        check_part("curves", self.curves, len(NOVELTY_BINS) + 2, 2, "k")
        for curve in self.curves:
            check_curve(curve)
        super().__post_init__()

    @property
    def map(self) -> MeaningFeatures:
        """The feature map."""
        return cast("MeaningFeatures", self.feature_map)

    @property
    def _n_meaning(self) -> int:
        """Columns of m and n in an item."""
        return self.map.spelling.n_columns + 1

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
        """D, the width of decoded vectors."""
        return int(self.codebooks.shape[2])

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` knows; the first one is the default."""
        return RANKINGS

    # queries -------------------------------------------------------------------------------------------------------------

    def prepare(
        self, features: Float32, ranking: str | None = None, *, all_labelled: bool = False
    ) -> Float32:
        """Turn features (b, r + 1 + 2 g) of queries into the vectors v (b, D) that items are multiplied by.

        `all_labelled` says whether the labels of all items are known.
        """
        ranking = self._ranking(ranking)
        p, u, z, c = self._split(features)
        vectors = np.zeros((len(features), self.n_components), dtype=np.float32)
        spelling, L = self.map.spelling, self.map.spelling.n_columns
        if ranking == "position":
            vectors[:, L + 1 :] = c
            return vectors
        meant = (
            label_weights(np.minimum(spelling.length * p[:, :L], 1), multilabel=True)
            if self.multilabel
            else spelling.weights(p[:, :L], FAINTEST_OF_LABELLED if all_labelled else FAINTEST)
        )
        np.multiply(1 - u, meant, out=vectors[:, :L])
        untrained = self._untrained(p, u)
        vectors[:, L] = untrained[:, 0] * np.float32(NEW_BONUS / NOVELTY_WEIGHT)
        sure = np.minimum(spelling.length * np.einsum("ij,ij->i", p, p), 1)[:, None] ** 3
        vectors[:, L + 1 :] = (
            np.float32(POSITION_SLOPE) * untrained * z + np.float32(NEAREST_FIRST) * sure * c
        )
        if self.map.n_labels > self.map.n_trained:
            added = row_products(np.float32(ADDED_LABEL) * (1 - u) * p[:, L:], self._added_columns)
            vectors[:, L + 1 :] += added
        return vectors

    @cached_property
    def _added_columns(self) -> Float32:
        """Directions of added labels, (g, c)."""
        return np.ascontiguousarray(self.map.added_directions.T)

    def _untrained(self, p: Float32, u: Float32) -> Float32:
        """Return the probability (b, 1) of no class that was trained on."""
        added = p[:, self.map.spelling.n_columns :].sum(axis=1, keepdims=True)
        return np.asarray(u + (1 - u) * added)

    def tables_of(self, prepared: Float32, ranking: str | None = None) -> Float32:
        """Make look-up tables (q, M, K) of prepared queries (q, D): ``-v . c`` of every codeword."""
        self._ranking(ranking)
        tables = row_products(prepared, self.codebooks.reshape(-1, self.n_components))
        np.negative(tables, out=tables)
        return tables.reshape(len(prepared), self.n_codebooks, self.n_codewords)

    def query_tables(
        self,
        Q: object,
        ranking: str | None = None,
        *,
        novelty: object = None,
        all_labelled: bool = False,
        n_jobs: int | None = None,
    ) -> QueryTables:
        """Make what a scan needs of queries Q (q, p): the same bits for a query alone and in a batch.

        Parameters
        ----------
        Q : (q, p) array
        ranking : {"semantic", "position"}, optional
        novelty : float or (q,) array, optional
            The probability that a query is of no known class, in the place of what the model says.
        all_labelled : bool
            Whether the labels of all items are known: then nothing is new, unless `novelty` says so.
        n_jobs : int, optional
        """
        ranking = self._ranking(ranking)
        if all_labelled and novelty is None:
            novelty = 0.0
        features = self.query_features(Q, novelty=novelty, n_jobs=n_jobs)
        vectors = self.prepare(features, ranking, all_labelled=all_labelled)
        tables = np.empty((len(vectors), self.n_codebooks, self.n_codewords), dtype=np.float32)
        by_queries(lambda block: (self.tables_of(block, ranking),), vectors, (tables,), resolve_jobs(n_jobs))
        offsets = np.zeros(len(vectors), dtype=np.float32)
        if ranking != "semantic":
            return QueryTables(tables, offsets, descending=True)
        curve_of = self.curves_of(features, all_labelled=all_labelled)
        return QueryTables(tables, offsets, descending=True, curve=self.curves, curve_of=curve_of)

    def curves_of(self, features: Float32, *, all_labelled: bool = False) -> NDArray[np.intp]:
        """Return which curve (q,) turns the scores of queries with features (q, F) into probabilities."""
        if all_labelled:
            return np.zeros(len(features), dtype=np.intp)
        p, u, _, _ = self._split(features)
        return 1 + np.searchsorted(NOVELTY_BINS, self._untrained(p, u)[:, 0], side="right")

    def query_vectors(
        self,
        Q: object,
        ranking: str | None = None,
        *,
        novelty: object = None,
        n_jobs: int | None = None,
    ) -> Float32:
        """Return the vectors v (q, D) of queries Q (q, p), whose products with decoded items are scores; as `query_tables`."""
        return self.prepare(self.query_features(Q, novelty=novelty, n_jobs=n_jobs), ranking)

    def query_features(self, Q: object, *, novelty: object = None, n_jobs: int | None = None) -> Float32:
        """Return the features (q, F) of queries Q (q, p), with another novelty than theirs if one is given."""
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        features = np.empty((len(Q), self.map.n_columns + 1 + 2 * self.map.n_position), dtype=np.float32)
        self._by_queries(Q, n_jobs, (features,), lambda made: (made,))
        if novelty is not None:
            features[:, self.map.n_columns] = _checked_novelty(novelty, len(Q))
        return features

    def tables(self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None) -> Float32:
        """Make look-up tables (q, M, K) float32 for queries Q (q, p); smaller sums are nearer."""
        return self.query_tables(Q, ranking, n_jobs=n_jobs).tables

    # what the classifier says ----------------------------------------------------------------------------------------------

    def predict_proba(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Return the probability of every label for vectors X (n, p): (n, L) float32."""
        return self._by_vectors(
            X, n_jobs, self.map.n_labels, np.float32, lambda x, _: self.map.probabilities(x)
        )

    def decision_function(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Score every label for vectors X (n, p) by its probability: (n, L) float32."""
        return self.predict_proba(X, n_jobs=n_jobs)

    def novelty(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Return the probability (n,) that vectors X (n, p) are of no known class."""
        column = slice(self.map.n_columns, self.map.n_columns + 1)
        return self._by_blocks(X, n_jobs, 1, np.float32, lambda features, _: features[:, column])[:, 0]

    # items ---------------------------------------------------------------------------------------------------------------

    def transform(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Return the vectors t (n, D) of items X (n, p) without labels, which their codes stand for."""
        return self._by_blocks(
            X, n_jobs, self.n_components, np.float32, lambda features, _: self.item_vectors(features)
        )

    def item_vectors(self, features: Float32, labels: NDArray[np.floating] | None = None) -> Float32:
        """Return the vectors t (b, D) of items with features (b, r + 1 + 2 g), and labels (b, r) where they are known.

        Labels are as they are spelled. A row of them that is NaN is unknown.
        """
        p, u, z, _ = self._split(features)
        L = self.map.spelling.n_columns
        items = np.empty((len(features), self.n_components), dtype=np.float32)
        np.multiply(1 - u, p[:, :L], out=items[:, :L])
        items[:, L] = novelty_coordinate(self._untrained(p, u)[:, 0])
        items[:, L + 1 :] = z
        if labels is not None:
            known = ~np.isnan(labels[:, 0])
            items[known, :L] = labels[known, :L]
            items[known, L] = NOVELTY_WEIGHT * labels[known, L:].any(axis=1)
            rows, added = np.nonzero(
                labels[:, L:] == 1
            )  # moved so far towards their label that they count as at its mean
            lacking = 1 - np.einsum("ij,ij->i", items[rows, L + 1 :], self.map.added_directions[added])
            items[rows, L + 1 :] += lacking[:, None] * self.map.means[self.map.n_trained :][added]
        return items

    def encode_items(
        self, X: object, y: object = None, *, missing_labels: str = "predict", n_jobs: int | None = None
    ) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8, with labels `y` where they are known.

        ``missing_labels="drop"`` keeps the position of items without labels, and nothing of what they may mean.
        """
        if y is None:
            return self.encode(X, missing_labels=missing_labels, n_jobs=n_jobs)
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        labels = read_labels(
            y,
            n_rows=len(X),
            classes=self.classes,
            multilabel=self.multilabel,
            missing=True,
            missing_label=self.missing_label,
        )
        return self.encode(X, labels, missing_labels=missing_labels, n_jobs=n_jobs)

    def encode(
        self,
        X: object,
        labels: Labels | None = None,
        *,
        missing_labels: str = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8, with labels that were read already."""
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))

        def encode_block(x: Float32, block: tuple[int, int]) -> Codes:
            given = None if labels is None else self.map.spelling.of_labels(labels, *block)
            known = np.zeros(len(x), dtype=bool) if given is None else ~np.isnan(given[:, 0])
            items = self.item_vectors(self.map.of_labelled(x) if known.all() else self.map(x), given)
            if missing_labels == "drop":
                items[~known, : self._n_meaning] = 0
            if given is not None:  # words know nothing of added labels
                known &= ~(given[:, self.map.spelling.n_columns :] == 1).any(axis=1)
            return self.encode_vectors(items, known)

        return self._by_vectors(X, n_jobs, self.n_codebooks, np.uint8, encode_block)

    def encode_vectors(self, items: Float32, known: NDArray[np.bool_]) -> Codes:
        """Find the codes (n, M) of item vectors (n, D); `known` (n,) tells whose labels are known. On one thread."""
        codes = np.empty((len(items), self.n_codebooks), dtype=np.uint8)
        kinds = item_kinds(items[:, self._n_meaning - 1], known)
        for kind, search in enumerate(self._searches):
            rows = kinds == kind
            if rows.any():
                codes[rows] = search.search(items[rows])
        return codes

    @cached_property
    def _searches(self) -> list[ItemSearch]:
        """The search for items of each kind."""
        return [
            ItemSearch.of(self.codebooks, self._n_meaning, weights, allowed_words(self.words, kind))
            for kind, weights in enumerate(self.weights)
        ]

    def any_unlabelled(self, codes: Codes) -> bool:
        """Tell whether any of codes (n, M) is that of an item without labels.

        Such an item has a free word where others have not.
        """
        reserved = np.flatnonzero(self.words.any(axis=1) & (self.words == FREE_WORD).any(axis=1))
        free = [(self.words[m] == FREE_WORD)[codes[:, m]].any() for m in reserved]
        return bool(np.any(free)) or not len(reserved)

    # more labels ---------------------------------------------------------------------------------------------------------

    def extended(self, X: object, y: object) -> SemanticCodec:
        """Return a codec that knows more labels, those of rows X (n, p); see `SupervisedQuantizer.extend`."""
        if self.multilabel:
            raise InputError("labels can be added where every item has one label, not several")
        X = check_vectors(X, n_features=self.n_inputs)
        found = read_labels(y, n_rows=len(X), multilabel=False, fewest=1)
        kinds = {
            "number" if each.dtype.kind in "iuf" else each.dtype.kind
            for each in (self.classes, found.classes)
        }
        if len(kinds) > 1:
            raise InputError(
                f"labels to add must be of the kind that the model knows, {self.classes.dtype}, got {found.classes.dtype}"
            )
        again = [label for label in found.classes.tolist() if label in set(self.classes.tolist())]
        if again:
            raise InputError(f"labels to add must be new ones, got {again[:5]}, which the model knows")
        map_ = self.map.with_classes(as_float32(X), found)
        return replace(self, feature_map=map_, classes=np.concatenate([self.classes, found.classes]))

    def reads_codes_of(self, other: object) -> bool:
        """Tell whether codes of another codec mean the same under this one: their codebooks are equal."""
        return (
            isinstance(other, SemanticCodec)
            and np.array_equal(self.codebooks, other.codebooks)
            and np.array_equal(self.words, other.words)
        )

    def decode(self, codes: object) -> Float32:
        """Return the vectors t (n, D) that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

    def _split(self, features: Float32) -> tuple[Float32, Float32, Float32, Float32]:
        """Cut features (b, r + 1 + 2 g) into s (b, r), u (b, 1), z (b, g) and c (b, g)."""
        L, g = self.map.n_columns, self.map.n_position
        return (
            features[:, :L],
            features[:, L : L + 1],
            features[:, L + 1 : L + 1 + g],
            features[:, L + 1 + g :],
        )

    # files ---------------------------------------------------------------------------------------------------------------

    def _stored_settings(self) -> dict[str, Any]:
        return {
            "type": self.TYPE,
            "classes": plain_classes(self.classes),
            "multilabel": self.multilabel,
            "missing_label": self.missing_label,
        }

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        parts: dict[str, Any] = {**arrays, **own}
        parts["classes"] = classes_from_plain(own["classes"])
        return cls(**parts)


def as_curves(curves: Sequence[Float32]) -> Float32:
    """Lay curves (2, k) of several lengths side by side (c, 2, k); one alone is that of all queries.

    Examples
    --------
    >>> as_curves([np.float32([[0, 1], [0, 1]]), np.float32([[0, 1, 2], [0, 0.5, 1]])])[0]
    array([[0., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    if len(curves) == 1:
        curves = list(curves) * (len(NOVELTY_BINS) + 2)
    width = max(curve.shape[1] for curve in curves)
    return np.stack([np.pad(curve, ((0, 0), (0, width - curve.shape[1])), mode="edge") for curve in curves])


def allowed_words(words: NDArray[np.uint8], kind: int) -> NDArray[np.bool_]:
    """Return which words (M, K) items of a kind are made of.

    Those with labels take words that are not free, in codebooks that have any; others take all but known ones.

    Examples
    --------
    >>> words = np.array([[KNOWN_WORD, FREE_WORD], [FREE_WORD, FREE_WORD]])
    >>> allowed_words(words, 0)
    array([[ True, False],
           [ True,  True]])
    >>> allowed_words(words, 1)
    array([[False,  True],
           [ True,  True]])
    """
    if kind == 0:
        return (words != FREE_WORD) | ~words.any(axis=1, keepdims=True)
    return words != KNOWN_WORD


def novelty_coordinate(u: Float32 | np.float32) -> Float32:
    """Return the coordinate n of items that are new with the probabilities u."""
    return np.asarray(np.log1p(u / NOVELTY_FLOOR) * (NOVELTY_WEIGHT / np.log1p(1 / NOVELTY_FLOOR)))


def item_kinds(coordinate: Float32, known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the kind (b,) of items: 0 with known labels, 1 familiar, 2 new, by their coordinate n (b,)."""
    new = coordinate > novelty_coordinate(np.float32(LOOKS_NEW))
    return np.where(known, 0, np.where(new, 2, 1))


def _checked_novelty(novelty: object, n: int) -> Float32:
    values = np.asarray(novelty, dtype=np.float32)
    if values.shape not in ((), (n,)) or not ((values >= 0) & (values <= 1)).all():
        raise InputError(
            f"novelty must be a probability, or one for each of the {n} queries, got {novelty!r}"
        )
    return values
