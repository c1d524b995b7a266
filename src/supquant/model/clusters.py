"""Vectors to features: the memberships of a vector in an ensemble of clusterings.

The columns of a clustering are the classes that have labels and groups that were found among rows without labels. The membership
of a vector is a softmax over the columns, ``P = softmax(T z . C)`` for vectors z and centres C of unit length. That is a Gaussian
kernel of bandwidth ``T^(-1/2)`` around the centres, divided by its sum over a clustering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.base import add_prefix, check_parts, split_prefix
from supquant.codec.gaussian_map import GaussianMap
from supquant.errors import InputError
from supquant.storage import lay_out_as_stored

_CLUSTERS = "clusters."
"""Prefix of the arrays of clusterings among those of a map that holds them."""


@dataclass(frozen=True)
class Clusters:
    """An ensemble of clusterings. The columns of all clusterings stand next to each other."""

    kernel: GaussianMap  # around the centres (w, g), which have unit length
    ratios: Float32  # (w,) log of by how much rows without labels outnumber others near a vector, linear in memberships
    ends: NDArray[np.int64]  # (R,) the column after the last one of each clustering

    def __post_init__(self) -> None:
        lay_out_as_stored(self, ["ratios", "ends"])

    def memberships(self, z: Float32) -> Float32:
        """Return the memberships (b, w) of vectors at positions z (b, g); those of a clustering sum to one."""
        return normalised(self.kernel(unit_positions(z)), self.ends)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        return add_prefix(_CLUSTERS, {**self.kernel.arrays(), "ratios": self.ratios, "ends": self.ends})


def clusters_from_arrays(arrays: dict[str, NDArray[Any]], n_position: int) -> Clusters | None:
    """Return the clusterings whose arrays are among those of a map with positions (g,); None if there are none."""
    own, _ = split_prefix(_CLUSTERS, arrays)
    if not own:
        return None
    kernel = GaussianMap.from_arrays(own)
    sizes = check_parts({"ratios": own["ratios"]}, ratios=("w",))
    ends = own["ends"]
    if (
        ends.dtype != np.int64
        or ends.ndim != 1
        or not len(ends)
        or (np.diff(ends, prepend=0) < 1).any()
        or ends[-1] != sizes["w"]
    ):
        raise InputError("the ends of clusterings must be ascending column numbers")
    if kernel.anchors.shape != (sizes["w"], n_position):
        raise InputError(
            f"centres must have the shape {(sizes['w'], n_position)}, got {kernel.anchors.shape}"
        )
    return Clusters(kernel, own["ratios"], ends)


def unit_positions(z: Float32) -> Float32:
    """Return positions z (b, g), divided by their lengths; a row of zeros stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", z, z, dtype=np.float64))[:, None]
    return np.divide(z, np.where(lengths > 0, lengths, 1)).astype(np.float32)


def normalised(values: Float32, ends: NDArray[np.int64]) -> Float32:
    """Return values (b, w), divided by their sums over each clustering, in place.

    Examples
    --------
    >>> normalised(np.float32([[1, 3, 2, 2]]), np.array([2, 4]))
    array([[0.25, 0.75, 0.5 , 0.5 ]], dtype=float32)
    """
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.add.reduceat(values.astype(np.float64), starts, axis=1)
    sums[sums <= 0] = 1
    values /= np.repeat(sums, ends - starts, axis=1)
    return values


def cluster_powers(memberships: Float32) -> Float32:
    """Return memberships (b, w) to the power of 3/4.

    Powers below one let rows that lie between groups count as similar to both.

    Examples
    --------
    >>> cluster_powers(np.float32([[0.0625, 1]]))
    array([[0.125, 1.   ]], dtype=float32)
    """
    roots = np.sqrt(memberships)
    return np.asarray(roots * np.sqrt(roots))
