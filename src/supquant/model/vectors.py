"""The vectors whose products are the scores of a `SupervisedCodec`: those of items, and those of queries.

    item   t = [ m | E | z ]     which label it has, which class it shares otherwise, where it lies; its code stands for it as
                                 a sum of codewords
    query  v                     of the same width; the score of an item is  v . t

    m   (r,)  the labels if they are known, else ``(1 - u) s``: the mean of label vectors by their probabilities, times the
              probability that the item is of a known class. If labels are few, each has a column; of many labels each has
              several words (`model/spelling.py`)
    E   (f,)  0 if the labels are known, else ``u F``: the probability of no known class, times the likeness of the vector
    z   (g,)  the position of the vector, times ``1 + lambda u`` if the label is not known

A query is ``[(1 - u) s - mu u | u F | kappa u z + cosine_weight c]``: known classes are compared by labels, others by likeness
and position, and items whose labels score alike are ordered by cosine. There are likenesses if classes were found among rows
without labels. Otherwise items that look new have longer positions, and known items lose mu u, so that new items come first for
queries that look new. Labels that are added after the fit have no columns; they are directions in E, or in z if there is no E.
`docs/design/model.md` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Float32
from supquant.codec.probabilities import label_weights
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.kernels import Packed, QueryRule
from supquant.model.feature_map import SupervisedMap
from supquant.model.spelling import MIN_PROBABILITY, MIN_PROBABILITY_ALL_LABELLED

COSINE_WEIGHT, COSINE_WEIGHT_ALL_LABELLED = 0.05, 0.01
"""Weights of the cosine. It orders items whose labels score alike, and unlabelled items of new classes that look like known
ones. If the labels of all items are known, it only breaks ties."""

NEIGHBOUR_LEVEL = 0.3
"""The cosine of a typical neighbour over that of the query itself, both less the constant: items that look new have longer
positions, and a position query takes off what neighbours gain by it."""

ADDED_LABEL_WEIGHT = 2.0
"""Score of an item at the mean of a label that was added after the fit, for a query that surely has this label."""


@dataclass(frozen=True, eq=False)
class FeatureParts:
    """The parts of features ``[s | u | F | z | c]``, as `SupervisedMap` describes them."""

    s: Float32  # (b, r + a) mean vectors of trained labels, then probabilities of the a added labels
    u: Float32  # (b, 1) probability of no known class
    likeness: Float32  # (b, f)
    z: Float32  # (b, g) position
    c: Float32  # (b, g) its product with the position of another vector is their cosine
    n_spelled: int  # r

    @classmethod
    def of(cls, features: Float32, feature_map: SupervisedMap) -> Self:
        """Return the parts of features (b, r + a + 1 + f + 2 g) as views."""
        n, f, g = feature_map.n_columns, feature_map.n_likeness, feature_map.n_position
        s, u, likeness, z, c = np.split(features, np.cumsum([n, 1, f, g]), axis=1)
        return cls(s, u, likeness, z, c, feature_map.spelling.n_columns)

    @property
    def trained(self) -> Float32:
        """Mean vectors (b, r) of trained labels."""
        return self.s[:, : self.n_spelled]

    @property
    def added(self) -> Float32:
        """Probabilities (b, a) of added labels."""
        return self.s[:, self.n_spelled :]

    @property
    def untrained(self) -> Float32:
        """Probability (b, 1) of no class that was trained on: of an added class, or of none that is known."""
        if self.s.shape[1] == self.n_spelled:
            return self.u
        return np.asarray(self.u + (1 - self.u) * self.added.sum(axis=1, keepdims=True))


def position_queries(features: FeatureParts, feature_map: SupervisedMap) -> Float32:
    """Return the vectors v (b, D) of queries that rank items by position alone."""
    level = np.einsum("ij,ij->i", features.c, features.z)[:, None] * np.float32(_neighbour_level(feature_map))
    widths = (len(level), features.n_spelled), features.likeness.shape
    return np.hstack([np.broadcast_to(level, widths[0]), np.zeros(widths[1]), features.c], dtype=np.float32)


def _neighbour_level(feature_map: SupervisedMap) -> float:
    """Return what a neighbour gains by looking new, over the product of the query with itself."""
    return NEIGHBOUR_LEVEL * feature_map.stretch


def label_queries(
    features: FeatureParts, feature_map: SupervisedMap, added_columns: Packed | None, *, all_labelled: bool
) -> Float32:
    """Return the vectors v (b, D) of queries that rank items by meaning.

    Parameters
    ----------
    features : FeatureParts
    feature_map : SupervisedMap
        The map that the features come from.
    added_columns : Packed, (f + g, a), or None
        Its directions of added labels, transposed; None if no labels were added.
    all_labelled : bool
        Whether the labels of all items are known.
    """
    spelling, s, u = feature_map.spelling, features.trained, features.u
    weights = (
        label_weights(np.minimum(spelling.length * s, 1), multilabel=True)
        if feature_map.multilabel
        else spelling.weights(s, least_probability(all_labelled))
    )
    untrained = features.untrained
    near = feature_map.nearness[0] * untrained * features.z
    near += np.float32(cosine_weight(all_labelled)) * features.c
    others = np.hstack([untrained * features.likeness, near], dtype=np.float32)
    if added_columns is not None:
        likely = np.float32(ADDED_LABEL_WEIGHT) * (1 - u) * features.added
        others += row_products(likely, added_columns)
    return np.hstack([(1 - u) * weights - feature_map.nearness[2] * untrained, others], dtype=np.float32)


def least_probability(all_labelled: bool) -> float:
    """Return the probability above which a word counts, by whether the labels of all items are known."""
    return MIN_PROBABILITY_ALL_LABELLED if all_labelled else MIN_PROBABILITY


def cosine_weight(all_labelled: bool) -> float:
    """Return the weight of the cosine, by whether the labels of all items are known."""
    return COSINE_WEIGHT_ALL_LABELLED if all_labelled else COSINE_WEIGHT


def query_rule(feature_map: SupervisedMap, ranking: str, *, all_labelled: bool) -> QueryRule:
    """Return how compiled code makes what `label_queries` or `position_queries` returns, if no labels were added."""
    return QueryRule(
        n_columns=feature_map.n_columns,
        n_likeness=feature_map.n_likeness,
        n_position=feature_map.n_position,
        length=feature_map.spelling.length,
        by_position=ranking == "position",
        multilabel=feature_map.multilabel,
        least=least_probability(all_labelled),
        position=float(feature_map.nearness[0]),
        apart=float(feature_map.nearness[2]),
        level=_neighbour_level(feature_map),
        cosine=cosine_weight(all_labelled),
    )


def item_vectors(
    features: FeatureParts, feature_map: SupervisedMap, labels: NDArray[np.floating] | None = None
) -> Float32:
    """Return the vectors t (b, D) of items.

    Parameters
    ----------
    features, feature_map
        As in `label_queries`.
    labels : ndarray of shape (b, r + a) or None, default=None
        Spelled labels, then columns of added ones. A row of NaN is unknown; None means that all rows are.
    """
    r, f = features.n_spelled, features.likeness.shape[1]
    items = np.zeros((len(features.s), r + f + feature_map.n_position), dtype=np.float32)
    meaning, likeness, place = np.split(items, [r, r + f], axis=1)
    known = np.zeros(len(items), dtype=bool) if labels is None else ~np.isnan(labels[:, 0])
    if known.all():
        place[:] = features.z
    else:
        np.multiply(1 - features.u, features.trained, out=meaning)
        np.multiply(features.untrained, features.likeness, out=likeness)
        np.multiply(feature_map.stretched(features.untrained), features.z, out=place)
    if labels is None:
        return items
    np.copyto(place, features.z, where=known[:, None])
    np.copyto(meaning, labels[:, :r], where=known[:, None], casting="same_kind")
    likeness[known] = 0
    # An item with an added label is of none that was trained. It is moved along the mean of its label, until its product with the
    # label's direction is 1.
    rows, added = np.nonzero(labels[:, r:] == 1)
    if len(rows):
        likeness[rows] = features.likeness[rows]
        place[rows] *= np.float32(1 + feature_map.stretch)
        lacking = 1 - np.einsum("ij,ij->i", items[rows, r:], feature_map.added_directions[added])
        items[rows, r:] += lacking[:, None] * feature_map.added_means[added]
    return items


def item_positions(t: Float32, feature_map: SupervisedMap) -> Float32:
    """Return the positions z (b, g) of items, given their vectors t (b, D) or what codes say of them."""
    meaning, _, place = np.split(
        t, [feature_map.spelling.n_columns, t.shape[1] - feature_map.n_position], axis=1
    )
    return np.asarray(place / feature_map.stretched(item_novelty(meaning, feature_map)), dtype=np.float32)


def item_novelty(meaning: Float32, feature_map: SupervisedMap) -> Float32:
    """Return the probability u (b, 1) of no known class of items whose vectors begin with m (b, r)."""
    if feature_map.multilabel:
        return np.exp(-label_weights(np.clip(meaning, 0, 1), multilabel=True).sum(axis=1, keepdims=True))
    return np.clip(1 - meaning.sum(axis=1, keepdims=True), 0, 1)


def checked_novelty(novelty: ArrayLike, n: int) -> Float32:
    """Return one probability for each of n queries, or the same one for all of them, as (n,) float32."""
    if type(novelty) is float and novelty == 0:  # the novelty of every query over items with labels
        return np.zeros(n, dtype=np.float32)
    values = np.asarray(novelty, dtype=np.float32)
    if values.shape not in ((), (n,)) or not ((values >= 0) & (values <= 1)).all():
        raise InputError(
            f"novelty must be a probability, or one for each of the {n} queries, got {novelty!r}"
        )
    return np.full(n, values)
