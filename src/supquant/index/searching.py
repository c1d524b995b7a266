"""Queries to answers: one search over one snapshot, and the answers of several runs of rows merged into one."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.interface import AnyCodec, QueryTables
from supquant.errors import InputError
from supquant.index.parts import Positions, Sums, View
from supquant.index.refining import Refine, check_refinable, read_refine
from supquant.index.snapshot import Snapshot
from supquant.inputs.parameters import check_choice
from supquant.inputs.validation import check_vectors, refuse_masked
from supquant.model.codec import SupervisedCodec
from supquant.model.exact import ExactQueries, exact_queries, order_exact
from supquant.parallel import BLOCK_ROWS, row_blocks

__all__ = ["Search", "merge_answers"]

_RANKING_BYTES = 16 << 20
"""The sums and positions of one block of whole rankings take at most this number of bytes, or those of one query."""

_ANSWER_BYTES = 12
"""The number of bytes of one sum (float32) and one position (int64)."""

Bits = NDArray[np.uint8]
"""The codes (q, M) of queries, if sums are Hamming distances."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(eq=False, slots=True)  # not frozen, because that takes longer to make
class Search:
    """The rows that one call searches, even if the index changes meanwhile. `SearchableIndex` says what the answers are.

    `lowest`, `within`, `exact`, `codes_at`, `ids_at` and `n_rows` are all that it does with rows. A search of rows that lie
    elsewhere has others.

    Parameters
    ----------
    codec : AnyCodec
        Makes the tables of queries.
    snapshot : Snapshot
        The rows of the index.
    views : sequence of View
        The rows of the snapshot to search. A view begins where the one before it begins, and has other rows of the same run, or
        after all of its rows.
    n_threads : int
        The number of threads.
    novelty : float or array (q,), default=None
        The probability that a query belongs to no known class. None lets the codec predict it.
    all_labelled : bool, default=False
        Whether the labels of all items are known.
    """

    codec: AnyCodec
    snapshot: Snapshot
    views: Sequence[View]
    n_threads: int
    novelty: ArrayLike | None = None
    all_labelled: bool = False

    def find_best(
        self, Q: ArrayLike, k: int, ranking: str | None, refine: object = None
    ) -> tuple[Sums, NDArray[Any]]:
        """Return the scores and ids (q, k') of the best rows for every query."""
        if refine is not None:
            return self._find_refined(Q, k, ranking, read_refine(refine))
        found = []
        for queries in self.table_blocks(Q, ranking):
            sums, positions = self.lowest(queries.tables, queries.bits, k)
            found.append((queries.scores(sums), positions))
        if len(found) == 1:
            scores, positions = found[0]
        else:
            scores, positions = (np.concatenate(each) for each in zip(*found, strict=True))
        return scores, self.ids_at(positions)

    def _find_refined(
        self, Q: ArrayLike, k: int, ranking: str | None, refine: Refine
    ) -> tuple[Sums, NDArray[Any]]:
        """Return the scores and ids (q, k') of the best rows, of which the first ones are ordered by their vectors."""
        codec = check_refinable(self.codec)
        if refine.source is None:
            self._check_vectors()
        checked, n = self._check_queries(Q), max(k, refine.n_rows)
        found = []
        for block in row_blocks(len(checked)) or [(0, 0)]:
            queries, exact = exact_queries(
                codec,
                checked[slice(*block)],
                ranking,
                novelty=self._novelty_of(block),
                all_labelled=self.all_labelled,
                n_jobs=self.n_threads,
            )
            if refine.source is None:
                scores, cosines, ids = self.exact(queries, n, exact)
            else:
                positions = self.lowest(queries.tables, queries.bits, n)[1]
                ids = self.ids_at(positions)
                scores, cosines = refine.exact_scores(codec, ids, self.codes_at(positions.ravel()), exact)
            scores, order = order_exact(queries, scores, cosines)
            found.append((scores[:, :k], np.take_along_axis(ids, order[:, :k], axis=1)))
        scores, ids = (np.concatenate(each) for each in zip(*found, strict=True))
        return scores, ids

    def find_lowest_sums(self, tables: ArrayLike, k: int) -> tuple[Sums, NDArray[Any]]:
        """Return the sums and ids (q, k') of the rows with the lowest sums for every table."""
        bits = tables.bits if isinstance(tables, QueryTables) else None
        array = (
            tables.tables if isinstance(tables, QueryTables) else np.asarray(refuse_masked(tables, "tables"))
        )
        M, K = self.codec.n_codebooks, self.codec.n_codewords
        if array.ndim != 3 or array.shape[1:] != (M, K) or array.dtype.kind not in "fiu":
            raise InputError(
                f"tables must be numbers of shape (q, {M}, {K}), got {array.dtype} of shape {array.shape}"
            )
        checked = np.ascontiguousarray(array, dtype=np.float32)
        sums, positions = self.lowest(checked, bits, k)
        return sums, self.ids_at(positions)

    def find_in_range(
        self, Q: ArrayLike, threshold: object, ranking: str | None
    ) -> tuple[Positions, Sums, NDArray[Any]]:
        """Return limits (q + 1,), and scores and ids (limits[-1],) of all rows whose score reaches a threshold."""
        bound = _check_threshold(threshold)
        found = [self._within_of_block(queries, bound) for queries in self.table_blocks(Q, ranking)]
        counts, scores, positions = (np.concatenate(each) for each in zip(*found, strict=True))
        return np.concatenate([[0], np.cumsum(counts)]), scores, self.ids_at(positions)

    def _within_of_block(
        self, queries: QueryTables, threshold: np.float32
    ) -> tuple[Positions, Sums, Positions]:
        limits = _sum_limits(queries, threshold)
        which, sums, positions = self.within(queries.tables, queries.bits, limits)
        scores = queries.take(which).scores(sums[:, None])[:, 0]
        good = scores >= threshold if queries.descending else scores <= threshold
        return np.bincount(which[good], minlength=len(queries)), scores[good], positions[good]

    def rank_rows(self, Q: ArrayLike, ranking: str | None) -> Iterator[tuple[Sums, NDArray[Any]]]:
        """Return an iterator over blocks of queries: the scores and ids (b, n) of all rows for each query."""
        checked = self._check_queries(Q)
        if ranking is not None:
            check_choice(ranking, "ranking", self.codec.rankings)
        n_rows = max(1, self.n_rows)

        def ranked(block: tuple[int, int]) -> tuple[Sums, NDArray[Any]]:
            return replace(self, novelty=self._novelty_of(block)).find_best(
                checked[slice(*block)], n_rows, ranking
            )

        block_queries = max(1, _RANKING_BYTES // (_ANSWER_BYTES * n_rows))
        return map(ranked, row_blocks(len(checked), min(BLOCK_ROWS, block_queries)))

    def table_blocks(self, Q: ArrayLike, ranking: str | None) -> Iterator[QueryTables]:
        """Return the tables of queries, in blocks of at most `BLOCK_ROWS` queries. There is at least one block."""
        if isinstance(Q, Sized) and getattr(Q, "ndim", 2) > 0 and len(Q) > BLOCK_ROWS:
            checked = self._check_queries(Q)
            for block in row_blocks(len(checked)):
                yield self._make_tables(checked[slice(*block)], ranking, self._novelty_of(block))
        else:
            yield self._make_tables(Q, ranking, self.novelty)

    # what is done with rows ----------------------------------------------------------------------------------------------

    def lowest(self, tables: Sums, bits: Bits | None, k: int) -> tuple[Sums, Positions]:
        """Return the k lowest sums (q, k') for every query, in ascending order, and the positions of their rows.

        k' is k, or the number of rows if that is smaller. `bits` are the codes of the queries if sums are Hamming distances.
        """
        scan = kernels.scanning().scan
        found = []
        for view in self.views:
            view.segment.check_before_scan()
            try:
                sums, rows = scan(view.scanned, tables, k, bits, n_threads=self.n_threads)
            except ValueError as error:
                raise InputError(f"these queries cannot be ranked: {error}") from error
            found.append((sums, view.positions(rows)))
        return merge_answers(found, k, len(tables), mixed=len(found) > 1 and _are_mixed(self.views))

    def within(self, tables: Sums, bits: Bits | None, limits: Sums) -> tuple[Positions, Sums, Positions]:
        """Return the query, the sum and the position of every row whose sum is at most the limit (q,) of the query.

        Queries ascend, and sums ascend for each query.
        """
        scan = kernels.scanning().scan_within
        found = [(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))]
        for view in self.views:
            view.segment.check_before_scan()
            try:
                starts, sums, rows = scan(view.scanned, tables, limits, bits, n_threads=self.n_threads)
            except ValueError as error:
                raise InputError(f"these queries cannot be ranked: {error}") from error
            found.append((np.repeat(np.arange(len(tables)), np.diff(starts)), sums, view.positions(rows)))
        queries, sums, positions = (np.concatenate(each) for each in zip(*found, strict=True))
        # The sort is stable: rows of equal sums stay in order of position, unless rows were updated.
        order = np.lexsort((positions, sums, queries) if _are_mixed(self.views) else (sums, queries))
        return queries[order], sums[order], positions[order]

    def exact(
        self, queries: QueryTables, n: int, exact: ExactQueries
    ) -> tuple[Float32, Float32, NDArray[Any]]:
        """Return the exact scores, the cosines and the ids, all (q, n'), of the n rows with the lowest sums for every query."""
        positions = self.lowest(queries.tables, queries.bits, n)[1]
        scores, cosines = self.snapshot.exact_scores(positions, exact, self.n_threads)
        return scores, cosines, self.ids_at(positions)

    def codes_at(self, positions: Positions) -> Codes:
        """Return the codes (n, M) of rows that a scan found, by their positions (n,)."""
        return self.snapshot.codes_at(positions, self.codec.n_codebooks)

    def _check_vectors(self) -> None:
        """Raise an `InputError` unless the index keeps vectors."""
        if self.snapshot.vectors is None:
            raise InputError(
                "the index keeps no vectors: give the source of the vectors as refine=source, or make an index with "
                "CodeIndex(..., vectors='int8')"
            )

    def ids_at(self, positions: Positions) -> NDArray[Any]:
        """Return the ids of the rows that a scan found, in the shape of `positions`."""
        self.snapshot.check_unchanged()
        return self.snapshot.ids_at(positions)

    @property
    def n_rows(self) -> int:
        """The number of rows of the index."""
        return self.snapshot.n_live

    # queries -------------------------------------------------------------------------------------------------------------

    def _make_tables(self, Q: ArrayLike, ranking: str | None, novelty: ArrayLike) -> QueryTables:
        if isinstance(self.codec, SupervisedCodec):
            return self.codec.query_tables(
                Q, ranking, novelty=novelty, all_labelled=self.all_labelled, n_jobs=self.n_threads
            )
        if novelty is not None:
            raise InputError(
                "novelty needs a codec of meaning and position, as SupervisedQuantizer learns by default"
            )
        return self.codec.query_tables(Q, ranking, n_jobs=self.n_threads)

    def _novelty_of(self, block: tuple[int, int]) -> object:
        """Return the novelty of a block of queries, as in `novelty`."""
        return self.novelty if np.ndim(self.novelty) == 0 else np.asarray(self.novelty)[slice(*block)]  # type: ignore[arg-type]

    def _check_queries(self, Q: ArrayLike) -> NDArray[Any]:
        return check_vectors(Q, name="Q", n_features=self.codec.n_inputs, min_rows=0)


