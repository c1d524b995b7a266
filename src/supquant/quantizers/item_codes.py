"""Codebooks for the vectors of items: residual quantization, then codes and codebooks in turn.

Given the codes, the codebooks are least squares; given the codebooks, every row takes a better code. Errors in the columns of
meaning count more where the labels of a row are known, so these columns have normal equations of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from supquant import kernels
from supquant.codec import code_searches
from supquant.fitting import Record
from supquant.parallel import ordered_map, row_blocks
from supquant.statistics import Float

Block = NDArray[np.float32]
Codes = NDArray[np.uint8]

START_ROWS = 32
"""Rows a codeword that k-means sees."""

START_ITERATIONS = 6
"""Of k-means, for each codebook of the start."""

CODEWORD_RIDGE = 1e-3
"""On the diagonal of B'B, in units of its mean: codewords that always occur together make it singular."""

SWEEPS = 4
"""Of the search for codes between two solutions for codebooks."""

LEAST_GAIN = 1e-2
"""Part of the error that a round must gain; what later rounds gain does not show in rankings."""

MOST_WORDS = 4096
"""Codewords in all for which least squares is solved; longer codes stay with residual quantization."""


@dataclass(frozen=True)
class ItemRows:
    """What the codes are learned from."""

    vectors: Block  # (n, D)
    known: NDArray[np.bool_]  # (n,) whether the labels of a row are known; those rows come first
    n_meaning: int  # columns of meaning
    label_weight: float  # how many times these columns count where labels are known

    @property
    def parts(self) -> list[slice]:
        """The rows with known labels, and those without."""
        n = int(self.known.sum())
        return [slice(0, n), slice(n, len(self.known))]


