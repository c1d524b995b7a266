"""What all codecs share: rows in blocks, the check of codes, and files."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.interface import FeatureMap, QueryTables, block_rows
from supquant.codec.queries import QUERY_ROWS, fill_blocks, pack_rows, row_products
from supquant.codec.registry import map_class
from supquant.errors import FileFormatError, InputError
from supquant.inputs.parameters import check_choice, check_integer, resolve_jobs
from supquant.inputs.validation import check_vectors, refuse_masked
from supquant.kernels import Packed
from supquant.parallel import row_blocks, single_blas
from supquant.storage import ArrayFile, PackedArrays, lay_out_as_stored, pack_arrays, shorten

MAX_CODEBOOKS = 64
"""A code has at most this number of codebooks, which is the limit of the kernels."""

_MAX_REASON = 300
"""The reason why a file is refused is cut to this number of characters."""

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


def check_parts(arrays: Mapping[str, NDArray[Any]], **shapes: tuple[int | str, ...]) -> dict[str, int]:
    """Check that arrays of a file are float32 and fit together.

    Parameters
    ----------
    arrays : mapping of str to ndarray
    **shapes : tuple of int or str
        The shape of each array by its name. A letter stands for the same size in all arrays.

    Returns
    -------
    dict of str to int
        The size that each letter stands for.

    Raises
    ------
    InputError
        If an array has another dtype or shape.

    Examples
    --------
    >>> check_parts({"mean": np.zeros(3, np.float32), "rows": np.zeros((2, 3), np.float32)}, mean=("p",), rows=("n", "p"))
    {'p': 3, 'n': 2}
    """
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        check_part(
            name, arrays[name], *(sizes.get(size, size) if isinstance(size, str) else size for size in shape)
        )
        found = zip(shape, arrays[name].shape, strict=True)
        sizes |= {letter: size for letter, size in found if isinstance(letter, str)}
    return sizes


def number_in(arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """Return the number that an array (1,) of a file holds; raise an `InputError` if it holds something else."""
    array = arrays[name]
    if array.shape != (1,):
        raise InputError(f"{name} must be one number, got shape {array.shape}")
    return array.item()


def check_flag(value: object, name: str) -> bool:
    """Return a setting; raise an `InputError` unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return bool(value)


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

    def __repr__(self) -> str:
        classes = getattr(self, "classes", None)
        labels = "" if classes is None else f", {len(classes):,} labels"
        return (
            f"{type(self).__name__}: {self.n_codebooks} codebooks of {self.n_codewords} codewords\n"
            f"  vectors of {self.n_inputs} dimensions{labels}\n"
            f"  rankings: {', '.join(self.rankings)}"
        )

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
        return features if self.projection is None else row_products(features, self._packed_projection)

    @cached_property
    def _packed_projection(self) -> Packed:
        """The projection, transposed: (r, d)."""
        return pack_rows(cast("Float32", self.projection).T)

    @abstractmethod
    def query_tables(
        self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p); a query gets the same bits alone and in a batch."""

    def tables(self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None) -> Float32:
        """Return look-up tables (q, M, K) float32 of queries Q (q, p); the smaller the sum over a code, the nearer the item."""
        return self.query_tables(Q, ranking, n_jobs=n_jobs).tables

    def rank(
        self, Q: ArrayLike, codes: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Rank codes for every query.

        Parameters
        ----------
        Q : array-like of shape (q, p)
            Vectors of queries.
        codes : array-like of shape (n, M)
            Codes of items.
        ranking : str or None, default=None
            One of `rankings`; None is the first of them.
        n_jobs : int or None, default=None
            Number of threads; None uses all cores.

        Returns
        -------
        ndarray of shape (q, n), intp
            Row numbers of the codes, nearest first; ties are in the order of the rows. Float32 table entries are summed in the
            order of the codebooks.
        """
        checked = self.check_codes(codes)
        tables = self.tables(Q, ranking, n_jobs=n_jobs)
        sums = kernels.active().table_sums(checked, tables, n_threads=resolve_jobs(n_jobs))
        return sums.argsort(axis=1, kind="stable")

    def check_codes(self, codes: ArrayLike) -> Codes:
        """Return codes (n, M) as uint8; raise an `InputError` unless they are codes of this codec."""
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

    def _vectors(self, X: ArrayLike, name: str = "X", *, finite: bool = True) -> Any:
        """Return checked vectors (n, p), of which slices are taken before they become float32."""
        return check_vectors(X, name=name, n_features=self.n_inputs, min_rows=0, finite=finite)

    def _by_queries(
        self,
        Q: NDArray[Any],
        n_jobs: int | None,
        results: tuple[NDArray[Any], ...],
        function: Callable[[Float32], tuple[NDArray[Any], ...]],
    ) -> None:
        """Fill arrays (q, ...) with the results of a function for the features of queries Q (q, p), in blocks of `QUERY_ROWS`."""
        blocks = row_blocks(len(Q), QUERY_ROWS)
        n_jobs = max(1, min(resolve_jobs(n_jobs), len(blocks)))
        fill_blocks(lambda x, _: function(self.features(x)), Q, results, blocks, n_jobs)

    def _by_blocks(
        self,
        X: ArrayLike,
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
        X = self._vectors(X)
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
        kind_of_map = None if self.feature_map is None else self.feature_map.kind
        own = {"type": self.TYPE, **self._stored_settings(), "feature_map": kind_of_map}
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
            JSON values to save with the codec.
        """
        self.pack(kind=kind, settings=settings).write(path)

    @classmethod
    def from_file(cls, file: ArrayFile) -> tuple[Self, dict[str, Any]]:
        """Return the codec of this class that an open file holds, and the settings saved with it."""
        file.verify()
        settings = file.settings.copy()
        try:
            own = settings.pop("codec").copy()
            own.pop("type")
            of_map, arrays = split_prefix(_FEATURES, file.arrays)
            map_kind = own.pop("feature_map")
            own["feature_map"] = None if map_kind is None else map_class(map_kind).from_arrays(of_map)
            codec = cls._restored(arrays, own)
            codec._check_steps()
            return codec, settings  # noqa: TRY300
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{os.fspath(file.path)}: holds no codec of this version of supquant: {_shortened(error)}"
            ) from error

    def _stored_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, those of the feature map too, under their names in a file."""
        arrays = {name: value for name in self._ARRAYS if (value := getattr(self, name)) is not None}
        if self.feature_map is not None:
            arrays |= add_prefix(_FEATURES, self.feature_map.arrays())
        return arrays

    @abstractmethod
    def _stored_settings(self) -> dict[str, Any]:
        """Return the JSON values that a file holds in addition to the arrays and the feature map."""

    def _features_of_nothing(self) -> Float32:
        """Return the features (0, d) of no vectors; raise a ValueError if the feature map does not work."""
        return self.features(
            np.zeros((0, check_integer(self.n_inputs, "the width of vectors", 1)), dtype=np.float32)
        )

    def _check_steps(self) -> None:
        """Raise a ValueError if parts from a file do not fit together, such as features and projection. No row is mapped."""
        projected = self.project(self._features_of_nothing())
        if projected.shape != (0, self.n_components):
            raise InputError(f"expected vectors of width {self.n_components}, got shape {projected.shape}")

    @classmethod
    @abstractmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        """Return the codec with the arrays and the settings of a file; the feature map is among the settings."""


def _shortened(error: Exception) -> str:
    """Return an error as text. What a file holds may be as long as the file."""
    return repr(error)[:_MAX_REASON]


def add_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays under names that begin with a prefix."""
    return {prefix + name: array for name, array in arrays.items()}


def split_prefix(
    prefix: str, arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the arrays whose names begin with a prefix, under names without it, and all other arrays.

    Examples
    --------
    >>> split_prefix("kernel.", {"kernel.anchors": [1], "weights": [2]})
    ({'anchors': [1]}, {'weights': [2]})
    """
    inner = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
    return inner, {name: arrays[name] for name in arrays if not name.startswith(prefix)}


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return class labels (L,) as JSON; raise an `InputError` if JSON cannot hold them."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("only class labels that are strings or numbers can be saved")
    as_objects = classes.dtype.kind == "O" or _is_wide(classes.dtype, values)
    return {"dtype": "O" if as_objects else classes.dtype.str, "values": values}


def classes_from_plain(stored: dict[str, Any]) -> NDArray[Any]:
    """Return class labels (L,) from the JSON that `plain_classes` returned; raise an `InputError` for anything else."""
    name, values = stored["dtype"], stored["values"]
    if not isinstance(name, str) or _CLASS_DTYPE.fullmatch(name) is None:
        raise InputError(f"class labels cannot have the dtype {shorten(name)}")
    if not isinstance(values, list) or not all(isinstance(value, str | int | float) for value in values):
        raise InputError("class labels must be strings or numbers")
    dtype = np.dtype(name)
    if _is_wide(dtype, values):
        raise InputError(f"class labels state the dtype {name}, which is too wide for them")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values:
        raise InputError(f"class labels must be a {name}")
    return classes


_CLASS_DTYPE = re.compile(r"[<>|=]?([iuf][1248]|b1|f16|U[0-9]{1,9})|O")
"""The dtypes that class labels in a file may have."""

_MAX_WIDTH = 64
"""An array of strings may have room for this number of characters per character in use. Otherwise it is saved as objects."""


def _is_wide(dtype: np.dtype[Any], values: list[Any]) -> bool:
    """Return whether an array of strings takes far more memory than the strings themselves."""
    if dtype.kind != "U":
        return False
    characters = sum(len(value) for value in values if isinstance(value, str))
    return dtype.itemsize // 4 * len(values) > _MAX_WIDTH * characters + (1 << 20)
