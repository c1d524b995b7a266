"""Features of training rows, changed to those of rows that the model has not seen.

A model is too sure about its training rows, and has no rows of new classes. Codebooks and curves must suit unseen rows too, so
they are learned from rows that imitate them. Features are ``[p | u | z | c]``, as a `MeaningMap` makes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.spelling import Spelling
from supquant.parallel import ordered_map, row_blocks

MAX_TEMPERATURE = 8.0
"""A temperature is searched between the inverse of this number and this number."""

TEMPERATURE_STEPS = 12
"""A temperature is searched in this number of bisections."""

TEMPERATURE_ROWS = 4096
"""A temperature is chosen on at most this number of rows."""

N_RANKS = 2048
"""Number of ranks, from each end, at which the values of training rows become exactly those of held-out rows."""

BLOCK_VALUES = 1 << 20
"""Number of values that are changed at a time."""


def imitate_held_out_rows(
    features: Float32,
    labels: NDArray[np.bool_],
    held: Float32,
    held_labels: NDArray[np.bool_],
    *,
    multilabel: bool,
    n_jobs: int = 1,
) -> Float32:
    """Return features of training rows as a model would make them that has not seen the rows.

    The probabilities of the words that belong to a row's labels get the distribution that they have in held-out rows, and so do
    the probabilities of the other words. The order within each of the two groups stays.

    Parameters
    ----------
    features : (n, F) float32
        Features of training rows.
    labels : (n, r) bool
        Words of their labels.
    held : (h, F) float32
        Features of held-out rows.
    held_labels : (h, r) bool
        Words of the labels of held-out rows.
    multilabel : bool
        Whether a row can have several labels. If not, probabilities are scaled to sum to one.
    n_jobs : int, default=1
        Number of threads.

    Returns
    -------
    (n, F) float32
        The features themselves if no rows were held out.
    """
    if not len(held) or not len(features):
        return features
    changed = features.copy()
    n_labels = labels.shape[1]
    for carried in (False, True):
        mine, theirs = labels == carried, held_labels == carried
        changed[:, :n_labels][mine] = _match_quantiles(
            features[:, :n_labels][mine], held[:, :n_labels][theirs], n_jobs
        )
    if not multilabel:
        changed[:, :n_labels] /= np.maximum(changed[:, :n_labels].sum(axis=1, keepdims=True), 1e-30)
    return changed


def _match_quantiles(values: Float32, others: Float32, n_jobs: int = 1) -> Float32:
    """Return values (n,), each replaced by the one of the same quantile in others (m,); unchanged if there are no others.

    The map is exact at `N_RANKS` ranks from each end and linear between them. Exact ranks for all values would need a sort that
    takes an eighth of the time of a fit.

    Examples
    --------
    >>> _match_quantiles(np.float32([0.9, 0.1, 0.5]), np.float32([3, 1, 2]))
    array([3., 1., 2.], dtype=float32)
    """
    if not len(others) or not len(values):
        return values
    ranks = np.unique(np.geomspace(1, len(values), N_RANKS).astype(np.intp) - 1)
    ranks = np.union1d(ranks, len(values) - 1 - ranks)  # dense at both ends
    mine, first = np.unique(np.sort(values)[ranks], return_index=True)
    theirs = (np.arange(len(others)) + 0.5) / len(others)
    wanted = np.interp((ranks[first] + 0.5) / len(values), theirs, np.sort(others))
    changed = np.empty_like(values)

    def change(block: tuple[int, int]) -> None:
        changed[slice(*block)] = np.interp(values[slice(*block)], mine, wanted)

    for _ in ordered_map(change, row_blocks(len(values), BLOCK_VALUES), n_jobs):
        pass
    return changed


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
    first: Float32, second: Float32, novelty: Float32, n_labels: int, rng: np.random.Generator
) -> Float32:
    """Return features of imaginary rows of new classes, each between two rows.

    Parameters
    ----------
    first, second : (n, F) float32
        Features of the two rows.
    novelty : (s,) float32
        Novelty of rows of left-out classes; every mixed row gets one of these values.
    n_labels : int
        Number of columns of probabilities.
    rng : Generator

    Returns
    -------
    (n, F) float32
    """
    n = len(first)
    if not n:
        return first
    part = rng.uniform(size=(n, 1)).astype(np.float32)
    mixed = part * first + (1 - part) * second
    mixed[:, n_labels + 1 :] /= np.sqrt(part**2 + (1 - part) ** 2)  # positions keep their mean length
    mixed[:, n_labels] = rng.choice(novelty, size=n)
    return mixed


def hide_own_classes(
    features: Float32,
    own: NDArray[np.intp],
    novelty: Float32,
    wanted: float,
    spelling: Spelling,
    rng: np.random.Generator,
) -> Float32:
    """Return features of rows as if the model did not know their classes.

    Parameters
    ----------
    features : (n, F) float32
    own : (n,) int
        Number of each row's class.
    novelty : (s,) float32
        Novelty of rows of left-out classes, from which that of the rows is drawn.
    wanted : float
        The `sureness` about the other classes that rows of left-out classes have.
    spelling : Spelling
        Words of the labels.
    rng : Generator

    Returns
    -------
    (n, F) float32
    """
    if not len(features):
        return features
    changed = features.copy()
    r = spelling.n_columns
    p = changed[:, :r]
    p[:] = spelling.without(p, own)
    sums = p.sum(axis=1, keepdims=True)
    p[:] = np.where(sums > 0, p / np.maximum(sums, 1e-30), 1 / r)
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
