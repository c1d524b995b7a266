"""Vectors to codes, codes to vectors, queries to tables: the frozen thing that a model file or an index holds.

Every quantizer ends in a codec; it carries arrays and settings only, and refitting the estimator does not change it.

    X -> features -> project -> encode -> codes            codes -> decode
                             -> tables_of -> (q, M, K) look-up tables, summed over the codebooks of a code by a scan
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.assignment import CodeSearch
from supquant.errors import FileFormatError, InputError
from supquant.labels import Labels
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.storage import load_arrays, save_arrays
from supquant.validation import as_float32, check_choice, check_vectors, resolve_jobs

Block = NDArray[np.float32]
Codes = NDArray[np.uint8]
MissingLabels = Literal["predict", "drop"]
Ranking = Literal["euclidean"]

_OPTIONAL = ("projection", "classifier", "seeds")
"""Arrays that a codec may go without."""

RANKINGS: tuple[Ranking, ...] = ("euclidean",)


class FeatureMap(Protocol):
    """A fitted, frozen map from vectors to features."""

    kind: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """Width of what comes in."""

    def __call__(self, x: Block) -> Block:
        """Map a block (b, p) to its features (b, d)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""


_feature_maps: dict[str, type[FeatureMap]] = {}


def register_feature_map(kind: type[FeatureMap]) -> None:
    """Let codec files hold feature maps of this kind."""
    _feature_maps[kind.kind] = kind


