"""Training rows as others would be: less sure, of new classes, of classes that were left out.

A model knows its training rows too well, and has no row of a class that nobody trained on. Codebooks and curves must serve such
rows all the same, so they are learned from rows made like them. Features are ``[p | u | z | c]``, as a `MeaningMap` makes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.spelling import Spelling
from supquant.parallel import ordered_map, row_blocks

HIGHEST_TEMPERATURE = 8.0
TEMPERATURE_STEPS = 12
SAMPLE_ROWS = 4096

QUANTILES = 2048
"""Ranks from each end at which the values of training rows are set to those of held-out rows."""

BLOCK_VALUES = 1 << 20
"""Values that are changed at a time."""


def as_held_out(
    features: Float32,
    labels: NDArray[np.bool_],
    held: Float32,
    held_labels: NDArray[np.bool_],
    *,
    multilabel: bool,
    n_jobs: int = 1,
) -> Float32:
    """Return features (n, F) of training rows as a model has them that has not seen the rows.

    The probabilities of words (n, r) that their labels have are spread as those of held-out rows (h, F) are, and so are those of
    words that they do not have; the order within each of the two stays.
    """
    if not len(held) or not len(features):
        return features
    changed = features.copy()
    n_labels = labels.shape[1]
    for carried in (False, True):
        mine, theirs = labels == carried, held_labels == carried
        changed[:, :n_labels][mine] = _spread_as(
            features[:, :n_labels][mine], held[:, :n_labels][theirs], n_jobs
        )
    if not multilabel:
        changed[:, :n_labels] /= np.maximum(changed[:, :n_labels].sum(axis=1, keepdims=True), 1e-30)
    return changed


def _spread_as(values: Float32, others: Float32, n_jobs: int = 1) -> Float32:
    """Return values (n,) replaced, in their order, by the quantiles of others (m,); as they are if there are no others.

    The map from one to the other is exact at `QUANTILES` ranks and linear between them: ranks of all values would take a sort
    that remembers where values came from, an eighth of a fit.

    Examples
    --------
    >>> _spread_as(np.float32([0.9, 0.1, 0.5]), np.float32([3, 1, 2]))
    array([3., 1., 2.], dtype=float32)
    """
    if not len(others) or not len(values):
        return values
    ranks = np.unique(np.geomspace(1, len(values), QUANTILES).astype(np.intp) - 1)
    ranks = np.union1d(ranks, len(values) - 1 - ranks)  # close together at both ends
    mine, first = np.unique(np.sort(values)[ranks], return_index=True)
    theirs = (np.arange(len(others)) + 0.5) / len(others)
    wanted = np.interp((ranks[first] + 0.5) / len(values), theirs, np.sort(others))
    changed = np.empty_like(values)

    def change(block: tuple[int, int]) -> None:
        changed[slice(*block)] = np.interp(values[slice(*block)], mine, wanted)

    for _ in ordered_map(change, row_blocks(len(values), BLOCK_VALUES), n_jobs):
        pass
    return changed


def tempered(p: Float32, temperature: float) -> Float32:
    """Return the probabilities p (n, L) of one label a row made less sure by a temperature.

    Examples
    --------
    >>> tempered(np.array([[0.8, 0.2]], dtype=np.float32), 2).round(2)
    array([[0.67, 0.33]], dtype=float32)
    """
    powers = p ** np.float32(1 / temperature)
    return np.asarray(powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-30))


def as_sure_as(p: Float32, wanted: float) -> Float32:
    """Return the probabilities p (n, L) of labels, tempered so that their mean sum of squares is the wanted one, or nearly."""
    sample = p[:SAMPLE_ROWS]
    low, high = -np.log(HIGHEST_TEMPERATURE), np.log(HIGHEST_TEMPERATURE)
    for _ in range(TEMPERATURE_STEPS):
        middle = (low + high) / 2
        too_sure = sureness(tempered(sample, np.exp(middle))) > wanted
        low, high = (middle, high) if too_sure else (low, middle)
    return tempered(p, float(np.exp(low)))


def between_classes(
    first: Float32, second: Float32, novelty: Float32, n_labels: int, rng: np.random.Generator
) -> Float32:
    """Make up features (n, F) of new classes: each between two rows (n, F), and as new as some row of a left-out class."""
    n = len(first)
    if not n:
        return first
    part = rng.uniform(size=(n, 1)).astype(np.float32)
    mixed = part * first + (1 - part) * second
    mixed[:, n_labels + 1 :] /= np.sqrt(part**2 + (1 - part) ** 2)  # as long as rows are
    mixed[:, n_labels] = rng.choice(novelty, size=n)
    return mixed


def as_left_out(
    features: Float32,
    own: NDArray[np.intp],
    novelty: Float32,
    wanted: float,
    spelling: Spelling,
    rng: np.random.Generator,
) -> Float32:
    """Return features (n, F) of rows as if their own classes (n,) were unknown.

    They are as new as rows of left-out classes, and on average as sure as wanted of the classes that are left.
    """
    if not len(features):
        return features
    changed = features.copy()
    r = spelling.n_columns
    p = changed[:, :r]
    p[:] = spelling.without(p, own)
    sums = p.sum(axis=1, keepdims=True)
    p[:] = np.where(sums > 0, p / np.maximum(sums, 1e-30), 1 / r)
    p[:] = as_sure_as(p, wanted / spelling.length)
    drawn = np.sort(rng.choice(novelty, size=len(changed)))[::-1]
    changed[np.argsort(p.max(axis=1)), r] = drawn  # what looks like one known class looks less new
    return changed


def sureness(p: Float32) -> float:
    """Return the mean sum of squares of probabilities (n, L).

    Examples
    --------
    >>> sureness(np.array([[1.0, 0.0], [0.5, 0.5]]))
    0.75
    """
    return float(np.square(p).sum(axis=1).mean())
