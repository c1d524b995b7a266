"""Codebooks for the vectors of items: residual quantization, then codes and codebooks in turn.

For given codes the codebooks are least squares. For given codebooks every row takes a better code. The weights of an error in
the columns of meaning and of one in the columns of position depend on the kind of a row, so meaning and position have separate
normal equations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from supquant import kernels
from supquant.arrays import Codes, Float32, Float64
from supquant.estimators.course import NamedStep, Record
from supquant.kernels.fitting import gpu_for, gpu_solution, nearest_centres
from supquant.model.on_device import AnySearch, on_gpu
from supquant.model.words import (
    FREE_WORD,
    KNOWN_WORD,
    LABEL_WORD,
    LABELLED,
    POSITION_WORD,
    UNLABELLED,
    allowed_words,
    item_search,
)
from supquant.parallel import ordered_map, row_blocks

KMEANS_ROWS_PER_CODEWORD = 32
"""K-means sees at most this number of rows for each codeword."""

KMEANS_ITERATIONS = 3
"""K-means takes this number of iterations for each codebook of the start."""

SHRINKAGE = 1.0
"""Every codeword also stands for this number of zero rows of mean weight. Without them a codeword of few rows would follow their
noise, and codewords that always occur together would make least squares singular."""

FIRST_SWEEPS = 20
"""The first search for codes visits every codebook at most this number of times."""

LATER_SWEEPS = 4
"""A search that starts from the codes of the last round visits every codebook at most this number of times."""

LEARNING_BEAM = 4
"""Number of beginnings of a code that the first search keeps. Codebooks can be learned from codes that are not the best."""

MIN_GAIN = 0.2
"""A round that lowers the error by less than this fraction is the last one. The next one would gain about an eighth of that,
which does not change rankings."""

JUDGED_ROWS = 8192
"""The error of a round is measured on at most about this number of rows. Others need codes only if there is another round."""

NEAREST_ROWS = 1024
"""Number of rows whose nearest centre is searched at a time."""

MAX_SOLVED_CODEWORDS = 4096
"""Least squares is solved for at most this number of codewords in all; longer codes stay with residual quantization."""


@dataclass(frozen=True)
class ItemRows:
    """The rows from which codebooks are learned, ordered by kind."""

    vectors: Float32  # (n, D)
    kinds: NDArray[np.intp]  # (n,)  ascending
    weights: Float32  # (N_KINDS, 2)  weights of a squared error in meaning and of one in position
    n_columns: int  # number of columns of labels, the first ones
    n_meaning: int  # number of columns of labels and of likeness

    @property
    def parts(self) -> Iterator[tuple[slice, Float32]]:
        """Yield the rows of every kind that occurs, and their two weights."""
        edges = np.searchsorted(self.kinds, np.arange(len(self.weights) + 1))
        for start, stop, weights in zip(edges[:-1], edges[1:], self.weights, strict=True):
            if stop > start:
                yield slice(int(start), int(stop)), weights

    def take(self, rows: NDArray[np.int64]) -> ItemRows:
        """Return some of the rows, given in ascending order."""
        return ItemRows(self.vectors[rows], self.kinds[rows], self.weights, self.n_columns, self.n_meaning)


@dataclass(frozen=True)
class CodebookStep(NamedStep):
    """One finished round: the codebooks, and the mean weighted squared error of the judged rows."""

    name: str
    iteration: int
    codebooks: Float32  # (M, K, D)
    error: float
    changed: int  # number of rows that the step recoded, estimated from the judged rows

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        error = self.record({"quantization": self.error, "total": self.error})
        return {"codebooks": len(self.codebooks), **error}

    def as_progress(self) -> Mapping[str, float] | None:
        """Return the values for the callback."""
        return {"objective": self.error, "changed": self.changed}


def codebook_steps(
    rows: ItemRows,
    shorter: Float32 | None,
    words: NDArray[np.uint8],
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs: int,
) -> Iterator[CodebookStep]:
    """Learn codebooks.

    Parameters
    ----------
    rows : ItemRows
    shorter : (M', K, D) float32 or None
        Codebooks of a shorter code, with which the codebooks begin.
    words : (M, K) uint8
        Purposes of the codewords, as in `model/words.py`.
    max_iter : int
        Maximum number of rounds.
    tol : float
        Learning stops when the relative improvement of a round falls below this, or below `MIN_GAIN`.
    rng : Generator
    n_jobs : int
        Number of threads.

    Yields
    ------
    CodebookStep
        The start, then every finished round.
    """
    codebooks = residual_start(rows, shorter, words, rng, n_jobs)
    codes = _assign(rows, codebooks, words, None, n_jobs)
    every = max(1, round(len(codes) / JUDGED_ROWS))
    judged = np.arange(0, len(codes), every)
    judges = rows if every == 1 else rows.take(judged)
    before = _error(judges, codebooks, codes[judged], n_jobs)
    yield CodebookStep("start", 0, codebooks, before, len(codes))
    if words.size > MAX_SOLVED_CODEWORDS:
        return
    for iteration in range(1, max_iter + 1):
        solved = _solve(rows, codes, codebooks, words, n_jobs)
        new = _assign(judges, solved, words, codes[judged], n_jobs)
        error = _error(judges, solved, new, n_jobs)
        if error >= before:  # with few rows the shrinkage can cost more than the round gains
            yield CodebookStep("codes", iteration, codebooks, before, 0)
            return
        changed = round(float((new != codes[judged]).any(axis=1).mean()) * len(codes))
        codebooks = solved
        yield CodebookStep("codes", iteration, codebooks, error, changed)
        if before - error <= max(tol, MIN_GAIN) * before:
            return
        before, codes = error, new if every == 1 else _assign(rows, solved, words, codes, n_jobs)


def residual_start(
    rows: ItemRows,
    shorter: Float32 | None,
    words: NDArray[np.uint8],
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> Float32:
    """Return codebooks (M, K, D) by residual quantization: k-means on a sample of the rows, then on its residuals, and so on."""
    chosen = rng.permutation(len(rows.vectors))[: KMEANS_ROWS_PER_CODEWORD * words.shape[1]]
    sample = rows.take(np.sort(chosen))
    left = sample.vectors.astype(np.float32)
    codebooks = np.zeros((*words.shape, left.shape[1]), dtype=np.float32)
    given = 0 if shorter is None else len(shorter)
    if shorter is not None:
        codebooks[:given] = shorter
        left = left - kernels.active().decode(_assign(sample, shorter, words[:given], None, n_jobs), shorter)
    label_words = (words == LABEL_WORD).sum(axis=1)
    for m in range(given, len(words)):
        column = int(label_words[:m].sum())
        codebooks[m], nearest = _start_codebook(left, sample, words[m], column, rng, n_jobs)
        left -= codebooks[m][nearest]
    return codebooks


def _start_codebook(
    left: Float32,
    sample: ItemRows,
    words: NDArray[np.uint8],
    column: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[Float32, NDArray[np.intp]]:
    """Learn one codebook (K, D) of the start, from the residuals `left` (s, D) of a sample, for words with purposes (K,).

    Return it, and the nearest codeword (s,) of each row, among those that it may use. The first label word stands for this column
    of meaning, and the others for those after it.
    """
    a = sample.n_meaning
    weights = sample.weights[sample.kinds].astype(np.float32)  # (s, 2)
    labelled = sample.kinds == LABELLED
    codebook = np.zeros((len(words), left.shape[1]), dtype=np.float32)
    for_labels = np.flatnonzero(words == LABEL_WORD)
    if len(for_labels):
        columns = slice(column, column + len(for_labels))
        meant = left[labelled, columns]
        codebook[for_labels, columns] = np.eye(len(for_labels)) * (meant.max(initial=0) or 1)
        own = meant.argmax(axis=1).astype(np.uint8)
        placed = np.ascontiguousarray(left[labelled, a:])
        sums = kernels.active().code_sums(own[:, None], placed, len(for_labels))
        counts = np.bincount(own, minlength=len(for_labels))
        codebook[for_labels, a:] = sums / (counts + SHRINKAGE)[:, None]
    for_position = np.flatnonzero(words == POSITION_WORD)
    if len(for_position):
        placed = np.ascontiguousarray(left[:, a:])
        codebook[for_position, a:] = weighted_means(placed, weights, 0, len(for_position), rng, n_jobs)
    for purpose, users in (
        (FREE_WORD, ~labelled if words.any() else np.full(len(left), True)),
        (KNOWN_WORD, labelled),
    ):
        chosen = np.flatnonzero(words == purpose)
        if len(chosen) and users.any():
            codebook[chosen] = weighted_means(left[users], weights[users], a, len(chosen), rng, n_jobs)
    nearest = np.empty(len(left), dtype=np.intp)
    scaled = left * np.repeat(weights, (a, left.shape[1] - a), axis=1)
    for kind, these in ((LABELLED, labelled), (UNLABELLED, ~labelled)):
        among = np.flatnonzero(allowed_words(words[None], kind)[0])
        nearest[these] = among[_nearest(scaled[these], weights[these], codebook[among], a, n_jobs)]
    return codebook, nearest


def weighted_means(
    x: Float32,
    weights: Float32,
    n_first: int,
    n_centres: int,
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> Float32:
    """Return centres (K, D) by k-means on rows x (n, D), whose `n_first` columns and other columns have weights (n, 2).

    A centre is drawn towards zero as if one more row of mean weight were zero (`SHRINKAGE`).

    Examples
    --------
    >>> x = np.array([[0, 5], [0, 6], [1, 5], [1, 6]], dtype=np.float32)
    >>> centres = weighted_means(x, np.tile([1, 0.01], (4, 1)), 1, 2, np.random.default_rng(1))
    >>> np.sort(centres[:, 0]).round(2)  # the first column decides; zero rows draw the second centre from 1 to 2/3
    array([0.  , 0.67], dtype=float32)
    """
    centres = x[np.sort(rng.choice(len(x), n_centres, replace=len(x) < n_centres))].copy()
    weights = weights.astype(np.float32)
    widths = (n_first, x.shape[1] - n_first)
    scaled = x * np.repeat(weights, widths, axis=1)
    for _ in range(KMEANS_ITERATIONS):
        nearest = _nearest(scaled, weights, centres, n_first, n_jobs)
        counts = np.bincount(nearest, minlength=n_centres)
        masses = np.stack([np.bincount(nearest, each, minlength=n_centres) for each in weights.T], axis=1)
        own = nearest.astype(np.uint8)[:, None]
        sums = kernels.active().code_sums(own, scaled, n_centres, n_threads=n_jobs)  # (K, D)
        means = sums / np.repeat(masses + SHRINKAGE * weights.mean(axis=0, dtype=np.float64), widths, axis=1)
        means[counts == 0] = x[rng.integers(len(x), size=int((counts == 0).sum()))]
        centres = means.astype(np.float32)
    return centres


def _nearest(
    scaled: Float32, weights: Float32, centres: Float32, n_first: int, n_jobs: int
) -> NDArray[np.intp]:
    """Return the nearest centre (n,) of each row, given rows `scaled` (n, D) that are already multiplied by their weights."""
    squares = np.square(centres)
    sizes = np.stack([squares[:, :n_first].sum(axis=1), squares[:, n_first:].sum(axis=1)])  # (2, K)
    found = np.empty(len(scaled), dtype=np.intp)
    pull = -2 * centres.T
    if (gpu := gpu_for(len(scaled) * pull.size)) is not None:
        return nearest_centres(gpu, scaled, weights, sizes, pull)

    def search(block: tuple[int, int]) -> None:
        rows = slice(*block)
        found[rows] = (scaled[rows] @ pull + weights[rows] @ sizes).argmin(axis=1)

    for _ in ordered_map(search, row_blocks(len(scaled), NEAREST_ROWS), n_jobs):
        pass
    return found


def _assign(
    rows: ItemRows, codebooks: Float32, words: NDArray[np.uint8], codes: Codes | None, n_jobs: int
) -> Codes:
    """Return a code (n, M) for every row; the search starts from the row's present code if there is one."""
    found = np.empty((len(rows.vectors), len(codebooks)), dtype=np.uint8)
    for part, weights in rows.parts:
        kind = int(rows.kinds[part.start])
        on_cpu = item_search(
            codebooks,
            words,
            rows.n_columns,
            rows.n_meaning,
            kind,
            weights,
            max_sweeps=FIRST_SWEEPS if codes is None else LATER_SWEEPS,
            beam=LEARNING_BEAM,
            quick=True,
        )
        gpu = gpu_for((part.stop - part.start) * codebooks.size)
        chosen_search = on_cpu if gpu is None else on_gpu(on_cpu)

        def assign(
            block: tuple[int, int], start: int = part.start, search: AnySearch = chosen_search
        ) -> None:
            chosen = slice(start + block[0], start + block[1])
            found[chosen] = search.search(rows.vectors[chosen], None if codes is None else codes[chosen])

        assign((0, 1))  # the search makes its tables here, before threads share them
        for _ in ordered_map(assign, row_blocks(part.stop - part.start), n_jobs):
            pass
    return found


def _solve(
    rows: ItemRows, codes: Codes, codebooks: Float32, words: NDArray[np.uint8], n_jobs: int
) -> Float32:
    """Return the codebooks (M, K, D) of least squared error for codes (n, M).

    The columns of meaning of label words and of position words do not change.
    """
    (M, K, D), a = codebooks.shape, rows.n_meaning
    sums = np.zeros((M * K, D))
    masses = np.zeros((len(codes), 2))  # weights of every row
    for part, weights in rows.parts:
        products = kernels.active().code_sums(
            np.ascontiguousarray(codes[part]), np.ascontiguousarray(rows.vectors[part]), K, n_threads=n_jobs
        )
        sums += products * np.repeat(weights, (a, D - a))
        masses[part] = weights
    solved = codebooks.reshape(M * K, D).astype(np.float64)
    fixed = np.flatnonzero((words == LABEL_WORD) | (words == POSITION_WORD))
    free = np.setdiff1d(np.arange(M * K), fixed)
    of_meaning, of_position = (_gram(codes, K, np.ascontiguousarray(each), n_jobs) for each in masses.T)
    wanted = sums[free, :a] - of_meaning[np.ix_(free, fixed)] @ solved[fixed, :a]
    systems = ((of_meaning[np.ix_(free, free)], wanted), (of_position, sums[:, a:]))
    solved[free, :a], solved[:, a:] = ordered_map(lambda system: _solution(*system), systems, n_jobs)
    return solved.reshape(M, K, D).astype(np.float32)


def _gram(codes: Codes, n_codewords: int, masses: Float64, n_jobs: int) -> Float64:
    """Return the products (M K, M K) of indicators of codes (n, M), weighted by the masses (n,) of rows, with `SHRINKAGE`."""
    gram = kernels.active().pair_counts(codes, n_codewords, masses, n_threads=n_jobs)
    gram[np.diag_indices_from(gram)] += SHRINKAGE * float(masses.mean())
    return gram


def _solution(gram: Float64, right: Float64) -> Float64:
    """Solve least squares. The shrinkage keeps the condition of the matrix (k, k) low enough for a float32 factor."""
    if (gpu := gpu_for(len(gram) ** 3)) is not None and (
        solved := gpu_solution(gpu, gram, right)
    ) is not None:
        return solved
    factor = cho_factor(gram.astype(np.float32), lower=True, check_finite=False)
    return np.asarray(cho_solve(factor, right.astype(np.float32), check_finite=False), dtype=np.float64)


def _error(rows: ItemRows, codebooks: Float32, codes: Codes, n_jobs: int) -> float:
    """Return the mean weighted squared error of the rows."""

    def of_block(block: tuple[slice, Float32]) -> float:
        chosen, weights = block
        left = rows.vectors[chosen] - kernels.active().decode(codes[chosen], codebooks)
        errors = (np.einsum("ij,ij->i", part, part) for part in np.hsplit(left, [rows.n_meaning]))
        return sum(
            float(weight * error.sum(dtype=np.float64)) for weight, error in zip(weights, errors, strict=True)
        )

    blocks = [
        (slice(part.start + start, part.start + stop), weights)
        for part, weights in rows.parts
        for start, stop in row_blocks(part.stop - part.start)
    ]
    return sum(ordered_map(of_block, blocks, n_jobs)) / max(len(codes), 1)