def _check_threshold(threshold: object) -> np.float32:
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise InputError(f"threshold must be a number, got {threshold!r}")
    try:
        number = float(threshold)
    except OverflowError:  # an integer or a fraction beyond all floats
        number = math.inf if abs(threshold) == threshold else -math.inf
    if math.isnan(number):
        raise InputError(f"threshold must be a number, got {threshold!r}")
    return np.float32(min(max(number, -_FLOAT32_MAX), _FLOAT32_MAX))


def _sum_limits(queries: QueryTables, threshold: np.float32) -> Sums:
    """Return limits (q,) float32: no sum of a row within the threshold is above the limit of its query.

    Scores are rounded after the sum. So a few rows outside the threshold are below the limits too, and scores are compared later.
    """
    offsets = queries.offsets.astype(np.float64)
    bounds = (
        np.array([float(threshold)]) if queries.curve is None else queries.least_products(float(threshold))
    )
    finite = np.where(np.isinf(bounds), 0.0, bounds)
    exact = offsets - finite if queries.descending else finite - offsets
    rounding = np.abs(finite) * 2.0**-23 + 2.0**-149
    limits = np.clip(exact + rounding, -_FLOAT32_MAX, _FLOAT32_MAX).astype(np.float32)
    limits = np.nextafter(limits, np.float32(_FLOAT32_MAX))
    none_or_all = np.copysign(np.float32(_FLOAT32_MAX), -bounds).astype(np.float32)
    return np.where(np.isinf(bounds), none_or_all, limits)


