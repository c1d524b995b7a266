"""Features of training rows, changed to those of rows that the model has not seen.

A model is too sure of its training rows. Codebooks must suit unseen rows too, so they are also learned from rows that imitate
them. Features are ``[s | u | F | z | c]``, as a `SupervisedMap` makes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.parallel import ordered_map, row_blocks

N_RANKS = 2048
"""Number of ranks, counted from each end, at which the values of training rows become exactly those of held-out rows."""

MAX_QUANTILE_VALUES = 1 << 20
"""If there are more than twice this number of probabilities, only those of every k-th row are sorted."""

MIN_IMAGE = 1e-6
"""If a probability of held-out rows is below this, that of training rows with the same rank becomes zero."""


def imitate_held_out_rows(
    features: Float32,
    labels: NDArray[np.bool_],
    held: Float32,
    held_labels: NDArray[np.bool_],
    *,
    multilabel: bool,
    n_jobs: int = 1,
) -> Float32:
    """Return features of training rows as made by a model that has not seen these rows.

    The probabilities of the words that belong to a row's labels get the distribution that they have in held-out rows, and so do
    the probabilities of the other words. The order within each of the two groups stays. With one label per row, probabilities are
    scaled to sum to one.

    Parameters
    ----------
    features, held : (n, F) and (h, F) float32
        Features of training rows and of held-out rows. If none are held out, the features are returned as they are.
    labels, held_labels : (n, r) and (h, r) bool
        Words of the labels of these rows.
    multilabel : bool
    n_jobs : int, default=1
    """
    if not len(held) or not len(features):
        return features
    changed = features.copy()
    n_columns = labels.shape[1]  # r, of s
    every = max(1, labels.size // MAX_QUANTILE_VALUES)
    of_others, of_own = (
        _quantile_map(
            features[::every, :n_columns][labels[::every] == own], held[:, :n_columns][held_labels == own]
        )
        for own in (False, True)
    )

    # Of many labels, most have a probability that is as good as zero: only the others need an interpolation.
    points, images = of_others
    n_small = int(np.searchsorted(images, MIN_IMAGE))
    least, of_small = (points[n_small - 1], 0.0) if n_small else (points[0], images[0])

    def change(block: tuple[int, int]) -> None:
        p, own = changed[slice(*block), :n_columns], labels[slice(*block)]
        own_values = np.interp(p[own], *of_own)
        counting = p > least
        values = np.interp(p[counting], points, images)
        p[...] = of_small
        p[counting] = values
        p[own] = own_values
        if not multilabel:
            p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-30)

    for _ in ordered_map(change, row_blocks(len(changed)), n_jobs):
        pass
    return changed


def _quantile_map(values: Float32, others: Float32) -> tuple[Float32, Float64]:
    """Return points (k,) and images (k,) with which `np.interp` maps each value to the same quantile of the others (m,).

    The map is exact at `N_RANKS` ranks from each end of the values (n,) and linear between them. Exact ranks for all values would
    need a sort that takes an eighth of the time of a fit. If there are no values or no others, every value stays as it is.

    Examples
    --------
    >>> np.interp([0.9, 0.1, 0.5], *_quantile_map(np.float32([0.9, 0.1, 0.5]), np.float32([3, 1, 2])))
    array([3., 1., 2.])
    """
    if not len(others) or not len(values):
        ends = np.array([0, 1])  # of a probability
        return ends.astype(np.float32), ends.astype(np.float64)
    ranks = np.unique(np.geomspace(1, len(values), N_RANKS).astype(np.intp) - 1)
    ranks = np.union1d(ranks, len(values) - 1 - ranks)  # dense at both ends
    points, first = np.unique(np.sort(values)[ranks], return_index=True)
    quantiles = (np.arange(len(others)) + 0.5) / len(others)
    return points, np.interp((ranks[first] + 0.5) / len(values), quantiles, np.sort(others))
