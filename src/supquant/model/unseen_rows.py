"""Features of training rows, changed to those of rows that the model has not seen.

A model is too sure of its training rows, and has no rows of new classes. Codebooks and curves must suit unseen rows too, so they
are learned from rows that imitate them. Features are ``[s | u | F | z | c]``, as a `SupervisedMap` makes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.model.spelling import Spelling
from supquant.parallel import ordered_map, row_blocks

MAX_TEMPERATURE = 8.0
"""A temperature is searched between the inverse of this number and this number."""

TEMPERATURE_STEPS = 12
"""A temperature is searched in this number of bisections."""

TEMPERATURE_ROWS = 4096
"""A temperature is chosen on at most this number of rows."""

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


def temper(p: Float32, temperature: float) -> Float32:
    """Return probabilities p (n, L), raised to the power of 1 / temperature and scaled to sum to one in every row.

    Examples
    --------
    >>> temper(np.array([[0.8, 0.2]], dtype=np.float32), 2).round(2)
    array([[0.67, 0.33]], dtype=float32)
    """
    powers = p ** np.float32(1 / temperature)
    return np.asarray(powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-30))


def temper_to_sureness(p: Float32, wanted: float) -> Float32:
    """Return probabilities p (n, L), tempered so that their `sureness` is nearly the wanted one."""
    sample = p[:TEMPERATURE_ROWS]
    low, high = -np.log(MAX_TEMPERATURE), np.log(MAX_TEMPERATURE)
    for _ in range(TEMPERATURE_STEPS):
        middle = (low + high) / 2
        too_sure = sureness(temper(sample, np.exp(middle))) > wanted
        low, high = (middle, high) if too_sure else (low, middle)
    return temper(p, float(np.exp(low)))


def mix_rows(
    first: Float32, second: Float32, novelty: Float32, n_columns: int, rng: np.random.Generator
) -> Float32:
    """Return features (n, F) of imaginary rows of new classes, each between two rows with features (n, F).

    The first `n_columns` columns are s, and the next one is u. Each u is drawn from `novelty` (k,), that of rows of left-out
    classes.
    """
    n = len(first)
    if not n:
        return first
    share = rng.uniform(size=(n, 1)).astype(np.float32)
    mixed = share * first + (1 - share) * second
    mixed[:, n_columns + 1 :] /= np.sqrt(share**2 + (1 - share) ** 2)  # positions keep their mean length
    mixed[:, n_columns] = rng.choice(novelty, size=n)
    return mixed


def hide_own_classes(
    features: Float32,
    own: NDArray[np.intp],
    novelty: Float32,
    wanted: float,
    spelling: Spelling,
    rng: np.random.Generator,
) -> Float32:
    """Return features (n, F) of rows as if the model did not know their classes `own` (n,).

    Their `novelty` is drawn from that of rows of left-out classes (s,), and their `sureness` about the other classes becomes the
    one `wanted`, that of the label probabilities of rows of left-out classes.
    """
    if not len(features):
        return features
    changed = features.copy()
    r = spelling.n_columns
    p = changed[:, :r]
    p[:] = spelling.without(p, own)
    sums = p.sum(axis=1, keepdims=True)
    p[:] = np.where(sums > 0, p / np.maximum(sums, 1e-30), 1 / r)
    # Each of the t words of a label has 1 / t of its probability, so the sum of squares is 1 / t of that of labels.
    p[:] = temper_to_sureness(p, wanted / spelling.length)
    drawn = np.sort(rng.choice(novelty, size=len(changed)))[::-1]
    changed[np.argsort(p.max(axis=1)), r] = drawn  # a row that resembles one known class is less new
    return changed


def sureness(p: Float32) -> float:
    """Return the mean over rows of the sum of squared probabilities (n, L); it is 1 if every row is sure.

    Examples
    --------
    >>> sureness(np.array([[1.0, 0.0], [0.5, 0.5]]))
    0.75
    """
    return float(np.square(p).sum(axis=1).mean())