@dataclass(frozen=True)
class CodebookStep:
    """One finished round: the codebooks, and the weighted squared error a row that their codes leave."""

    name: str
    iteration: int
    codebooks: Block  # (M, K, D)
    error: float
    changed: int  # rows recoded by this step

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the step counts in `n_iter_`."""
        return self.name == "codes"

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {
            "codebooks": len(self.codebooks),
            "iteration": self.iteration,
            "step": self.name,
            "quantization": self.error,
            "total": self.error,
            "changed": self.changed,
        }

    def as_progress(self) -> Mapping[str, float] | None:
        """Return the values for the callback."""
        return {"objective": self.error, "changed": self.changed}


def codebook_steps(
    rows: ItemRows,
    shorter: Block | None,
    n_codebooks: int,
    n_codewords: int,
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs: int,
) -> Iterator[CodebookStep]:
    """Learn codebooks, from those of a shorter code (M', K, D) on or from nothing; hand out every finished round."""
    codebooks = residual_start(rows, shorter, n_codebooks, n_codewords, rng)
    codes = _assign(rows, codebooks, None, n_jobs)
    before = _error(rows, codebooks, codes)
    yield CodebookStep("start", 0, codebooks, before, len(codes))
    if n_codebooks * n_codewords > MOST_WORDS:
        return
    for iteration in range(1, max_iter + 1):
        codebooks = _solve(rows, codes, n_codewords, n_jobs)
        new = _assign(rows, codebooks, codes, n_jobs)
        changed = int((new != codes).any(axis=1).sum())
        codes = new
        error = _error(rows, codebooks, codes)
        if error >= before:  # the ridge costs more than the round gains, as for few rows
            return
        yield CodebookStep("codes", iteration, codebooks, error, changed)
        if before - error <= max(tol, LEAST_GAIN) * before:
            return
        before = error


def residual_start(
    rows: ItemRows, shorter: Block | None, n_codebooks: int, n_codewords: int, rng: np.random.Generator
) -> Block:
    """Run k-means on a sample of the rows, then on what its centres leave, and so on: (M, K, D)."""
    sample = np.sort(rng.permutation(len(rows.vectors))[: START_ROWS * n_codewords])
    left = rows.vectors[sample].astype(np.float32)
    codebooks = np.zeros((n_codebooks, n_codewords, left.shape[1]), dtype=np.float32)
    given = 0 if shorter is None else len(shorter)
    if shorter is not None:
        codebooks[:given] = shorter
        part = ItemRows(left, rows.known[sample], rows.n_meaning, rows.label_weight)
        left = left - kernels.active().decode(_assign(part, shorter, None, 1), shorter)
    position = np.where(rows.known[sample], 1 / rows.label_weight, 1).astype(np.float32)  # (s,) its weight
    for m in range(given, n_codebooks):
        codebooks[m], nearest = weighted_means(left, position, rows.n_meaning, n_codewords, rng)
        left -= codebooks[m][nearest]
    return codebooks


def weighted_means(
    x: Block, weights: Block, n_heavy: int, n_centres: int, rng: np.random.Generator
) -> tuple[Block, NDArray[np.intp]]:
    """Run k-means on rows x (n, D) whose columns from `n_heavy` on count by the weight (n,) of the row.

    Returns the centres (K, D), and each row's nearest (n,).

    Examples
    --------
    >>> x = np.array([[0, 5], [0, 6], [1, 5], [1, 6]], dtype=np.float32)
    >>> centres, nearest = weighted_means(x, np.full(4, 0.01, np.float32), 1, 2, np.random.default_rng(1))
    >>> bool(nearest[0] == nearest[1] != nearest[2] == nearest[3])
    True
    """
    centres = x[np.sort(rng.choice(len(x), n_centres, replace=len(x) < n_centres))].copy()
    scaled = x.copy()
    scaled[:, n_heavy:] *= weights[:, None]
    for _ in range(START_ITERATIONS):
        nearest = _nearest(scaled, weights, centres, n_heavy)
        counts = np.bincount(nearest, minlength=n_centres)
        heavy = np.maximum(counts, 1)[:, None]
        light = np.maximum(np.bincount(nearest, weights, minlength=n_centres), 1e-12)[:, None]
        sums = kernels.active().code_sums(nearest.astype(np.uint8)[:, None], scaled, n_centres)  # (K, D)
        means = np.hstack([sums[:, :n_heavy] / heavy, sums[:, n_heavy:] / light])
        means[counts == 0] = x[rng.integers(len(x), size=int((counts == 0).sum()))]
        centres = means.astype(np.float32)
    return centres, _nearest(scaled, weights, centres, n_heavy)


def _nearest(scaled: Block, weights: Block, centres: Block, n_heavy: int) -> NDArray[np.intp]:
    """Return each row's nearest centre (n,); `scaled` rows have their weights in them already."""
    squares = np.square(centres)
    heavy, light = squares[:, :n_heavy].sum(axis=1), squares[:, n_heavy:].sum(axis=1)
    found = np.empty(len(scaled), dtype=np.intp)
    for block in row_blocks(len(scaled)):
        rows = slice(*block)
        costs = scaled[rows] @ (-2 * centres.T) + heavy + weights[rows, None] * light
        found[rows] = costs.argmin(axis=1)
    return found


def _assign(rows: ItemRows, codebooks: Block, codes: Codes | None, n_jobs: int) -> Codes:
    """Give every row a code (n, M), from its old one on where it has one."""
    searches = code_searches(
        codebooks, rows.n_meaning, rows.label_weight, max_sweeps=20 if codes is None else SWEEPS
    )
    found = np.empty((len(rows.vectors), len(codebooks)), dtype=np.uint8)
    for part, search in zip(rows.parts, searches, strict=True):
        start = part.start

        def assign(block: tuple[int, int], start: int = start, search: object = search) -> None:
            chosen = slice(start + block[0], start + block[1])
            targets = search.target(rows.vectors[chosen], None).astype(np.float32)  # type: ignore[attr-defined]
            found[chosen] = search.search(targets, None if codes is None else codes[chosen])  # type: ignore[attr-defined]

        if part.stop > start:
            assign((0, 1))  # the search makes its tables here, before threads share them
        for _ in ordered_map(assign, row_blocks(part.stop - start), n_jobs):
            pass
    return found


def _solve(rows: ItemRows, codes: Codes, K: int, n_jobs: int) -> Block:
    """Return the codebooks (M, K, D) of least squared error for codes (n, M)."""
    M, D, a = codes.shape[1], rows.vectors.shape[1], rows.n_meaning
    gram, gram_meaning = np.zeros((2, M * K, M * K))
    sums = np.zeros((M * K, D))
    for part, weight in zip(rows.parts, (rows.label_weight, 1.0), strict=True):
        if part.stop == part.start:
            continue
        of_part = np.ascontiguousarray(codes[part])
        distinct, counts = kernels.active().distinct(of_part)
        pairs = kernels.active().pair_counts(distinct, K, counts.astype(np.float64), n_threads=n_jobs)
        products = kernels.active().code_sums(
            of_part, np.ascontiguousarray(rows.vectors[part]), K, n_threads=n_jobs
        )
        gram += pairs
        gram_meaning += weight * pairs
        products[:, :a] *= weight
        sums += products
    solved = np.empty_like(sums)
    for matrix, columns in ((gram_meaning, slice(0, a)), (gram, slice(a, D))):
        matrix[np.diag_indices_from(matrix)] += CODEWORD_RIDGE * float(np.trace(matrix)) / len(matrix)
        solved[:, columns] = cho_solve(cho_factor(matrix, lower=True), sums[:, columns])
    return solved.reshape(M, K, D).astype(np.float32)


def _error(rows: ItemRows, codebooks: Block, codes: Codes) -> float:
    """Return the mean weighted squared error of the rows."""
    total = 0.0
    for part, weight in zip(rows.parts, (rows.label_weight, 1.0), strict=True):
        for start, stop in row_blocks(part.stop - part.start):
            chosen = slice(part.start + start, part.start + stop)
            left: Float = np.square(
                rows.vectors[chosen] - kernels.active().decode(codes[chosen], codebooks), dtype=np.float64
            ).sum(axis=0)
            total += weight * float(left[: rows.n_meaning].sum()) + float(left[rows.n_meaning :].sum())
    return total / max(len(codes), 1)
