"""From projected vectors to codes: the code of least cost, searched in float32 from tables of codeword products.

For one row with target z the cost of a code with decoded vector s is, up to a constant of the row,

    s' H s - 2 s . z + mu (e - eps)^2,        H = W W' + gamma I,   e = sum_{a != b} c_a . c_b

With labels y the target is ``W y + gamma P'x``; with labels predicted from x it is ``H P'x``; with labels dropped W is left
out (equation 5 of the paper without its first term). Everything but ``s . z`` depends on the codewords alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float64
from supquant.kernels import Packed, pack_rows
from supquant.parallel import row_blocks

SEARCH_ROWS = 1024
"""Rows searched at a time: their costs against all codewords stay small enough for the cache and for a memory limit."""

BEAM = 8
"""Number of partial codes that the beam search for a starting code keeps."""

MAX_WORDS_AT_ONCE = 2048
"""Products of more codewords with each other are computed one codebook at a time, which takes less memory."""

FORBIDDEN = np.float32(1e12)
"""Cost of a codeword that a code may not have."""


@dataclass(frozen=True)
class CodeSearch:
    """The tables for one set of codebooks, made once and used for every block of rows."""

    codebooks: NDArray[np.floating]  # (M, K, r)
    classifier: Float64 | None  # (r, L), or None to leave the labels out
    quantization: float  # gamma
    constraint: float  # mu
    constant: float  # eps
    seeds: Codes | None = None  # (s, M) codes of training rows to start from
    basis: NDArray[np.float32] | None = None  # (r, r') of a space that holds all targets; None: all of it
    max_sweeps: int = 20
    allowed: NDArray[np.bool_] | None = None  # (M, K) words that codes may have; None: all
    beam: int = 1  # beginnings of a code that are kept while a start is chosen
    n_sparse: int = 0  # the first columns of targets, in which few values differ from zero
    quick: bool = (
        False  # whether BLAS makes the products with targets: their rounding then depends on the batch
    )

    def target(
        self, projected: NDArray[np.floating], labels: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        """Make the targets z (n, r) of rows from their projections P'x (n, r), and labels Y (n, L) or None to predict them."""
        if self.classifier is None:
            return self.quantization * projected
        classifier = self.classifier.astype(projected.dtype, copy=False)
        scores = projected @ classifier if labels is None else labels.astype(projected.dtype, copy=False)
        return scores @ classifier.T + self.quantization * projected

    def search(self, targets: NDArray[np.float32], codes: Codes | None = None, n_threads: int = 1) -> Codes:
        """Find codes (n, M) for targets z (n, r), starting from the given codes, or from scratch."""
        found = np.empty((len(targets), len(self.codebooks)), dtype=np.uint8)
        for start in range(0, len(targets), SEARCH_ROWS):
            rows = slice(start, start + SEARCH_ROWS)
            z: NDArray[np.float32] = targets[rows] if self.basis is None else targets[rows] @ self.basis
            unary = self._single_costs(z)
            begin = self._begin(z, unary, n_threads) if codes is None else np.ascontiguousarray(codes[rows])
            found[rows] = self._descend(unary, begin, n_threads)
        return found

    def _single_costs(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute the cost (n, M K) of every codeword alone, up to the row's own constant; z are targets (n, r')."""
        chosen, a = self._few_words, self.n_sparse
        if self.quick:
            costs: NDArray[np.float32] = z[:, a:] @ self._dense_pull
        else:
            costs = kernels.active().products(np.ascontiguousarray(z[:, a:]), self._packed)
        if a:
            costs += _sparse(z[:, :a]) @ self._sparse_pull
        costs += self._squares if chosen is None else self._squares[chosen]
        if chosen is None:
            return costs
        unary = np.full((len(z), len(self._squares)), FORBIDDEN, dtype=np.float32)
        unary[:, chosen] = costs
        return unary

    def _begin(self, z: NDArray[np.float32], unary: NDArray[np.float32], n_threads: int) -> Codes:
        M, K, _ = self.codebooks.shape
        if M <= 2:  # the search is exact wherever it starts
            return np.zeros((len(z), M), dtype=np.uint8)
        if self.seeds is None:
            return kernels.active().beam(unary, self._cross, K, self.beam, n_threads)
        # Where codes must keep e constant, moving one codeword at a time rarely gets from one good code to another:
        # begin with the nearest code of the training rows.
        vectors, constants = self._decoded_seeds
        costs = z @ vectors.T
        costs += constants
        return self.seeds[costs.argmin(axis=1)]

    def _descend(self, unary: NDArray[np.float32], codes: Codes, n_threads: int) -> Codes:
        return kernels.active().assign(
            unary,
            self._cross,
            self._product,
            self.constraint,
            self.constant,
            codes,
            max_sweeps=self.max_sweeps,
            n_threads=n_threads,
        )

    def costs(self, targets: NDArray[np.floating], codes: Codes) -> Float64:
        """Compute the float64 cost (n,) of codes, up to the row's own constant."""
        decoded = kernels.active().decode(codes, self.codebooks)  # (n, r)
        squares = np.einsum("ij,ij->i", decoded, decoded)
        own = self._norms[np.arange(len(self.codebooks)), codes].sum(axis=1)  # sum_m |c_m|^2
        cost = self.quantization * squares - 2.0 * np.einsum("ij,ij->i", decoded, targets)
        cost += self.constraint * (squares - own - self.constant) ** 2
        if self.classifier is not None:
            scores = decoded @ self.classifier
            cost += np.einsum("ij,ij->i", scores, scores)
        return cost

    @cached_property
    def _decoded_seeds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What the seeds' vectors s pull with, -2 s (s, r'), and their costs (s,) for the target zero."""
        assert self.seeds is not None
        vectors = kernels.active().decode(self.seeds, self.codebooks)
        constants = self.costs(np.zeros_like(vectors), self.seeds)
        return self._turned(-2.0 * vectors), constants.astype(np.float32)

    @cached_property
    def _norms(self) -> Float64:  # (M, K)
        norms: Float64 = np.einsum("mkr,mkr->mk", self.codebooks, self.codebooks)
        return norms

    @cached_property
    def _pull(self) -> NDArray[np.float32]:  # (r', M K)  -2 c
        return np.ascontiguousarray(
            self._turned(-2.0 * self.codebooks.reshape(-1, self.codebooks.shape[2])).T
        )

    @cached_property
    def _few_words(self) -> NDArray[np.intp] | None:
        """The numbers of the allowed codewords, if they are less than half of all."""
        if self.allowed is None or 2 * self.allowed.sum() >= self.allowed.size:
            return None
        return np.flatnonzero(self.allowed)

    @cached_property
    def _dense_pull(self) -> NDArray[np.float32]:
        """The columns of `_pull` for these codewords, without the rows of sparse columns."""
        pull = self._pull[self.n_sparse :]
        return pull if self._few_words is None else pull[:, self._few_words]

    @cached_property
    def _packed(self) -> Packed:
        """`_dense_pull`, packed for products."""
        return pack_rows(self._dense_pull.T)

    @cached_property
    def _sparse_pull(self) -> NDArray[np.float32]:
        """The rows of `_pull` of sparse columns, for these codewords."""
        pull = self._pull[: self.n_sparse]
        return pull if self._few_words is None else pull[:, self._few_words]

    def _turned(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        return (vectors if self.basis is None else vectors @ self.basis).astype(np.float32)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        flat = self.codebooks.reshape(-1, self.codebooks.shape[2])
        scores = None if self.classifier is None else flat @ self.classifier
        plain = scores is None and self.quantization == 1  # then both products are the same
        if plain and len(flat) <= MAX_WORDS_AT_ONCE:
            # BLAS computes one half of a product of a matrix with itself, and copies it to the other.
            cross = (flat @ flat.T).astype(np.float32, copy=False)
            return self._permitted(cross.diagonal().copy()), cross, cross
        cross = np.empty((len(flat), len(flat)), dtype=np.float32)
        product = cross if plain else np.empty_like(cross)
        squares = np.empty(len(flat), dtype=np.float32)
        for codebook in row_blocks(len(flat), self.codebooks.shape[1]):  # float64 for one codebook at a time
            rows = slice(*codebook)
            products = flat[rows] @ flat.T
            product[rows] = products
            if not plain:
                products *= self.quantization
                if scores is not None:
                    products += scores[rows] @ scores.T
                cross[rows] = products
            squares[rows] = products[:, rows].diagonal()
        return self._permitted(squares), cross, product

    def _permitted(self, squares: NDArray[np.float32]) -> NDArray[np.float32]:
        """Make the squares (M K,) of words that codes may not have so large that no code has them; return all."""
        if self.allowed is not None:
            squares[~self.allowed.reshape(-1)] = FORBIDDEN
        return squares

    @property
    def _squares(self) -> NDArray[np.float32]:  # (M K,)  c' H c
        return self._tables[0]

    @property
    def _cross(self) -> NDArray[np.float32]:  # (M K, M K)  c_a' H c_b
        return self._tables[1]

    @property
    def _product(self) -> NDArray[np.float32]:  # (M K, M K)  c_a . c_b
        return self._tables[2]


def _sparse(x: NDArray[np.float32]) -> scipy.sparse.csr_array:
    """Make x (n, a) sparse. SciPy's own conversion takes as long as the dense product that it should avoid."""
    n, a = x.shape
    places = np.flatnonzero(x != 0)
    rows, columns = np.divmod(places, a)
    starts = np.searchsorted(rows, np.arange(n + 1))
    return scipy.sparse.csr_array((x[rows, columns], columns, starts), shape=(n, a))