def _are_mixed(views: Sequence[View]) -> bool:
    """Return whether the positions of some views lie between those of others, because rows were updated."""
    return any(one.first == other.first for one, other in pairwise(views))


def merge_answers(
    found: Sequence[tuple[Sums, Positions]], k: int, n_queries: int, *, mixed: bool = False
) -> tuple[Sums, Positions]:
    """Merge answers to the same queries, and keep the k lowest sums of each.

    Parameters
    ----------
    found : sequence of (sums, positions), both (q, ...)
        Answers in ascending order of the sums, and of the positions where sums are equal.
    k : int
        The number of rows to keep.
    n_queries : int
        q.
    mixed : bool, default=False
        Whether later answers may have lower positions.

    Returns
    -------
    sums, positions : ndarray (q, k')

    Examples
    --------
    >>> left = np.array([[1, 3]], np.float32), np.array([[0, 1]])
    >>> right = np.array([[1, 2]], np.float32), np.array([[5, 4]])
    >>> merge_answers([left, right], 3, 1)
    (array([[1., 1., 2.]], dtype=float32), array([[0, 5, 4]]))
    """
    if len(found) == 1:
        return found[0]
    if not found:
        return np.empty((n_queries, 0), dtype=np.float32), np.empty((n_queries, 0), dtype=np.int64)
    sums, positions = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
    # The sort is stable: rows of equal sums stay in order of position, unless answers are mixed.
    order = np.lexsort((positions, sums)) if mixed else sums.argsort(axis=1, kind="stable")
    order = order[:, :k]
    return np.take_along_axis(sums, order, axis=1), np.take_along_axis(positions, order, axis=1)