@dataclass(frozen=True, eq=False)
class Codec:
    """Encodes, decodes and makes look-up tables.

    Parameters
    ----------
    codebooks : (M, K, r) float32
    projection : (d, r) float32 or None
        None where the codebooks lie in the space of the features.
    classifier : (r, L) float32 or None
        None where no labels were learned from.
    classes : (L,) array or None
        The labels; with `multilabel`, their column numbers.
    multilabel : bool
    constant : float
        Eps, the inter-dictionary product of every code.
    quantization_weight, constraint_weight : float
        Gamma and mu, which weigh the parts of an encoding's cost.
    seeds : (s, M) uint8 or None
        Codes of training rows that an encoding of more than two codebooks may start from.
    independent : bool
        Whether codebooks have disjoint supports, so that each codeword is chosen by itself.
    feature_map : FeatureMap or None
    """

    codebooks: Block
    projection: Block | None = None
    classifier: Block | None = None
    classes: NDArray[Any] | None = None
    multilabel: bool = False
    constant: float = 0.0
    quantization_weight: float = 1.0
    constraint_weight: float = 0.0
    seeds: Codes | None = None
    independent: bool = False
    feature_map: FeatureMap | None = None

    KIND: ClassVar[str] = "codec"

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        return int(self.codebooks.shape[0])

    @property
    def n_codewords(self) -> int:
        """K."""
        return int(self.codebooks.shape[1])

    @property
    def n_inputs(self) -> int:
        """Width of the vectors that come in."""
        if self.feature_map is not None:
            return self.feature_map.n_inputs
        return int(self.codebooks.shape[2] if self.projection is None else self.projection.shape[0])

    # the steps of a vector -------------------------------------------------------------------------------------------

    def features(self, x: Block) -> Block:
        """Map vectors (b, p) float32 to features (b, d)."""
        return x if self.feature_map is None else self.feature_map(x)

    def project(self, features: Block) -> Block:
        """Project features (b, d) to (b, r)."""
        return features if self.projection is None else features @ self.projection

    def tables_of(self, projected: Block, ranking: str = "euclidean") -> Block:
        """Make look-up tables (q, M, K) for projected queries (q, r): ``|c|^2 - 2 q . c``.

        Their sum over a code's codewords is the squared distance to the decoded vector less ``|q|^2`` and less eps, which
        are the same for all codes (equation 5 of the paper).
        """
        check_choice(ranking, "ranking", RANKINGS)
        flat = self.codebooks.reshape(-1, self.codebooks.shape[2])
        tables = projected @ flat.T
        tables *= -2
        tables += np.einsum("ij,ij->i", flat, flat)
        return tables.reshape(len(projected), self.n_codebooks, self.n_codewords)

    def offsets_of(self, projected: Block) -> Block:
        """Give what a sum of Euclidean tables lacks to be a squared distance, (q,): ``|q|^2 + eps``."""
        squares: Block = np.einsum("ij,ij->i", projected, projected) + np.float32(self.constant)
        return squares

    # whole ways --------------------------------------------------------------------------------------------------------

    def transform(self, X: object, *, n_jobs: int | None = None) -> Block:
        """Project vectors X (n, p) into the space of the codebooks, (n, r) float32."""
        return self._by_blocks(X, n_jobs, self.codebooks.shape[2], np.float32, lambda z, _: z)

    def tables(self, Q: object, ranking: str = "euclidean", *, n_jobs: int | None = None) -> Block:
        """Make look-up tables (q, M, K) float32 for queries Q (q, p); smaller sums are nearer."""
        check_choice(ranking, "ranking", RANKINGS)
        width = self.n_codebooks * self.n_codewords
        made = self._by_blocks(
            Q, n_jobs, width, np.float32, lambda z, _: self.tables_of(z, ranking).reshape(len(z), width)
        )
        return made.reshape(-1, self.n_codebooks, self.n_codewords)

    def rank(
        self, Q: object, codes: object, ranking: str = "euclidean", *, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Rank all codes (n, M) for every query Q (q, p): row numbers (q, n), nearest first, ties in order of insertion.

        The order is that of float32 tables summed in codebook order.
        """
        checked = self.check_codes(codes)
        tables = self.tables(Q, ranking, n_jobs=n_jobs)
        sums = kernels.active().table_sums(checked, tables, n_threads=resolve_jobs(n_jobs))
        return sums.argsort(axis=1, kind="stable")

    def decision_function(self, X: object, *, n_jobs: int | None = None) -> Block:
        """Score every label for vectors X (n, p): ``W'P'x``, (n, L) float32."""
        classifier = self._learned_classifier()
        return self._by_blocks(X, n_jobs, classifier.shape[1], np.float32, lambda z, _: z @ classifier)

    def encode(
        self,
        X: object,
        labels: Labels | None = None,
        *,
        missing_labels: MissingLabels = "predict",
        n_jobs: int | None = None,
    ) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8.

        Without labels, ``missing_labels="predict"`` puts the predicted label vector in their place, and ``"drop"`` looks
        at the quantization error alone.
        """
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        return self._by_blocks(
            X, n_jobs, self.n_codebooks, np.uint8, self._block_encoder(labels, missing_labels)
        )

    def encode_projected(self, Z: object, *, missing_labels: MissingLabels = "predict") -> Codes:
        """Give vectors that `transform` made, (n, r), their codes (n, M), without labels and on one thread."""
        check_choice(missing_labels, "missing_labels", ("predict", "drop"))
        projected = as_float32(check_vectors(Z, n_features=self.codebooks.shape[2], min_rows=0))
        return self._block_encoder(None, missing_labels)(projected, (0, len(projected)))

    def mean_cost(self, X: object) -> float:
        """Give the mean cost of the codes that `encode` finds for X without labels: lower is a better search."""
        search = self._search(labelled=True)
        targets = search.target(self.transform(X), None)
        return float(search.costs(targets, search.search(as_float32(targets))).mean())

    def _block_encoder(
        self, labels: Labels | None, missing_labels: MissingLabels
    ) -> Callable[[Block, tuple[int, int]], Codes]:
        search = self._search(labels is not None or missing_labels == "predict")

        def encode_block(projected: Block, block: tuple[int, int]) -> Codes:
            if self.independent:
                nearest: Codes = self.tables_of(projected).argmin(axis=2).astype(np.uint8)
                return nearest
            y = None if labels is None else labels.dense(*block)
            return search.search(as_float32(search.target(projected, y)))

        return encode_block

    def decode(self, codes: object) -> Block:
        """Give the vectors (n, r) that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

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

    # files --------------------------------------------------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, kind: str = KIND, settings: dict[str, Any] | None = None
    ) -> None:
        """Write the codec to one file; `settings` go beside it, under the file's `kind`."""
        arrays, own = self._stored()
        save_arrays(path, kind, arrays, {**(settings or {}), "codec": own})

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, kind: str = KIND) -> tuple[Self, dict[str, Any]]:
        """Read a codec, with the settings saved beside it."""
        arrays, settings = load_arrays(path, kind)
        try:
            return cls._restored(arrays, settings.pop("codec")), settings
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{os.fspath(path)}: holds no codec of this version of supquant: {error!r}"
            ) from error

    def _stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            name: value for name in ("codebooks", *_OPTIONAL) if (value := getattr(self, name)) is not None
        }
        own = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name
            in ("multilabel", "constant", "quantization_weight", "constraint_weight", "independent")
        }
        own["classes"] = None if self.classes is None else _plain(self.classes)
        own["feature_map"] = None
        if self.feature_map is not None:
            own["feature_map"] = self.feature_map.kind
            arrays.update({f"features.{name}": value for name, value in self.feature_map.arrays().items()})
        return arrays, own

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        kind, classes = own.pop("feature_map"), own.pop("classes")
        own["feature_map"] = None
        if kind is not None:
            inner = {
                name.removeprefix("features."): a
                for name, a in arrays.items()
                if name.startswith("features.")
            }
            own["feature_map"] = _feature_maps[kind].from_arrays(inner)
        own["classes"] = None if classes is None else _from_plain(classes)
        own.update({name: arrays.get(name) for name in _OPTIONAL})
        return cls(codebooks=arrays["codebooks"], **own)

    # parts ----------------------------------------------------------------------------------------------------------------

    def _search(self, labelled: bool) -> CodeSearch:
        classifier = self.classifier if labelled else None
        return CodeSearch(
            self.codebooks.astype(np.float64),
            None if classifier is None else classifier.astype(np.float64),
            self.quantization_weight,
            self.constraint_weight,
            self.constant,
            self.seeds,
            self._target_basis(),
        )

    def _target_basis(self) -> Block | None:
        """Give a basis (r, r') of the space of projected vectors where it is small: costs need no more of a codeword.

        W lies in it too, so it holds every target. A projection fitted to few codewords spans few dimensions.
        """
        if self.projection is None:
            return None
        values, vectors = np.linalg.eigh(self.projection.T.astype(np.float64) @ self.projection)
        kept = vectors[:, values > 1e-12 * values[-1]]
        return kept.astype(np.float32) if 2 * kept.shape[1] <= len(kept) else None

    def _learned_classifier(self) -> Block:
        if self.classifier is None:
            raise InputError("this codec was learned without labels and predicts none")
        return self.classifier

    def _by_blocks(
        self,
        X: object,
        n_jobs: int | None,
        width: int,
        dtype: type[np.generic],
        function: Callable[[Block, tuple[int, int]], NDArray[Any]],
    ) -> NDArray[Any]:
        """Project X (n, p) block by block and collect what a function makes of each, (n, width)."""
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        made = np.empty((len(X), width), dtype=dtype)

        def fill(block: tuple[int, int]) -> None:
            projected = self.project(self.features(as_float32(X[slice(*block)])))
            made[slice(*block)] = function(projected, block)

        with single_blas():
            for _ in ordered_map(fill, row_blocks(len(X)), resolve_jobs(n_jobs)):
                pass
        return made


def spread_codes(codes: Codes, limit: int) -> Codes:
    """Give at most `limit` distinct ones (s, M) of codes (n, M), spread evenly over the rows in sorted order."""
    distinct, counts = kernels.active().distinct(codes)
    ranks = np.linspace(0, len(codes) - 1, min(limit, len(codes))).round()
    return distinct[np.unique(np.searchsorted(np.cumsum(counts), ranks, side="right"))]


def _plain(classes: NDArray[Any]) -> dict[str, Any]:
    """Write class labels as JSON; labels that JSON cannot hold are refused."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("only class labels that are strings or numbers can be saved")
    return {"dtype": classes.dtype.str if classes.dtype.kind != "O" else "O", "values": values}


def _from_plain(stored: dict[str, Any]) -> NDArray[Any]:
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
