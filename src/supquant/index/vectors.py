"""Vectors next to codes: what rows are, as exactly as their type holds it. A search orders the first answers by them.

A row is a unit vector (p,) and a meaning (w,), as `model/exact.py` has them. Numbers are float16, or int8 with a scale for each
dimension: ``2**(k / 4) / 127`` with the smallest whole k that holds all rows. So a number is off by at most half a scale when it
is added. Rows that are merged with others of a larger scale are rounded again. Scales then grow by a fifth or more, so the errors
add up to 3.2 scales at most, however many merges there are.

Meanings are kept once if they repeat, as those of items with labels do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32, RowNumbers
from supquant.errors import FileFormatError
from supquant.index.stored import StoredArrays, array_of_file
from supquant.model.exact import ExactQueries
from supquant.storage import ArrayFile

__all__ = ["VECTOR_KINDS", "CodedRows", "VectorKind", "Vectors", "join_vectors"]

VectorKind = Literal["int8", "float16"]

VECTOR_KINDS = ("int8", "float16")
"""The types of numbers that an index may keep."""

_DTYPES: dict[str, type[np.generic]] = {"int8": np.int8, "float16": np.float16}

_MAX_INT8 = 127

_MIN_POWER = -30
"""The smallest k / 4 of a scale. A dimension of zeros has it, so that it does not decide when rows are merged."""

_MAX_SCALE = 2.0**20
"""The largest scale, far above that of unit vectors and probabilities: no product with it overflows."""

_SCALES_FLAW = f"'scales' must be above 0 and at most {_MAX_SCALE:g}"

_VALUES_FLAW = "the vectors must be finite"

_ROWS_PER_MEANING = 8
"""Meanings are kept once if there are at least this number of rows for each distinct one, on average."""

Kept = NDArray[np.int8] | NDArray[np.float16]


class Vectors(StoredArrays):
    """The vectors of a run of rows, which are numbered from 0.

    Parameters
    ----------
    rows : ndarray (n, p) int8 or float16
        The unit vectors.
    meanings : ndarray (d, w) like `rows`
        The meanings: of every row, or the distinct ones.
    scales : ndarray (p + w,) float32
        Factors of the columns of both; 1 for float16.
    which : ndarray (n,) uint32, default=None
        The number of the meaning of every row. None if each row has its own.
    file : ArrayFile, default=None
        The file that the arrays come from.
    """

    KIND: ClassVar[str] = "vectors"
    ARRAYS = ("rows", "meanings", "scales", "which")
    FOLLOWED = ("scales", "which")

    def __init__(
        self,
        rows: Kept,
        meanings: Kept,
        scales: Float32,
        which: NDArray[np.uint32] | None = None,
        file: ArrayFile | None = None,
    ) -> None:
        super().__init__(file)
        self._rows = rows
        self._meanings = meanings
        self._scales = scales
        self._which = which

    @classmethod
    def of_items(cls, units: Float32, meanings: Float32, kind: VectorKind) -> Self:
        """Return unit vectors (n, p) and meanings (n, w) in the type of an index."""
        p, w = units.shape[1], meanings.shape[1]
        if kind == "float16":
            kept: tuple[Kept, Kept] = units.astype(np.float16), meanings.astype(np.float16)
            return cls(kept[0], kept[1], np.ones(p + w, dtype=np.float32))._with_distinct_meanings()
        largest = np.concatenate([np.abs(each).max(axis=0, initial=0) for each in (units, meanings)])
        powers = np.ceil(4 * np.log2(np.maximum(largest, 2.0**_MIN_POWER, dtype=np.float64)))
        scales = (np.exp2(powers / 4) / _MAX_INT8).astype(np.float32)
        made = cls(_as_int8(units, scales[:p]), _as_int8(meanings, scales[p:]), scales)
        return made._with_distinct_meanings()

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int, kind: VectorKind, width: int, meaning: int) -> Self:
        """Return the vectors that a file holds: `width` and `meaning` are p and w."""
        dtype = _DTYPES[kind]
        which = array_of_file(file, "which", np.uint32, n_rows) if "which" in file.arrays else None
        meanings = array_of_file(file, "meanings", dtype, None if which is not None else n_rows, meaning)
        if which is not None and not len(meanings) and n_rows:
            raise FileFormatError(f"{file.path}: array 'meanings' is empty")
        scales = array_of_file(file, "scales", np.float32, width + meaning)
        return cls(array_of_file(file, "rows", dtype, n_rows, width), meanings, scales, which, file)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: RowNumbers | NDArray[np.bool_]) -> Vectors:
        """Return some rows, in any order, or those of a mask."""
        self.check_once()
        if self._which is None:
            return Vectors(self._rows[rows], self._meanings[rows], self._scales)
        return Vectors(self._rows[rows], self._meanings, self._scales, self._which[rows])

    def products(
        self, rows: RowNumbers, asking: RowNumbers, queries: ExactQueries, n_threads: int
    ) -> tuple[Float32, Float32]:
        """Return the scores (r,) and cosines (r,) of some rows (r,) for the queries that ask for them, by their numbers (r,).

        Only these rows are checked, as long as nothing else needed all of them.
        """
        own = rows
        if self._which is not None:
            with self.checked_rows(which=rows):
                own = self._which[rows].astype(np.int64)  # a copy: it stays what is checked here
            self._refuse_if(
                own.max(initial=-1) >= len(self._meanings), "'which' names meanings that are not there"
            )
        dots = kernels.active().row_dots
        p = self._rows.shape[1]
        with self.checked_rows(rows=rows, meanings=own, scales=None):
            self._refuse_if(not self._has_good_scales(), _SCALES_FLAW)
            factors = np.stack([queries.weights, queries.units], axis=1) * self._scales[:p]  # (q, 2, p)
            found = dots(self._rows, rows, asking, factors, n_threads)
            known = np.broadcast_to(queries.known, queries.meaning.shape)
            of_meaning = np.stack([queries.meaning, known], axis=1) * self._scales[p:]  # (q, 2, w)
            meant = dots(self._meanings, own, asking, of_meaning, n_threads)
        self._refuse_if(not (np.isfinite(found).all() and np.isfinite(meant).all()), _VALUES_FLAW)
        return queries.scores(meant[:, 0], meant[:, 1], found[:, 0], asking), found[:, 1]

    def _refuse_if(self, wrong: bool | np.bool_, what: str) -> None:
        if wrong and self._file is not None:
            raise FileFormatError(f"{self._file.path}: {what}")

    def decoded(self) -> tuple[Float32, Float32]:
        """Return the unit vectors (n, p) and meanings (n, w) that are kept."""
        self.check_once()
        p = self._rows.shape[1]
        meanings = self._meanings if self._which is None else self._meanings[self._which]
        return self._rows * self._scales[:p], meanings * self._scales[p:]

    def _rescaled(self, scales: Float32) -> Vectors:
        """Return the same rows with scales that are as large or larger."""
        if np.array_equal(scales, self._scales):
            return self
        p = self._rows.shape[1]
        factors = self._scales / scales
        return Vectors(
            _rounded(self._rows, factors[:p]), _rounded(self._meanings, factors[p:]), scales, self._which
        )

    def _with_distinct_meanings(self) -> Self:
        """Return the same rows, with each meaning once if that takes less memory."""
        if not len(self):
            return self
        meanings = self._meanings if self._which is None else self._meanings[self._which]
        _, first, which = np.unique(_keys(meanings), return_index=True, return_inverse=True)
        if _ROWS_PER_MEANING * len(first) > len(meanings):
            return self.__class__(self._rows, meanings, self._scales)
        distinct = meanings[first]
        if not all(np.array_equal(distinct[which[part]], meanings[part]) for part in _parts(len(which))):
            return self.__class__(self._rows, meanings, self._scales)  # two of them have the same key
        return self.__class__(self._rows, distinct, self._scales, which.astype(np.uint32))

    def _find_flaw(self) -> str | None:
        if self._which is not None and (last := int(self._which.max(initial=0))) >= max(
            1, len(self._meanings)
        ):
            return f"'which' must be below {len(self._meanings)}, got {last}"
        if not self._has_good_scales():
            return _SCALES_FLAW
        for values in (self._rows, self._meanings):
            if values.dtype == np.float16 and not all(
                np.isfinite(values[part]).all() for part in _parts(len(values))
            ):
                return _VALUES_FLAW
        return None

    def _has_good_scales(self) -> bool:
        return bool(((self._scales > 0) & (self._scales <= _MAX_SCALE)).all())


def join_vectors(pieces: Sequence[Vectors]) -> Vectors:
    """Return the rows of all pieces, one after the other, with the largest of their scales."""
    if len(pieces) == 1:
        return pieces[0]
    for piece in pieces:
        piece.check_once()
    scales = np.max([piece._scales for piece in pieces], axis=0)
    same = [piece._rescaled(scales) for piece in pieces]
    rows = np.concatenate([piece._rows for piece in same])
    if all(piece._which is None for piece in same):
        return Vectors(rows, np.concatenate([piece._meanings for piece in same]), scales)
    starts = np.cumsum([0, *(len(piece._meanings) for piece in same)])
    which = [
        (np.arange(len(piece)) if piece._which is None else piece._which) + start
        for piece, start in zip(same, starts[:-1], strict=True)
    ]
    meanings = np.concatenate([piece._meanings for piece in same])
    return Vectors(rows, meanings, scales, np.concatenate(which).astype(np.uint32))._with_distinct_meanings()


def _as_int8(values: Float32, scales: Float32) -> NDArray[np.int8]:
    return np.clip(np.rint(values / scales), -_MAX_INT8, _MAX_INT8).astype(np.int8)


def _rounded(values: Kept, factors: Float32) -> Kept:
    """Return int8 values (n, d) times factors (d,) of at most 1, block by block."""
    made = np.empty(values.shape, dtype=np.int8)
    for part in _parts(len(values)):
        made[part] = np.rint(values[part] * factors)
    return made


def _parts(n: int) -> list[slice]:
    """Return slices of n rows, small enough that what is computed of one takes little memory."""
    return [slice(start, start + (1 << 14)) for start in range(0, n, 1 << 14)]


def _keys(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number (n,) for each of some rows (n, d), which is the same for equal rows."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    keys = np.zeros(len(raw), dtype=np.uint64)
    factor = np.uint64(0x9E3779B97F4A7C15)
    for part in _parts(len(raw)):
        block = raw[part]
        padded = np.zeros((len(block), -(-raw.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : raw.shape[1]] = block
        for word in padded.view(np.uint64).T:
            keys[part] = (keys[part] ^ word) * factor
            keys[part] ^= keys[part] >> np.uint64(29)
    return keys


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The codes (n, M) of rows, with their vectors if the index keeps them. Both are always of the same rows."""

    codes: Codes
    vectors: Vectors | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> CodedRows:
        return CodedRows(self.codes[rows], None if self.vectors is None else self.vectors.take(rows))

    @classmethod
    def join(cls, pieces: Sequence[CodedRows]) -> CodedRows:
        """Return the rows of all pieces, one after the other."""
        vectors = [piece.vectors for piece in pieces if piece.vectors is not None]
        assert len(vectors) in (0, len(pieces))
        return cls(
            np.concatenate([piece.codes for piece in pieces]), join_vectors(vectors) if vectors else None
        )
