"""Report: the hashing methods. Their papers measure codes made from the vectors alone.

A `grid` has the parameters that a validation search tries: about 40 points, as for supervised quantization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from supquant_lab.methods.codes import EstimatorMethod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def decades(first: int, last: int) -> tuple[float, ...]:
    """Return the powers of ten between two exponents, both included.

    Examples
    --------
    >>> decades(-1, 1)
    (0.1, 1.0, 10.0)
    """
    return tuple(10.0**exponent for exponent in range(first, last + 1))


class Hashing(EstimatorMethod):
    """A class of `supquant_lab.hashing`; each code length is fitted alone."""

    rankings = ("hamming",)
    published = "encoded"


class SupervisedDiscreteHashing(Hashing):
    """`sdh`."""

    name = "sdh"
    kernel = True
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "function_weight": decades(-7, 2),
        "classifier_ridge": decades(-1, 2),
    }


class LinearDiscreteHashing(SupervisedDiscreteHashing):
    """`sdh-linear`: SDH on the vectors as they are."""

    name = "sdh-linear"
    kernel = False


class KernelSupervisedHashing(Hashing):
    """`ksh`."""

    name = "ksh"
    kernel = True
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "ridge": decades(-8, -1),
        "max_iter": (0, 100, 300, 500, 1000),
    }


class TreeHashing(Hashing):
    """`fasthash`."""

    name = "fasthash"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "tree_depth": (2, 4, 6, 8),
        "n_trees": (50, 100, 200, 400),
        "n_pairs": (50, 100, 400),
    }


class CorrelationHashing(Hashing):
    """`cca-itq`."""

    name = "cca-itq"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "covariance_ridge": tuple(float(ridge) for ridge in np.geomspace(1e-8, 1e1, 40))
    }


class SemiSupervisedHashing(Hashing):
    """`ssh`."""

    name = "ssh"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "variance_weight": decades(-4, 5),
        "variant": ("orthogonal", "nonorthogonal", "sequential"),
        "correction": (1.0, 0.1),
    }


class MinimalLossHashing(Hashing):
    """`mlh`."""

    name = "mlh"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "dissimilar_weight": (0.1, 0.3, 1.0, 3.0, 10.0),
        "weight_decay": decades(-6, -3),
        "learning_rate": (0.1, 0.3),
    }


class ReconstructiveHashing(Hashing):
    """`bre`."""

    name = "bre"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_landmarks": (25, 50, 100, 200),
        "pairs": (0.02, 0.05, 0.1),
        "similar": (0.1, 0.25, 0.5, 0.75),
    }
