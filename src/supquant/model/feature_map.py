"""Vectors to features: the fitted map that says what a vector means, how new it looks, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.codec.base import check_parts, number_in
from supquant.codec.gaussian_map import GaussianMap, kernel_arrays, kernel_features, kernel_from_arrays
from supquant.codec.probabilities import label_probabilities, label_weights
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels
from supquant.kernels import FeatureKernel, MeaningParts, Packed, pack_rows
from supquant.model.added_classes import class_directions, class_logits, divided, mean_positions
from supquant.model.clusters import Clusters, cluster_powers, clusters_from_arrays
from supquant.model.spelling import Spelling, spelling_from
from supquant.parallel import BLOCK_ROWS
from supquant.storage import lay_out_as_stored

BLOCK_SCORES = 1 << 24
"""A block of rows has at most this many scores, one per row and label."""


@dataclass(frozen=True)
class SupervisedMap:
    """The fitted, frozen map from vectors to features ``[s | u | F | z | c]``, which a `SupervisedCodec` holds.

    s (r,) is the mean of the spelled vectors of labels, weighted by the probabilities p (L,) of labels; s is p if every label
    has a column. u is the probability of no known class. The product of the likenesses F (f,) of two vectors says how probably
    they share a class if it is none of the known ones. The position z (g,) is the vector itself: of unit length, centred, in a
    learned metric; F is made from it. The product of c (g,) of one vector with z of another is the cosine of the two vectors,
    less a constant of the first.
    """

    kernel: GaussianMap | None  # None takes vectors as features: d = p
    weights: Float32  # (d + 1, L) of the logits of labels; the last row is the intercept
    mean: Float32  # (p,) of unit vectors
    metric: Float32  # (p, g) from centred unit vectors to z
    cosine: Float32  # (p, g) from unit vectors to c
    clusters: Clusters | None  # the clusterings whose memberships are compared
    likeness: Float32  # (w, f) from powers of memberships to F; both are 0 without clusterings
    novelty: Float32  # (3,) weights of evidence and of the clusterings in the logit of u, and its shift
    nearness: (
        Float32  # (3,) kappa, lambda and mu, which say how vectors that look new are compared by position
    )
    scatter: Float32  # (g, g) of z around the means of trained labels
    means: Float32  # (L, g) positions of labels: first those that were trained, then those that were added
    unnamed: Float32  # (o, g) positions of found classes that have no label yet
    multilabel: bool
    spelling: Spelling  # of trained labels

    kind: ClassVar[str] = "supervised"
    _ARRAYS: ClassVar[tuple[str, ...]] = (
        "weights",
        "mean",
        "metric",
        "cosine",
        "likeness",
        "novelty",
        "nearness",
        "scatter",
        "means",
        "unnamed",
    )

    def __post_init__(self) -> None:
        lay_out_as_stored(self, self._ARRAYS)

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""
        return len(self.mean)

    @property
    def n_trained(self) -> int:
        """Number of labels that were trained on. They are the first ones."""
        return int(self.weights.shape[1])

    @property
    def n_labels(self) -> int:
        """L, the number of labels: trained ones, then added ones."""
        return len(self.means)

    @cached_property
    def n_columns(self) -> int:
        """r, the number of columns of s: those of trained labels, then one for each added label."""
        return self.spelling.n_columns + self.n_labels - self.n_trained

    @cached_property
    def n_position(self) -> int:
        """g, the width of z and of c."""
        return int(self.metric.shape[1])

    @cached_property
    def n_likeness(self) -> int:
        """f, the width of F."""
        return int(self.likeness.shape[1])

    @cached_property
    def n_features(self) -> int:
        """Width of the features, r + 1 + f + 2 g."""
        return self.n_columns + 1 + self.n_likeness + 2 * self.n_position

    @property
    def stretch(self) -> float:
        """How much longer the position of an item is that is surely new: ``1 + stretch u`` times z."""
        return float(self.nearness[1])

    def stretched(self, u: Float32) -> Float32:
        """Return the factors of positions of items, given the probabilities u of no trained class, in the same shape."""
        return np.asarray(1 + self.nearness[1] * u, dtype=np.float32)

    @property
    def block_rows(self) -> int:
        """Number of rows that are mapped at a time: fewer if there are many labels."""
        return max(1, min(BLOCK_ROWS, BLOCK_SCORES // self.n_trained))

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, r + 1 + f + 2 g)."""
        return self._mapped(x, of_items=False)

    def of_items(self, x: Float32) -> Float32:
        """Map a block (b, p) of items; c is zero, since only queries need it."""
        return self._mapped(x, of_items=True)

    def _mapped(self, x: Float32, *, of_items: bool) -> Float32:
        if self.compiled is None:
            return self.from_logits(self._logits(x), x, of_items=of_items)
        features = np.empty((len(x), self.n_features), dtype=np.float32)
        self.compiled.features(np.ascontiguousarray(x), of_items, features, 1)
        return features

    @cached_property
    def compiled(self) -> FeatureKernel | None:
        """The map in compiled code; None if there is none, or if classes were added after the fit."""
        compiled = kernels.compiled()
        return (
            None if compiled is None or self.n_trained < self.n_labels else compiled.meaning_map(self.parts)
        )

    @property
    def parts(self) -> MeaningParts:
        """What the map consists of, for compiled code. Labels that were added after the fit are no part of it."""
        packed, kernel, clusters = self._packed, self.kernel, self.clusters
        unused = np.empty(0, dtype=np.float32)
        return MeaningParts(
            [
                packed["metric"] if kernel is None else kernel.packed,
                *(packed[name] for name in ("weights", "metric", "cosine", "likeness")),
                packed["metric"] if clusters is None else clusters.kernel.packed,
            ],
            has_kernel=kernel is not None,
            scale=0.0 if kernel is None else kernel.scale,
            norms=unused if kernel is None else kernel.norms,
            shifts=np.ascontiguousarray(self.weights[-1]),
            mean=self.mean,
            novelty=self.novelty,
            cluster_scale=0.0 if clusters is None else clusters.kernel.scale,
            cluster_norms=unused if clusters is None else clusters.kernel.norms,
            cluster_ratios=unused if clusters is None else clusters.ratios,
            cluster_ends=np.empty(0, dtype=np.int64) if clusters is None else clusters.ends,
            words=self.spelling.words,
            n_columns=self.spelling.n_columns,
            multilabel=self.multilabel,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone. A copy makes the rest again, and compiled code cannot be copied."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def of_labelled(self, x: Float32) -> Float32:
        """Map a block (b, p) of items with known labels; only z, all that they need, is not zero."""
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        features[:, self._first_of_place :][:, : self.n_position] = self.positions(x)
        return features

    @property
    def _first_of_place(self) -> int:
        """The column at which z begins."""
        return self.n_columns + 1 + self.n_likeness

    def positions(self, x: Float32) -> Float32:
        """Return z (b, g) of a block (b, p)."""
        return row_products(unit_rows(x) - self.mean, self._packed["metric"])

    def cosines(self, z: Float32) -> Float32:
        """Return c (b, g) of vectors that lie at positions z (b, g)."""
        units = self.mean + row_products(np.ascontiguousarray(z), self._from_place)
        return row_products(units, self._packed["cosine"])

    @cached_property
    def _from_place(self) -> Packed:
        """Matrix (p, g) from z to a centred unit vector: the inverse of the metric if it has one."""
        return pack_rows(np.linalg.pinv(self.metric.T).astype(np.float32))

    def _logits(self, x: Float32) -> Float32:
        """Return the logits (b, L) of trained labels for a block (b, p)."""
        return row_products(kernel_features(self.kernel, x), self._packed["weights"]) + self.weights[-1]

    def probabilities(self, x: Float32) -> Float32:
        """Return the probability of every label (b, L) for a block (b, p)."""
        if (
            self.compiled is not None and self.spelling.length == 1
        ):  # then they are features, with the bits of a query
            return np.ascontiguousarray(self(x)[:, : self.n_labels])
        logits = self._logits(x)
        p = label_probabilities(logits, multilabel=self.multilabel)
        if self.n_trained == self.n_labels:
            return p
        z = self.positions(x)
        return self.divided(p, self._novelty(logits, p, self._memberships(z)), z)[0]

    def from_logits(self, logits: Float32, x: Float32, *, of_items: bool = False) -> Float32:
        """Return the features (b, r + 1 + f + 2 g) of a block x (b, p), from its logits (b, L).

        With `of_items`, c is zero: only queries need it.
        """
        r, g, first = self.n_columns, self.n_position, self._first_of_place
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        z = self.positions(x)
        features[:, first : first + g] = z
        if not of_items:
            features[:, first + g :] = row_products(unit_rows(x), self._packed["cosine"])
        p = label_probabilities(logits, multilabel=self.multilabel)
        s = self.spelling.of_probabilities(p)
        memberships = self._memberships(z)
        features[:, r + 1 : first] = self._likeness(z, memberships)
        u = self._novelty(logits, p, memberships)
        features[:, :r], features[:, r] = self.divided(s, u, z)
        return features

    def _memberships(self, z: Float32) -> Float32 | None:
        """Return the memberships (b, w) of vectors at positions z (b, g) in all clusterings; None if there are none."""
        return None if self.clusters is None else self.clusters.memberships(z)

    def _likeness(self, z: Float32, memberships: Float32 | None) -> Float32:
        """Return F (b, f), given positions z (b, g) and memberships (b, w) in clusterings."""
        if memberships is None:
            return np.zeros((len(z), 0), dtype=np.float32)
        return row_products(cluster_powers(memberships), self._packed["likeness"])

    @cached_property
    def _packed(self) -> dict[str, Packed]:
        """Matrices, transposed and packed: a row for every output."""
        matrices = {
            "weights": self.weights[:-1],
            "metric": self.metric,
            "cosine": self.cosine,
            "likeness": self.likeness,
        }
        return {name: pack_rows(matrix.T) for name, matrix in matrices.items()}

    def divided(self, s: Float32, u: Float32, z: Float32) -> tuple[Float32, Float32]:
        """Return s (b, t) with a column for each added label, and the probabilities (b,) of no trained and no added label.

        Without added labels, s and the probabilities u (b,) of no trained label stay; positions z (b, g) divide u among them.
        """
        if self.n_trained == self.n_labels:
            return s, u
        return divided(s, u, z, self._by_place, slice(self.n_trained, self.n_labels))

    @cached_property
    def _by_place(self) -> Packed:
        """Weights (L + o, g + 1) from z to the logits of all labels and of found classes; the last column holds the shifts."""
        return class_logits(np.concatenate([self.means, self.unnamed]), self.scatter)

    @cached_property
    def added_means(self) -> Float32:
        """Means (c, f + g) of items with the added labels: likenesses, or positions if there are no likenesses."""
        means = self.means[self.n_trained :]
        likeness = self._likeness(means, self._memberships(means))
        return np.hstack(
            [likeness, np.zeros_like(means) if self.n_likeness else means * np.float32(1 + self.stretch)]
        )

    @cached_property
    def added_directions(self) -> Float32:
        """Directions (c, f + g) of the added labels in these columns: the product with the mean of the label is 1."""
        means = self.added_means
        if not self.n_likeness:
            return class_directions(means, self.scatter)
        squares = np.einsum("cf,cf->c", means, means)[:, None]
        return np.asarray(means / np.where(squares > 0, squares, 1), dtype=np.float32)

    def with_classes(self, z: Float32, labels: Labels) -> SupervisedMap:
        """Return a map that knows more classes, those of rows at positions z (n, g) with labels.

        A found class that most rows of a label are nearest to has this label now.
        """
        added = replace(self, means=np.concatenate([self.means, mean_positions(z, labels)]))
        if not len(self.unnamed):
            return added
        nearest = row_products(
            np.pad(z, ((0, 0), (0, 1)), constant_values=1), class_logits(self.unnamed, self.scatter)
        )
        votes = labels.sparse().T @ np.eye(len(self.unnamed))[nearest.argmax(axis=1)]
        return replace(added, unnamed=np.delete(self.unnamed, np.unique(votes.argmax(axis=1)), axis=0))

    def without_added(self, u: Float32, z: Float32) -> Float32:
        """Return the probabilities (b,) of no trained and no added class, of rows at z (b, g), given u (b,)."""
        return self.divided(np.zeros((len(z), 0), dtype=np.float32), u, z)[1]

    def _novelty(self, logits: Float32, p: Float32, memberships: Float32 | None) -> NDArray[np.floating]:
        """Return u (b,); with several labels per row, the probability that the row carries none."""
        if self.multilabel:
            return np.asarray(np.exp(-label_weights(p, multilabel=True).sum(axis=1)))
        of_evidence, of_clusters, shift = self.novelty.astype(np.float64)
        logit = shift + of_evidence * evidence(logits.astype(np.float64))
        if self.clusters is not None and memberships is not None:
            logit += of_clusters * (memberships @ self.clusters.ratios.astype(np.float64))
        return np.asarray(np.exp(-np.logaddexp(0, -logit)), dtype=np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        return (
            kernel_arrays(self.kernel)
            | ({} if self.clusters is None else self.clusters.arrays())
            | {name: getattr(self, name) for name in self._ARRAYS}
            | {"multilabel": np.array([self.multilabel], dtype=np.uint8), "spelling": self.spelling.words}
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""
        own = {name: arrays[name] for name in cls._ARRAYS}
        sizes = check_parts(
            own,
            weights=("d", "L"),
            mean=("p",),
            metric=("p", "g"),
            cosine=("p", "g"),
            likeness=("w", "f"),
            novelty=(3,),
            nearness=(3,),
            scatter=("g", "g"),
            means=("T", "g"),
            unnamed=("o", "g"),
        )
        if not 0 < sizes["L"] <= sizes["T"]:
            raise InputError(f"means of shape {own['means'].shape} do not fit the other arrays")
        spelling = spelling_from(arrays, sizes["L"])
        clusters = clusters_from_arrays(arrays, sizes["g"])
        compared = 0 if clusters is None else len(clusters.ratios)
        if sizes["w"] != compared:
            raise InputError(f"likenesses are made from {sizes['w']} numbers, expected {compared}")
        return cls(
            kernel=kernel_from_arrays(arrays, sizes["p"], sizes["d"] - 1),
            clusters=clusters,
            multilabel=bool(number_in(arrays, "multilabel")),
            spelling=spelling,
            **own,
        )


def unit_rows(x: NDArray[Any]) -> Float32:
    """Return the rows of x (b, p) divided by their lengths; a row of zeros stays zero.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", *[x.astype(np.float64)] * 2))[:, None]
    units = np.empty(x.shape, dtype=np.float32)
    return np.divide(x, np.where(lengths > 0, lengths, 1), out=units, casting="same_kind")


def evidence(scores: NDArray[Any]) -> NDArray[Any]:
    """Return ``log sum exp`` (b,) of logits (b, L): how much speaks for any known class."""
    # SciPy's logsumexp takes ten times as long for one query.
    highest = scores.max(axis=1, keepdims=True)
    return np.asarray(highest[:, 0] + np.log(np.exp(scores - highest).sum(axis=1)))
