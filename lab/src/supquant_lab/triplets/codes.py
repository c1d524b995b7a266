"""The codes of the triplet formulation when everything else is given: rows choose codewords, one codebook at a time.

A row with decoded vector s has the cost

    sum of the hinges of its triplets  +  gamma (|s|^2 - 2 s . P'x)  +  mu (e - eps)^2

where the vectors of the other rows are fixed. Another codeword of codebook m changes s. The change of every hinge then follows
from products of codewords and decoded vectors, which are in the table U = S C_m'.

The rows of a block choose independently, in float32. If several rows of one triplet move, their gains need not add up. So the
change of psi is computed exactly for the block, and a block that would raise psi is cut in two. Psi never rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32, Float64
from supquant.parallel import ordered_map, row_blocks
from supquant_lab.triplets.objective import Rows, TripletLoss

BLOCK_PLACES = 16384
"""Number of places in triplets that the rows of one block have together."""

PIECE_PLACES = 2048
"""Number of these places that one thread handles at a time."""


@dataclass(frozen=True)
class OwnCost:
    """The parameters of a row's cost without its triplets."""

    projected: NDArray[np.floating]  # (n, r)  X P
    quantization: float  # gamma
    constraint: float  # mu
    constant: float  # eps


class CodeDescent:
    """A descent over the codes (n, M) with fixed codebooks (M, K, r), costs and triplets."""

    def __init__(self, codes: Codes, codebooks: Float64, own: OwnCost, loss: TripletLoss) -> None:
        self.codes = codes.copy()
        self._codebooks, self._own = codebooks, own
        self._triplets, self._n_jobs = loss.triplets, loss.n_jobs
        self._S = kernels.active().decode(codes, codebooks)  # (n, r)
        norms = np.einsum("mkr,mkr->mk", codebooks, codebooks)
        squares = np.einsum("ij,ij->i", self._S, self._S)
        self._e = squares - norms[np.arange(len(codebooks)), codes].sum(axis=1)  # (n,)
        self._violations = loss.violations(self._S)  # (t,)
        self._places = [_Places.of(rows, len(codes)) for rows in loss.triplets.places]
        self._n_places: Rows = 1 + np.diff([places.starts for places in self._places]).sum(axis=0)  # (n,)

    def sweep(self) -> int:
        """Let every row choose once in every codebook; return the number of changed codewords."""
        return sum(self._sweep_codebook(m) for m in range(len(self._codebooks)))

    def _sweep_codebook(self, m: int) -> int:
        C = self._codebooks[m]  # (K, r)
        before = self.codes[:, m].astype(np.intp)
        products = ordered_map(
            lambda block: self._S[slice(*block)] @ C.T, row_blocks(len(before)), self._n_jobs
        )
        book = _Codebook.of(C, np.concatenate(list(products)), before.copy())
        for rows in self._cut(np.arange(len(before)), BLOCK_PLACES):
            self._improve(rows, book)
        moved = np.flatnonzero(before != book.words)
        self.codes[moved, m] = book.words[moved]
        self._S[moved] += C[book.words[moved]] - C[before[moved]]
        return len(moved)

    def _improve(self, rows: Rows, book: _Codebook) -> None:
        """Let rows (b,) choose independently, and move them as far as psi does not rise."""
        pieces = self._cut(rows, PIECE_PLACES)
        chosen = ordered_map(lambda piece: self._choices(piece, book), pieces, self._n_jobs)
        words = np.concatenate(list(chosen))
        moving = words != book.words[rows]
        self._move(rows[moving], words[moving], book)

    def _choices(self, rows: Rows, book: _Codebook) -> Rows:
        """Return the best codeword (b,) of every row if it alone moves: the one it has, unless another is better."""
        old = book.words[rows]
        squares = book.square_changes(rows)  # (b, K)
        changes = self._own_changes(rows, squares, book)  # (b, K)
        squares32 = squares.astype(np.float32)
        U = book.doubled
        anchor, similar, other = self._places
        i, j, o = self._triplets.places

        t, owner = anchor.of_rows(rows)
        hinges = U[o[t]]  # i moves: codeword c instead of c' adds 2 (c - c') . (s_l - s_j)
        hinges -= U[j[t]]
        changes += self._summed(hinges, t, owner, old)
        t, owner = similar.of_rows(rows)
        hinges = squares32[owner]  # j moves: the change of |s_j|^2 - 2 s_j . s_i
        hinges -= U[i[t]]
        changes += self._summed(hinges, t, owner, old)
        t, owner = other.of_rows(rows)
        hinges = U[i[t]]  # l moves: the change of 2 s_l . s_i - |s_l|^2
        hinges -= squares32[owner]
        changes += self._summed(hinges, t, owner, old)

        changes -= changes[np.arange(len(rows)), old][:, None]
        best = changes.argmin(axis=1)
        return np.where(changes[np.arange(len(rows)), best] < 0, best, old)

    def _summed(self, moved: Float32, triplets: Rows, owner: Rows, old: Rows) -> Float32:
        """Return the sum of the hinges (b, K) of each row with each codeword.

        Parameters
        ----------
        moved : (p, K) float32
            Change of each hinge with each codeword, up to a constant for each hinge. It is overwritten.
        triplets, owner : (p,) int
            Triplet of each hinge, and the number 0 .. b-1 of its row, ascending.
        old : (b,) int
            Present codewords of the rows.
        """
        # for each place h, k: summed[owner[h], k] += max(0, violation + moved[h, k] - moved[h, old codeword])
        places = np.arange(len(owner))
        moved += (self._violations[triplets] - moved[places, old[owner]]).astype(np.float32)[:, None]
        np.maximum(moved, 0.0, out=moved)
        ends = np.searchsorted(owner, np.arange(len(old) + 1))
        ones = np.ones(len(owner), dtype=np.float32)
        summed: Float32 = scipy.sparse.csr_array((ones, places, ends), shape=(len(old), len(owner))) @ moved
        return summed

    def _own_changes(self, rows: Rows, squares: Float64, book: _Codebook) -> Float64:
        """Return the change (b, K) of the cost without triplets for rows (b,), from the change `squares` (b, K) of |s|^2."""
        own, old = self._own, book.words[rows, None]
        pull = own.projected[rows] @ book.C.T
        pull -= np.take_along_axis(pull, old, axis=1)
        before = (self._e[rows] - own.constant)[:, None]
        after = before + squares - (book.norms - book.norms[old])
        return own.quantization * (squares - 2.0 * pull) + own.constraint * (after**2 - before**2)

    def _move(self, rows: Rows, words: Rows, book: _Codebook) -> None:
        """Move rows (b,) to other codewords if psi falls; if not, try half of them, and let the other half choose again."""
        if len(rows) == 0:
            return
        at = np.arange(len(rows)), words
        squares = book.square_changes(rows)
        triplets = np.unique(np.concatenate([places.of_rows(rows)[0] for places in self._places]))
        before = self._violations[triplets]
        after = before + self._violation_changes(triplets, rows, words, squares[at], book)
        change = self._own_changes(rows, squares, book)[at].sum()
        change += (np.maximum(after, 0.0) - np.maximum(before, 0.0)).sum()
        if change < 0:
            self._violations[triplets] = after
            self._e[rows] += squares[at] - book.norms[words] + book.norms[book.words[rows]]
            book.assign(rows, words)
        elif len(rows) > 1:
            half = len(rows) // 2
            self._move(rows[:half], words[:half], book)
            self._improve(rows[half:], book)

    def _violation_changes(
        self, triplets: Rows, rows: Rows, words: Rows, squares: Float64, book: _Codebook
    ) -> Float64:
        """Return the change of the violations of triplets (t,) when all rows (b,) move; `squares` (b,) is that of |s|^2."""
        old, U, G = book.words, book.products, book.gram
        new = old.copy()
        new[rows] = words
        longer = np.zeros(len(old))
        longer[rows] = squares

        def product_changes(a: Rows, b: Rows) -> Float64:  # the change of s_a . s_b
            a0, a1, b0, b1 = old[a], new[a], old[b], new[b]
            alone = U[b, a1] - U[b, a0] + U[a, b1] - U[a, b0]
            both: Float64 = alone + G[a1, b1] - G[a1, b0] - G[a0, b1] + G[a0, b0]
            return both

        i, j, o = (part[triplets] for part in self._triplets.places)
        changes: Float64 = longer[j] - longer[o] - 2.0 * (product_changes(i, j) - product_changes(i, o))
        return changes

    def _cut(self, rows: Rows, limit: int) -> list[Rows]:
        """Cut rows (b,) into runs that have about `limit` places in triplets each."""
        run = np.cumsum(self._n_places[rows]) // limit
        return np.split(rows, np.flatnonzero(np.diff(run)) + 1)