@dataclass(frozen=True)
class ItemSearch:
    """A search for codes of vectors whose columns count by weights."""

    search_: CodeSearch  # for codebooks and vectors with the roots of the weights in them
    scale: NDArray[np.float32]  # (D,)

    @classmethod
    def of(
        cls,
        codebooks: NDArray[np.floating],
        n_first: int,
        weights: NDArray[np.floating],
        allowed: NDArray[np.bool_] | None = None,
        max_sweeps: int = 20,
        sparse: bool = False,
        beam: int = BEAM,
        quick: bool = False,
    ) -> ItemSearch:
        """Prepare for codebooks (M, K, D), whose first columns have the first of two weights (2,), and words allowed (M, K).

        `sparse` says that few of these first columns differ from zero in a vector, as in those of items with labels. `beam` is
        that of `CodeSearch`, and so is `quick`, which also computes products of codewords in float32.
        """
        dtype = np.float32 if quick else np.float64
        scale = np.sqrt(np.repeat(weights, (n_first, codebooks.shape[2] - n_first))).astype(np.float32)
        scaled: NDArray[np.floating] = codebooks.astype(dtype) * scale.astype(dtype)
        search = CodeSearch(
            scaled,
            None,
            1.0,
            0.0,
            0.0,
            max_sweeps=max_sweeps,
            allowed=allowed,
            beam=beam,
            n_sparse=n_first * sparse,
            quick=quick,
        )
        return cls(search, scale)

    def search(self, vectors: NDArray[np.float32], codes: Codes | None = None) -> Codes:
        """Find codes (n, M) for vectors (n, D), starting from the given codes, or from scratch."""
        return self.search_.search(vectors * self.scale, codes)


def spread_codes(codes: Codes, limit: int) -> Codes:
    """Return at most `limit` distinct codes (s, M) of codes (n, M), at even distances in their sorted order."""
    distinct, counts = kernels.active().distinct(codes)
    # every = sorted(codes)
    # return distinct codes among [every[rank] for rank in ranks]
    ranks = np.linspace(0, len(codes) - 1, min(limit, len(codes))).round()
    return distinct[np.unique(np.searchsorted(np.cumsum(counts), ranks, side="right"))]
