"""What all codecs share: rows in blocks, the check of codes, and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.codec.feature_maps import FeatureMap, block_rows, load_feature_map
from supquant.codec.interface import QueryTables
from supquant.codec.prefixes import add_prefix, split_prefix
from supquant.codec.queries import by_queries, fill_blocks, row_products
from supquant.errors import FileFormatError, InputError
from supquant.parallel import row_blocks, single_blas
from supquant.storage import PackedArrays, lay_out_as_stored, load_arrays, pack_arrays
from supquant.validation import check_choice, check_vectors, refuse_masked, resolve_jobs

MOST_CODEBOOKS = 64
"""Codebooks of a code at the most, which is the limit of the kernels."""

_FEATURES = "features."
"""Prefix of a feature map's arrays in a file."""


def check_part(name: str, array: NDArray[Any], *shape: int | str) -> None:
    """Raise an `InputError` unless an array is float32 and of a shape, in which a letter stands for any size."""
    fits = array.ndim == len(shape) and all(
        isinstance(expected, str) or expected == size
        for expected, size in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != np.float32:
        expected = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise InputError(
            f"{name} must be float32 of shape {expected}, got {array.dtype} of shape {array.shape}"
        )


class ProjectingCodec(ABC):
    """A codec whose vectors go through a feature map and a projection; each of the two may be missing."""

    KIND: ClassVar[str] = "codec"
    """Kind of the files that hold a codec and nothing else."""
    TYPE: ClassVar[str]
    """Name of the class in files."""
    _ARRAYS: ClassVar[tuple[str, ...]]
    """Names of the attributes that are arrays; some may be None."""

    projection: Float32 | None
    feature_map: FeatureMap | None

    def __post_init__(self) -> None:
        lay_out_as_stored(self, self._ARRAYS)

    @property
    @abstractmethod
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""

    @property
    @abstractmethod
    def n_codewords(self) -> int:
        """K, the codewords of a codebook."""

    @property
    @abstractmethod
    def n_components(self) -> int:
        """r, the width of projected vectors."""

    @property
    @abstractmethod
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` takes; the first one is the default."""

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""
        if self.feature_map is not None:
            return self.feature_map.n_inputs
        return self.n_components if self.projection is None else int(self.projection.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._stored_arrays().values())

    def features(self, x: Float32) -> Float32:
        """Return the features (b, d) of vectors (b, p) float32."""
        return x if self.feature_map is None else self.feature_map(x)

    def project(self, features: Float32) -> Float32:
        """Return the projections (b, r) of features (b, d)."""
        return features if self.projection is None else row_products(features, self._projection_rows)

    @cached_property
    def _projection_rows(self) -> Float32:
        """The projection, transposed: (r, d)."""
        return np.ascontiguousarray(cast("Float32", self.projection).T)

    @abstractmethod
    def query_tables(
        self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p); it is the same bits for a query alone and in a batch."""

    def tables(self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None) -> Float32:
        """Return look-up tables (q, M, K) float32 of queries Q (q, p); the smaller a sum over a code, the nearer the item."""
        return self.query_tables(Q, ranking, n_jobs=n_jobs).tables

    def rank(
        self, Q: object, codes: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Rank codes for every query.

        Parameters
        ----------
        Q : array-like of shape (q, p)
            Vectors of queries.
        codes : array-like of shape (n, M)
            Codes of items.
        ranking : str or None, default=None
            One of `rankings`; None takes the first of them.
        n_jobs : int or None, default=None
            Number of threads; None takes all cores.

        Returns
        -------
        ndarray of shape (q, n), intp
            Row numbers of the codes, nearest first; of equal ones the earlier comes first. The order is that of float32 table
            entries, summed in the order of codebooks.
        """
        checked = self.check_codes(codes)
        tables = self.tables(Q, ranking, n_jobs=n_jobs)
        sums = kernels.active().table_sums(checked, tables, n_threads=resolve_jobs(n_jobs))
        return sums.argsort(axis=1, kind="stable")

    def check_codes(self, codes: object) -> Codes:
        """Return codes (n, M) as uint8; raise an `InputError` if they are no codes of this codec."""
        array = np.asarray(refuse_masked(codes, "codes"))
        if array.ndim != 2 or array.shape[1] != self.n_codebooks or array.dtype.kind not in "ui":
            raise InputError(
                f"codes must be whole numbers of shape (n, {self.n_codebooks}), got {array.dtype} of shape {array.shape}"
            )
        if array.size and (array.min() < 0 or array.max() >= self.n_codewords):
            raise InputError(
                f"codes must lie in 0 .. {self.n_codewords - 1}, got {array.min()} .. {array.max()}"
            )
        return np.ascontiguousarray(array, dtype=np.uint8)

    def _ranking(self, ranking: str | None) -> str:
        """Return a checked ranking; None is the default one."""
        return check_choice(self.rankings[0] if ranking is None else ranking, "ranking", self.rankings)

    # rows ----------------------------------------------------------------------------------------------------------------

    def _by_queries(
        self,
        Q: NDArray[Any],
        n_jobs: int | None,
        results: tuple[NDArray[Any], ...],
        function: Callable[[Float32], tuple[NDArray[Any], ...]],
    ) -> None:
        """Fill arrays (q, ...) with the results of a function for the features of queries Q (q, p), in blocks of queries."""
        by_queries(lambda x: function(self.features(x)), Q, results, resolve_jobs(n_jobs))

    def _by_blocks(
        self,
        X: object,
        n_jobs: int | None,
        width: int,
        dtype: type[np.generic],
        function: Callable[[Float32, tuple[int, int]], NDArray[Any]],
        *,
        of_vectors: bool = False,
    ) -> NDArray[Any]:
        """Return the results (n, width) of a function for every block of X (n, p).

        The function takes the features of a block, or its vectors if `of_vectors`, and the (start, stop) of the block.
        """
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        results = np.empty((len(X), width), dtype=dtype)
        blocks = row_blocks(len(X), block_rows(self.feature_map))

        def of_block(x: Float32, block: tuple[int, int]) -> tuple[NDArray[Any]]:
            return (function(x if of_vectors else self.features(x), block),)

        with single_blas():
            fill_blocks(of_block, X, (results,), blocks, resolve_jobs(n_jobs))
        return results

    # files ---------------------------------------------------------------------------------------------------------------

    def pack(self, *, kind: str = KIND, settings: dict[str, Any] | None = None) -> PackedArrays:
        """Return the content of the file that `save` writes."""
        own = {**self._stored_settings(), "feature_map": None}
        if self.feature_map is not None:
            own["feature_map"] = self.feature_map.kind
        return pack_arrays(kind, self._stored_arrays(), {**(settings or {}), "codec": own})

    def save(
        self, path: str | os.PathLike[str], *, kind: str = KIND, settings: dict[str, Any] | None = None
    ) -> None:
        """Write the codec to one file.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        kind : str, default="codec"
            The kind of the file, such as that of a model.
        settings : dict or None, default=None
            JSON values to save beside the codec.
        """
        self.pack(kind=kind, settings=settings).write(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, kind: str = KIND) -> tuple[Self, dict[str, Any]]:
        """Read a codec of this class from a file of a kind; return it and the settings saved beside it."""
        arrays, settings = load_arrays(path, kind)
        try:
            own = settings.pop("codec")
            if (found := own.pop("type", cls.TYPE)) != cls.TYPE:
                raise ValueError(f"it is of type {found!r}, expected {cls.TYPE!r}")  # noqa: TRY301
            of_map, arrays = split_prefix(_FEATURES, arrays)
            map_kind = own.pop("feature_map")
            own["feature_map"] = None if map_kind is None else load_feature_map(map_kind, of_map)
            return cls._restored(arrays, own), settings
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{os.fspath(path)}: holds no codec of this version of supquant: {error!r}"
            ) from error

    def _stored_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, those of the feature map too, under their names in a file."""
        arrays = {name: value for name in self._ARRAYS if (value := getattr(self, name)) is not None}
        if self.feature_map is not None:
            arrays |= add_prefix(_FEATURES, self.feature_map.arrays())
        return arrays

    @abstractmethod
    def _stored_settings(self) -> dict[str, Any]:
        """Return the JSON values that a file holds beside the arrays and the feature map."""

    @classmethod
    @abstractmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        """Return the codec with the arrays and the settings of a file; the feature map is among the settings."""


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return class labels (L,) as JSON; raise an `InputError` if JSON cannot hold them."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("only class labels that are strings or numbers can be saved")
    return {"dtype": classes.dtype.str if classes.dtype.kind != "O" else "O", "values": values}


def classes_from_plain(stored: dict[str, Any]) -> NDArray[Any]:
    """Return class labels (L,) from the JSON that `plain_classes` returned."""
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