@dataclass(frozen=True)
class _Codebook:
    """One codebook, its products with all decoded vectors, and the codewords of the rows."""

    C: Float64  # (K, r)
    gram: Float64  # (K, K)
    norms: Float64  # (K,)
    products: Float64  # (n, K)  U = S C'
    doubled: Float32  # (n, K)  2 U, for the search
    words: Rows  # (n,)

    @classmethod
    def of(cls, C: Float64, products: Float64, words: Rows) -> _Codebook:
        """Return the codebook with the products (n, K) and codewords (n,) of all rows, which change when rows move."""
        gram = C @ C.T
        return cls(C, gram, gram.diagonal(), products, (2.0 * products).astype(np.float32), words)

    def square_changes(self, rows: Rows) -> Float64:
        """Return the change (b, K) of |s|^2 of rows (b,) with every codeword."""
        old = self.words[rows]
        squares: Float64 = self.norms + 2.0 * (self.products[rows] - self.gram[old])
        return squares - np.take_along_axis(squares, old[:, None], axis=1)

    def assign(self, rows: Rows, words: Rows) -> None:
        """Set the codewords `words` (b,) of rows (b,)."""
        self.products[rows] += self.gram[words] - self.gram[self.words[rows]]
        self.doubled[rows] = 2.0 * self.products[rows]
        self.words[rows] = words


@dataclass(frozen=True)
class _Places:
    """For one of the places i, j and l: the triplets in which each row has this place."""

    order: Rows  # (t,)  triplets, ordered by row
    starts: Rows  # (n + 1,)  where the triplets of each row begin

    @classmethod
    def of(cls, rows: Rows, n_rows: int) -> _Places:
        """Order the triplets by the rows (t,) that have the place."""
        counts = np.bincount(rows, minlength=n_rows)
        return cls(np.argsort(rows, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))

    def of_rows(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the triplets (p,) of some rows (b,), and for each the number 0 .. b-1 of its row, ascending."""
        # for k, row in enumerate(rows): triplets += order[starts[row] : starts[row + 1]]; owner += [k] * how many
        begin = self.starts[rows]
        counts = self.starts[rows + 1] - begin
        owner = np.repeat(np.arange(len(rows)), counts)
        skipped = np.cumsum(counts) - counts
        return self.order[np.arange(len(owner)) + (begin - skipped)[owner]], owner
