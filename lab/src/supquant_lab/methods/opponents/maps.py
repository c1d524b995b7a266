"""Report: the linear maps that opponents learn. Their results have unit length, so that products are cosines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_softmax
from sklearn.decomposition import PCA

from supquant.arrays import Array, Float32
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.problem import Training

HEAD_DIMENSIONS = 128
"""Maximum number of dimensions after a linear head."""

HEAD_ITERATIONS = 60
"""Maximum number of L-BFGS iterations of a linear head."""


def unit_length(X: Array) -> Float32:
    """Return rows divided by their lengths, in float32; zeros stay zeros.

    Examples
    --------
    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def label_numbers(training: Training) -> tuple[Array, Array]:
    """Return the classes (L,) and the number (n,) of the class of each row with a label."""
    labels = read_labels(training.y)
    if labels.indices is None:
        raise InputError("opponents are for one label per row, these rows have several")
    return labels.classes, labels.indices


class UnitLength:
    """Vectors as they are, scaled to unit length; and what every map does."""

    def fit(self, training: Training) -> Self:
        """Learn from rows with and without labels."""
        del training
        return self

    def __call__(self, X: Array) -> Float32:
        """Return the mapped vectors (n, r), of unit length."""
        return unit_length(X)


class Affine(UnitLength, ABC):
    """``A (x - mean)``, scaled to unit length."""

    def fit(self, training: Training) -> Self:
        """Learn the mean from all rows, and the matrix."""
        self._mean = training.every_row.mean(axis=0, dtype=np.float64)
        self._matrix = self._learn(training).astype(np.float32)  # (r, d)
        return self

    @abstractmethod
    def _learn(self, training: Training) -> Array:
        """Return the matrix."""

    def __call__(self, X: Array) -> Float32:
        """Return the mapped vectors (n, r), of unit length."""
        return unit_length((X - self._mean.astype(np.float32)) @ self._matrix.T)


@dataclass
class RotatedComponents(Affine):
    """The first principal components of all rows, rotated at random so that each dimension has its share of the variance."""

    dimensions: int
    seed: int
    keep_all: bool = False  # the other components follow, not rotated

    def _learn(self, training: Training) -> Array:
        components = _components(training, None if self.keep_all else self.dimensions)
        r = min(self.dimensions, len(components))
        rotation, _ = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((r, r)))
        components[:r] = rotation @ components[:r]
        return components


def _components(training: Training, dimensions: int | None) -> Array:
    """Return principal components (r, d) of all rows, at most this number."""
    rows = training.every_row
    most = min(rows.shape) if dimensions is None else min(*rows.shape, dimensions)
    found: Array = PCA(most, random_state=0).fit(rows).components_
    return found


@dataclass
class WithinClass(Affine):
    """Whitening of the covariance within classes, and the directions between class means if `discriminant`: LDA.

    Attributes
    ----------
    shrinkage : float
        Weight of the identity, scaled to the mean variance, in the covariance; 1 leaves vectors as they are.
    discriminant : bool
        Whether only the L - 1 directions in which the means of L classes differ are kept.
    """

    shrinkage: float
    discriminant: bool

    def _learn(self, training: Training) -> Array:
        classes, numbers = label_numbers(training)
        X = training.X.astype(np.float64)
        means = _class_means(X, numbers, len(classes))  # (L, d)
        residuals = X - means[numbers]
        covariance = residuals.T @ residuals / len(X)
        identity = np.eye(len(covariance)) * np.trace(covariance) / len(covariance)
        values, vectors = np.linalg.eigh((1 - self.shrinkage) * covariance + self.shrinkage * identity)
        whitening = vectors.T / np.sqrt(np.maximum(values, 1e-9 * values[-1]))[:, None]  # (d, d)
        if not self.discriminant:
            return whitening
        between = np.sqrt(np.bincount(numbers))[:, None] * ((means - X.mean(axis=0)) @ whitening.T)
        _, _, directions = np.linalg.svd(between, full_matrices=False)
        return directions[: len(classes) - 1] @ whitening


def _class_means(X: Array, numbers: Array, n_classes: int) -> Array:
    """Return the means (L, d) of the rows of each class."""
    rows = np.arange(len(X))
    members = csr_array((np.ones(len(X)), (numbers, rows)), shape=(n_classes, len(X)))
    means: Array = (members @ X) / members.sum(axis=1)[:, None]
    return means


@dataclass
class LinearHead(Affine):
    """A linear map that is fine-tuned: a softmax over cosines with learned class vectors, from principal components on.

    The embedding itself stays as it is. SetFit, "Efficient Few-Shot Learning Without Prompts" (Tunstall et al., 2022), also
    changes the network.

    Attributes
    ----------
    temperature : float
        Cosines are divided by this.
    penalty : float
        Weight of the squared change of the map, relative to its size.
    """

    temperature: float
    penalty: float

    def _learn(self, training: Training) -> Array:
        classes, numbers = label_numbers(training)
        X = (training.X - self._mean).astype(np.float32)
        start = _components(training, HEAD_DIMENSIONS)  # (r, d)
        prototypes = _class_means(
            unit_length(X @ start.T.astype(np.float32)), numbers, len(classes)
        )  # (L, r)
        cut, size = start.size, float(np.square(start).sum())
        rows = np.arange(len(X))

        def loss(parameters: Array) -> tuple[float, Array]:
            matrix, V = (
                parameters[:cut].reshape(start.shape),
                parameters[cut:].reshape(prototypes.shape),
            )
            z, z_lengths = scaled(X @ matrix.T.astype(np.float32))  # (n, r)
            v, v_lengths = scaled(V.astype(np.float32))  # (L, r)
            logs = log_softmax(z @ v.T / np.float32(self.temperature), axis=1)  # (n, L)
            change = matrix - start
            value = -float(logs[rows, numbers].mean()) + self.penalty * float(np.square(change).sum()) / size
            slope = np.exp(logs)
            slope[rows, numbers] -= 1
            slope /= np.float32(self.temperature * len(X))
            for_matrix = through_scaling(slope @ v, z, z_lengths).T @ X + 2 * self.penalty * change / size
            for_prototypes = through_scaling(slope.T @ z, v, v_lengths)
            return value, np.concatenate([for_matrix.ravel(), for_prototypes.ravel()]).astype(np.float64)

        first = np.concatenate([start.ravel(), prototypes.ravel()]).astype(np.float64)
        found: Any = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": HEAD_ITERATIONS})
        matrix: Array = found.x[:cut].reshape(start.shape)
        return matrix


def scaled(X: Array) -> tuple[Array, Array]:
    """Return rows of unit length, and their lengths (n, 1) before."""
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.float32(1e-12))
    return X / lengths, lengths


def through_scaling(slope: Array, scaled: Array, lengths: Array) -> Array:
    """Return the gradient with respect to rows, given that with respect to the rows of unit length."""
    along = np.einsum("ij,ij->i", slope, scaled)[:, None]
    return (slope - along * scaled) / lengths
