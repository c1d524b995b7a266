"""Found classes of a fit: the groups that the clusterings agree on, among rows without labels that look new.

Every clustering divides the rows into another number of groups. Groups are joined by average linkage as long as their rows agree
more than `MIN_AGREEMENT` on the mean over all clusterings. This decides the number of groups (consensus clustering: Monti et al.,
2003; Fred and Jain, 2005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.inputs.validation import as_float32
from supquant.model.discovery import MIN_AGREEMENT, MIN_NOVELTY, FoundClasses, assign, likeness_and_novelty
from supquant.model.feature_map import unit_rows
from supquant.model.features import FittedRows
from supquant.parallel import row_blocks

MAX_ROWS = 1 << 16
"""Members of found classes are looked for among at most this number of rows without labels."""

LINKED_ROWS = 4096
"""At most this number of rows that look new are joined to groups. They have eight million pairs, which take a second."""

MIN_MEMBERS = 5
"""A found class has at least this number of rows among the linked ones."""

NEAREST_CLASSES = 3
"""Number of known classes that are named for each found class."""

MAX_JUDGED = 128
"""The most similar known classes are those of at most this number of the most typical members."""


def find_groups(rows: FittedRows, rng: np.random.Generator) -> FoundClasses | None:
    """Return the classes that are found among the rows without labels of a fit; None if there are none.

    Parameters
    ----------
    rows : FittedRows
        Their map must have clusterings.
    rng : numpy Generator
        Draws rows if there are very many.
    """
    unlabelled = np.flatnonzero(~rows.labels.known)
    looked_at = _sample(unlabelled, MAX_ROWS, rng)
    likeness, novelty = _read(rows, looked_at)
    new = np.flatnonzero(novelty > MIN_NOVELTY)
    centres = consensus(unit_rows(likeness[_sample(new, LINKED_ROWS, rng)]))
    found = assign(likeness, novelty, centres)
    sizes = np.bincount(found.groups[found.groups >= 0], minlength=len(centres))
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    if not len(order):
        return None
    members = [np.flatnonzero(found.groups == number) for number in order]
    typical_first = [each[np.argsort(-(found.agreement * novelty)[each], kind="stable")] for each in members]
    nearest, nearness = _nearest_classes(rows, [looked_at[each] for each in typical_first])
    return FoundClasses(
        rows=looked_at[np.concatenate(typical_first)].astype(np.int64, copy=False),
        ends=np.cumsum(sizes[order], dtype=np.int64),
        agreement=np.array([found.agreement[each].mean() for each in members], dtype=np.float32),
        novelty=np.array([novelty[each].mean() for each in members], dtype=np.float32),
        nearest_numbers=nearest,
        nearness=nearness,
        centres=np.ascontiguousarray(centres[order]),
        n_rows=len(looked_at),
        classes=rows.labels.classes,
    )


def _sample(numbers: NDArray[np.intp], most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return at most this many of the numbers (n,), in ascending order."""
    return numbers if len(numbers) <= most else np.sort(rng.choice(numbers, most, replace=False))


def _read(rows: FittedRows, looked_at: NDArray[np.intp]) -> tuple[Float32, Float32]:
    """Return the likenesses (n, f) and the novelty (n,) of some rows, block by block: features are wide."""
    parts = [
        likeness_and_novelty(rows.map, rows.features(looked_at[slice(*block)]))
        for block in row_blocks(len(looked_at))
    ]
    likeness, novelty = zip(*parts, strict=True)
    return np.concatenate(likeness), np.concatenate(novelty)


def consensus(likeness: Float32) -> Float32:
    """Return the centres (k, f) of the groups into which rows fall, of likenesses (n, f) of unit length.

    The agreement of a row with a centre is its mean agreement with the members of the group.

    Examples
    --------
    >>> rows = np.float32([[1, 0], [0.6, 0.8], [0, 1]])[[0] * 6 + [2] * 7 + [1] * 2]
    >>> consensus(rows).shape
    (2, 2)
    """
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415  # only a fit needs it

    if len(likeness) < MIN_MEMBERS:
        return likeness[:0]
    apart = 1 - np.clip(likeness @ likeness.T, 0, 1)
    pairs = np.concatenate([line[row + 1 :] for row, line in enumerate(apart)])
    del apart  # linkage needs room for the pairs in float64
    numbers = fcluster(linkage(pairs, "average"), 1 - MIN_AGREEMENT, "distance") - 1
    sizes = np.bincount(numbers)
    sums = np.zeros((len(sizes), likeness.shape[1]))
    np.add.at(sums, numbers, likeness)
    kept = sizes >= MIN_MEMBERS
    return (sums[kept] / sizes[kept, None]).astype(np.float32)


def _nearest_classes(rows: FittedRows, members: list[NDArray[np.intp]]) -> tuple[NDArray[np.int64], Float32]:
    """Return the numbers (k, q) of the most probable known classes of each group, and their mean probabilities (k, q).

    The `MAX_JUDGED` most typical members of a group are asked.
    """
    asked = [each[:MAX_JUDGED] for each in members]
    p = np.array([rows.map.probabilities(as_float32(rows.X[each])).mean(axis=0) for each in asked])
    nearest = np.argsort(-p, axis=1, kind="stable")[:, :NEAREST_CLASSES].astype(np.int64, copy=False)
    return nearest, np.take_along_axis(p, nearest, axis=1).astype(np.float32)
