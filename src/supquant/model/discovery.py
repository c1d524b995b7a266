"""Found classes: classes that nobody has labelled, as a codec holds them, and which of them a vector belongs to.

The agreement of two vectors is the mean over the clusterings of how much they are members of the same columns: the cosine of
their likenesses F. Groups of rows are joined by average linkage as long as they agree more than `MIN_AGREEMENT`. This decides
the number of groups (consensus clustering: Monti et al., 2003; Fred and Jain, 2005). A vector that looks new belongs to the
group whose members it agrees with most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, RowNumbers
from supquant.codec.base import check_parts
from supquant.codec.queries import pack_rows, row_products
from supquant.errors import InputError
from supquant.inputs.validation import as_float32
from supquant.model.feature_map import SupervisedMap, unit_rows
from supquant.parallel import row_blocks
from supquant.storage import lay_out_as_stored

if TYPE_CHECKING:
    from supquant.model.features import FittedRows

MIN_NOVELTY = 0.5
"""A row belongs to a found class only if its probability of no known class is above this."""

MIN_AGREEMENT = 0.25
"""Groups are joined, and rows belong to a group, only above this agreement. Where known classes are searched for without their
labels, 0.2 to 0.3 finds them best (docs/maintainers/decisions.md)."""

TYPICAL_ROWS = 10
"""Number of typical rows of a found class."""

MAX_ROWS = 1 << 16
"""Members of found classes are looked for among at most this number of rows without labels."""

LINKED_ROWS = 4096
"""At most this number of rows that look new are joined to groups. They have eight million pairs, which take a second."""

MIN_MEMBERS = 5
"""A found class has at least this number of rows among the linked ones."""

NEAREST_CLASSES = 3
"""Number of known classes that are named for each found class."""

MAX_JUDGED = 128
"""The position of a found class, and the known classes nearest to it, are those of at most this number of typical members."""


@dataclass(frozen=True, eq=False, repr=False)
class FoundClasses:
    """Classes that nobody has labelled, found among the rows without labels of a fit. The largest comes first.

    `SupervisedQuantizer.found_` holds them. A model file keeps everything that is here.

    Attributes
    ----------
    sizes : ndarray of shape (k,), int64
        Number of members of each found class.
    members : tuple of k ndarrays, int64
        Their row numbers in the `X` of `fit`, the most typical first.
    typical : tuple of k ndarrays, int64
        The first ten of them.
    agreement : ndarray of shape (k,), float32
        How sure the group is, from 0 to 1: the mean agreement of its members with each other, over all clusterings.
    novelty : ndarray of shape (k,), float32
        How sure it is that the group is new: the mean probability of its members that they belong to no known class.
    nearest : ndarray of shape (k, 3)
        The labels of the known classes that are most similar, or fewer if fewer are known.
    nearness : ndarray of shape (k, 3), float32
        The mean probabilities that members have these labels, if they are of a known class at all.
    centres : ndarray of shape (k, f), float32
        The mean likenesses of the members, each of unit length. Their product with the likeness of a vector is its agreement.
    n_rows : int
        Number of rows without labels among which these were found: at most 65,536 that are drawn at random.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> labels = [label if label < 9 and row % 2 else None for row, label in enumerate(y)]
    >>> found = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, labels).found_
    >>> y[found.typical[0]]
    array([9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    """

    rows: RowNumbers  # (m,) the members of all groups, group by group
    ends: NDArray[np.int64]  # (k,) the end of each group in `rows`
    agreement: Float32
    novelty: Float32
    nearest_numbers: NDArray[np.int64]  # (k, q) numbers of `classes`
    nearness: Float32
    centres: Float32
    n_rows: int
    classes: NDArray[Any]  # (L,) the labels that the model knows

    _ARRAYS = ("rows", "ends", "agreement", "novelty", "nearest_numbers", "nearness", "centres")

    def __post_init__(self) -> None:
        lay_out_as_stored(self, self._ARRAYS)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of members of each found class."""
        return np.diff(self.ends, prepend=0)

    @property
    def members(self) -> tuple[RowNumbers, ...]:
        """Row numbers of the members in the `X` of `fit`, the most typical first."""
        return tuple(np.split(self.rows, self.ends[:-1])) if len(self) else ()

    @property
    def typical(self) -> tuple[RowNumbers, ...]:
        """Row numbers of the most typical members."""
        return tuple(rows[:TYPICAL_ROWS] for rows in self.members)

    @property
    def nearest(self) -> NDArray[Any]:
        """The labels (k, 3) of the most similar known classes."""
        return np.asarray(self.classes[self.nearest_numbers])

    def __repr__(self) -> str:
        return f"FoundClasses: {len(self)} with {len(self.rows):,} of {self.n_rows:,} rows without labels"

    def __str__(self) -> str:
        lines = [repr(self)]
        if len(self):
            lines.append("  class   rows  agreement  novelty  nearest known classes")
        for number, (size, agreement, novelty) in enumerate(
            zip(self.sizes, self.agreement, self.novelty, strict=True)
        ):
            near = ", ".join(
                f"{label} {share:.0%}" for label, share in self._neighbours(number) if share >= 0.005
            )
            lines.append(f"  {number:5} {size:6,}  {agreement:9.2f}  {novelty:7.2f}  {near}")
        return "\n".join(lines)

    def _neighbours(self, number: int) -> Iterator[tuple[Any, float]]:
        """Return the nearest known classes of a found class, with their nearness."""
        return zip(self.nearest[number].tolist(), self.nearness[number].tolist(), strict=True)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        own = {name: getattr(self, name) for name in self._ARRAYS}
        return own | {"n_rows": np.array([self.n_rows], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], classes: NDArray[Any], n_likeness: int) -> Self:
        """Return the found classes with the arrays of a file, of a model with likenesses (f,) and these classes (L,)."""
        own = {name: arrays[name] for name in cls._ARRAYS}
        check_parts(own, agreement=("k",), novelty=("k",), nearness=("k", "q"), centres=("k", n_likeness))
        rows, ends, numbers, n_rows = own["rows"], own["ends"], own["nearest_numbers"], arrays["n_rows"]
        if any(each.dtype != np.int64 for each in (rows, ends, numbers, n_rows)) or n_rows.shape != (1,):
            raise InputError("rows and numbers of found classes must be int64")
        if (
            rows.ndim != 1
            or ends.shape != own["agreement"].shape
            or (np.diff(ends, prepend=0) < 1).any()
            or (ends[-1] if len(ends) else 0) != len(rows)
        ):
            raise InputError("the ends of found classes must be ascending and divide all of their rows")
        if (rows < 0).any() or numbers.shape != own["nearness"].shape:
            raise InputError(
                "found classes must have row numbers, and as many nearest classes as measures of them"
            )
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(classes):
            raise InputError(f"found classes have neighbours outside of the {len(classes)} known classes")
        return cls(**own, n_rows=int(n_rows[0]), classes=classes)


class Discovered(NamedTuple):
    """Which found class rows belong to, and how sure that is."""

    groups: NDArray[np.int64]  # (n,) numbers of found classes; -1 for none
    agreement: Float32  # (n,) the mean agreement with the members of the best group
    novelty: Float32  # (n,) the probability of no known class


def assign(likeness: Float32, novelty: Float32, centres: Float32) -> Discovered:
    """Return the found class of each row.

    Parameters
    ----------
    likeness : ndarray of shape (n, f), float32
        Likenesses F of rows.
    novelty : ndarray of shape (n,), float32
        Their probabilities of no known class.
    centres : ndarray of shape (k, f), float32
        Centres of the found classes.

    Examples
    --------
    >>> rows, centres = np.float32([[0, 2], [1, 1], [2, 0]]), np.float32([[0.8, 0], [0, 0.9]])
    >>> assign(rows, np.float32([0.9, 0.9, 0.1]), centres).groups
    array([ 1,  1, -1])
    """
    if not len(centres):
        return Discovered(
            np.full(len(likeness), -1, dtype=np.int64), np.zeros(len(likeness), dtype=np.float32), novelty
        )
    products = row_products(unit_rows(likeness), pack_rows(centres))
    best = products.argmax(axis=1).astype(np.int64, copy=False)
    agreement = np.take_along_axis(products, best[:, None], axis=1)[:, 0]
    sure = (novelty > MIN_NOVELTY) & (agreement >= MIN_AGREEMENT)
    return Discovered(np.where(sure, best, -1), agreement, novelty)


def likeness_and_novelty(map_: SupervisedMap, features: Float32) -> tuple[Float32, Float32]:
    """Return the columns F (n, f) and u (n,) of features."""
    r = map_.n_columns
    return features[:, r + 1 : r + 1 + map_.n_likeness], features[:, r]


# groups among the rows of a fit ----------------------------------------------------------------------------------------


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


def group_positions(rows: FittedRows, found: FoundClasses) -> Float32:
    """Return the mean positions (k, g) of the most typical members of each found class."""
    asked = [each[:MAX_JUDGED] for each in found.members]
    return np.array([rows.map.positions(as_float32(rows.X[each])).mean(axis=0) for each in asked])


def _nearest_classes(rows: FittedRows, members: list[NDArray[np.intp]]) -> tuple[NDArray[np.int64], Float32]:
    """Return the numbers (k, q) of the most probable known classes of each group, and their mean probabilities (k, q).

    The `MAX_JUDGED` most typical members of a group are asked.
    """
    asked = [each[:MAX_JUDGED] for each in members]
    p = np.array([rows.map.probabilities(as_float32(rows.X[each])).mean(axis=0) for each in asked])
    nearest = np.argsort(-p, axis=1, kind="stable")[:, :NEAREST_CLASSES].astype(np.int64, copy=False)
    return nearest, np.take_along_axis(p, nearest, axis=1).astype(np.float32)
