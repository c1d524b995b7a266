"""What all codecs share: vectors to projections in blocks, the check of codes, files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.codec.interface import FeatureMap, block_rows, load_feature_map
from supquant.codec.queries import by_queries, row_products
from supquant.errors import FileFormatError, InputError
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.storage import PackedArrays, lay_out_as_stored, load_arrays, pack_arrays
from supquant.validation import as_float32, check_choice, check_vectors, resolve_jobs

MOST_CODEBOOKS = 64
"""Of one code; the kernels' limit."""

_FEATURES = "features."
"""Prefix of a feature map's arrays in a file."""


def check_part(name: str, array: NDArray[Any], *shape: int | str) -> None:
    """Check that an array of a codec is float32 and of a shape, in which a letter stands for any size."""
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
    """A codec of vectors that go through a feature map and a projection, each of which may be missing."""

    KIND: ClassVar[str] = "codec"
    TYPE: ClassVar[str]
    """What `load_codec` tells codecs apart by."""
    _ARRAYS: ClassVar[tuple[str, ...]]
    """Names of the arrays, some of which may be None."""

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
        """K."""

    @property
    @abstractmethod
    def n_components(self) -> int:
        """r, the width of projected vectors."""

    @property
    @abstractmethod
    def rankings(self) -> tuple[str, ...]:
        """The rankings that queries have tables for; the first one is the default."""

    @property
    def n_inputs(self) -> int:
        """Width of the vectors that come in."""
        if self.feature_map is not None:
            return self.feature_map.n_inputs
        return self.n_components if self.projection is None else int(self.projection.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._stored_arrays().values())

    def features(self, x: Float32) -> Float32:
        """Map vectors (b, p) float32 to features (b, d)."""
        return x if self.feature_map is None else self.feature_map(x)

    def project(self, features: Float32) -> Float32:
        """Project features (b, d) to (b, r)."""
        return features if self.projection is None else row_products(features, self._projection_rows)

    @cached_property
    def _projection_rows(self) -> Float32:
        """The projection with a row for every component, (r, d)."""
        return np.ascontiguousarray(cast("Float32", self.projection).T)

    def prepare(self, features: Float32, ranking: str | None = None) -> Float32:
        """Turn features (b, d) of queries into what their tables are made of under a ranking: (b, r)."""
        self._ranking(ranking)
        return self.project(features)

    def check_codes(self, codes: object) -> Codes:
        """Check codes (n, M) that come from outside."""
        array = np.asarray(codes)
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
        return check_choice(self.rankings[0] if ranking is None else ranking, "ranking", self.rankings)

    # rows ----------------------------------------------------------------------------------------------------------------

    def _by_queries(
        self,
        Q: NDArray[Any],
        n_jobs: int | None,
        made: tuple[NDArray[Any], ...],
        function: Callable[[Float32], tuple[NDArray[Any], ...]],
    ) -> None:
        """Fill arrays (q, ...) with what a function makes of features of queries, the same bits whatever stands beside them."""
        by_queries(lambda x: function(self.features(x)), Q, made, resolve_jobs(n_jobs))

    def _by_blocks(
        self,
        X: object,
        n_jobs: int | None,
        width: int,
        dtype: type[np.generic],
        function: Callable[[Float32, tuple[int, int]], NDArray[Any]],
    ) -> NDArray[Any]:
        """Collect what a function makes of the features of X (n, p), block by block: (n, width)."""
        return self._by_vectors(X, n_jobs, width, dtype, lambda x, block: function(self.features(x), block))

    def _by_vectors(
        self,
        X: object,
        n_jobs: int | None,
        width: int,
        dtype: type[np.generic],
        function: Callable[[Float32, tuple[int, int]], NDArray[Any]],
    ) -> NDArray[Any]:
        """Collect what a function makes of vectors X (n, p) themselves, block by block: (n, width)."""
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        made = np.empty((len(X), width), dtype=dtype)

        def fill(block: tuple[int, int]) -> None:
            made[slice(*block)] = function(as_float32(X[slice(*block)]), block)

        with single_blas():
            blocks = row_blocks(len(X), block_rows(self.feature_map))
            for _ in ordered_map(fill, blocks, resolve_jobs(n_jobs)):
                pass
        return made

    # files ---------------------------------------------------------------------------------------------------------------

    def pack(self, *, kind: str = KIND, settings: dict[str, Any] | None = None) -> PackedArrays:
        """Give the file that `save` writes, before it is written."""
        own = {**self._stored_settings(), "feature_map": None}
        if self.feature_map is not None:
            own["feature_map"] = self.feature_map.kind
        return pack_arrays(kind, self._stored_arrays(), {**(settings or {}), "codec": own})

    def save(
        self, path: str | os.PathLike[str], *, kind: str = KIND, settings: dict[str, Any] | None = None
    ) -> None:
        """Write the codec to one file; `settings` go beside it, under the file's `kind`."""
        self.pack(kind=kind, settings=settings).write(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, kind: str = KIND) -> tuple[Self, dict[str, Any]]:
        """Read a codec of this class, with the settings saved beside it."""
        arrays, settings = load_arrays(path, kind)
        try:
            own = settings.pop("codec")
            if (found := own.pop("type", cls.TYPE)) != cls.TYPE:
                raise ValueError(f"it is of type {found!r}, expected {cls.TYPE!r}")  # noqa: TRY301
            inner = {
                name.removeprefix(_FEATURES): arrays.pop(name)
                for name in list(arrays)
                if name.startswith(_FEATURES)
            }
            features = own.pop("feature_map")
            own["feature_map"] = None if features is None else load_feature_map(features, inner)
            return cls._restored(arrays, own), settings
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{os.fspath(path)}: holds no codec of this version of supquant: {error!r}"
            ) from error

    def _stored_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {name: value for name in self._ARRAYS if (value := getattr(self, name)) is not None}
        if self.feature_map is not None:
            arrays |= {_FEATURES + name: value for name, value in self.feature_map.arrays().items()}
        return arrays

    @abstractmethod
    def _stored_settings(self) -> dict[str, Any]:
        """Give all that is no array and no feature map, as JSON."""

    @classmethod
    @abstractmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        """Make the codec from its arrays and settings, among these the feature map."""


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Write class labels as JSON; labels that JSON cannot hold are refused."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("only class labels that are strings or numbers can be saved")
    return {"dtype": classes.dtype.str if classes.dtype.kind != "O" else "O", "values": values}


def classes_from_plain(stored: dict[str, Any]) -> NDArray[Any]:
    """Make class labels again from what `plain_classes` gave."""
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
