"""Items to codes: what a change of an index does with labels that its model does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Flags, Float32
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.vectors import CodedRows, VectorKind, Vectors, join_vectors
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.inputs.labels import describe_unknown, find_unknown
from supquant.inputs.parameters import check_choice, resolve_jobs
from supquant.inputs.validation import check_vectors
from supquant.model.codec import SupervisedCodec
from supquant.model.exact import read_items, width_of_meaning
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.sources import VectorSource

__all__ = [
    "MODES",
    "ItemLabels",
    "UnknownMode",
    "bytes_of_vectors",
    "check_extensible",
    "classes_of",
    "coded_rows",
    "read_codes_of",
    "read_item_labels",
]

UnknownMode = Literal["error", "ignore", "extend"]
"""What is done with items whose labels the model does not know: `SearchableIndex.add` describes it."""

MODES = ("error", "ignore", "extend")
"""All of them; the first one is the default."""

_CHOICES = (
    "unknown_labels= (--unknown-labels) says what to do: 'error' refuses them, 'ignore' takes their rows as rows without a "
    "label, and 'extend' first adds them to the model"
)


@dataclass(frozen=True, eq=False)
class ItemLabels:
    """The labels of n items, and the codec that knows them.

    Parameters
    ----------
    codec : AnyCodec
        The codec of the index, or one that is extended by new labels.
    y : labels, or None
        As they were given, or an array (n,) of objects.
    ignored : ndarray of shape (n,), bool, or None, default=None
        The rows that are taken as rows without a label.
    """

    codec: AnyCodec
    y: Any
    ignored: Flags | None = None

    def encode(
        self, X: ArrayLike, start: int = 0, stop: int | None = None, *, n_jobs: int | None = None
    ) -> Codes:
        """Return the codes (b, M) of items X (b, p), which are those from `start` up to `stop`."""
        rows = slice(start, stop)
        y = self.y if self.y is None or (start == 0 and stop is None) else self.y[rows]
        if self.ignored is None:
            codes: Codes = copy_to_host(self.codec.encode_items(X, y, n_jobs=n_jobs))
            return codes
        x, ignored = check_vectors(X, n_features=self.codec.n_inputs, min_rows=0), self.ignored[rows]
        codes = np.empty((len(x), self.codec.n_codebooks), dtype=np.uint8)
        for own, labels in ((ignored, None), (~ignored, y[~ignored])):
            if own.any():
                codes[own] = self.codec.encode_items(x[own], labels, n_jobs=n_jobs)
        return codes

    def coded(
        self, X: Any, n_jobs: int | None, *, by_blocks: bool, kind: VectorKind | None = None
    ) -> CodedRows:
        """Return the codes (n, M) of items X, block by block if they are those of a source, with vectors if there is a kind."""
        if not by_blocks:
            codes = self.encode(X, n_jobs=n_jobs)
            return CodedRows(codes, None if kind is None else self.vectors(X, 0, len(codes), kind, n_jobs))
        codes = np.empty((len(X), self.codec.n_codebooks), dtype=np.uint8)
        vectors = []
        for block in X.blocks():
            stop = block.start + len(block)
            codes[block.start : stop] = self.encode(block.X, block.start, stop, n_jobs=n_jobs)
            if kind is not None:
                vectors.append(self.vectors(block.X, block.start, stop, kind, n_jobs))
        return CodedRows(codes, join_vectors(vectors) if vectors else None)

    def vectors(self, X: Any, start: int, stop: int, kind: VectorKind, n_jobs: int | None = None) -> Vectors:
        """Return the vectors of items X (b, p), which are those from `start` up to `stop`."""
        codec, y = self.codec, self.y
        assert isinstance(codec, SupervisedCodec)
        x = check_vectors(X, n_features=codec.n_inputs, min_rows=0)
        if y is not None:
            y = y if start == 0 and stop == len(y) else y[start:stop]
            if self.ignored is not None:
                y = np.array(y, dtype=object)
                y[self.ignored[start:stop]] = None
        labels = None if y is None else codec._read_labels(y, len(x))

        def read(part: slice) -> tuple[Float32, Float32]:
            own = None if labels is None else labels.take(np.arange(part.start, part.stop))
            return read_items(codec, x[part], own)

        return _kept_vectors(read, len(x), kind, n_jobs)


def coded_rows(
    codec: AnyCodec, codes: Codes, vectors: Any, kind: VectorKind | None, n_jobs: int | None = None
) -> CodedRows:
    """Return codes (n, M) with the vectors of their items (n, p), which an index that keeps vectors needs.

    `Vectors` that were made elsewhere are taken as they are.
    """
    if kind is None or vectors is None:
        if (kind is None) != (vectors is None):
            what = "keeps no vectors" if kind is None else "keeps vectors: give those of the items"
            raise InputError(f"the index {what}")
        return CodedRows(codes)
    if isinstance(vectors, Vectors):
        return CodedRows(codes, vectors)
    assert isinstance(codec, SupervisedCodec)
    x = check_vectors(vectors, name="vectors", n_features=codec.n_inputs, min_rows=0)
    if len(x) != len(codes):
        raise InputError(f"expected one vector for every code, got {len(x)} for {len(codes)} rows")

    def read(part: slice) -> tuple[Float32, Float32]:
        return read_items(codec, x[part], codes=codes[part])

    return CodedRows(codes, _kept_vectors(read, len(codes), kind, n_jobs))


def bytes_of_vectors(codec: AnyCodec, kind: VectorKind | None, labelled: bool) -> int:
    """Return the number of bytes that the vector of an item takes: p numbers, and w for its meaning unless that repeats."""
    if kind is None:
        return 0
    assert isinstance(codec, SupervisedCodec)
    size = np.dtype(kind).itemsize
    return size * codec.n_inputs + (4 if labelled else size * width_of_meaning(codec))


def _kept_vectors(
    read: Callable[[slice], tuple[Float32, Float32]], n: int, kind: VectorKind, n_jobs: int | None
) -> Vectors:
    """Return the vectors of n items, which a function reads block by block."""
    blocks = [slice(*block) for block in row_blocks(n)] or [slice(0, 0)]
    with single_blas():
        made = ordered_map(lambda part: Vectors.of_items(*read(part), kind), blocks, resolve_jobs(n_jobs))
        return join_vectors(list(made))


def read_item_labels(codec: AnyCodec, X: ArrayLike, y: Any, unknown_labels: UnknownMode) -> ItemLabels:
    """Look for labels that a codec does not know, and do with them what the caller chose.

    Parameters
    ----------
    codec : AnyCodec
        The codec of the index.
    X : array (n, p), or VectorSource
        The items. Vectors are only read if the codec is extended by their labels.
    y : labels of the items, or None
    unknown_labels : {"error", "ignore", "extend"}
        As in `SearchableIndex.add`.

    Returns
    -------
    ItemLabels

    Raises
    ------
    InputError
        If labels are unknown and refused, or if the codec cannot be extended.
    """
    check_choice(unknown_labels, "unknown_labels", MODES)
    if unknown_labels == "extend":
        check_extensible(codec)
    classes = getattr(codec, "classes", None)
    if y is None or classes is None:
        return ItemLabels(codec, y)
    found = find_unknown(
        y,
        classes,
        multilabel=getattr(codec, "multilabel", False),
        missing_label=getattr(codec, "missing_label", None),
    )
    if found is None:
        return ItemLabels(codec, y)
    if unknown_labels == "error":
        raise InputError(f"{describe_unknown(found.distinct, classes)}; {_CHOICES}")
    if not isinstance(X, VectorSource):
        X = check_vectors(X, n_features=codec.n_inputs)
    if len(X) != len(found.rows):
        raise InputError(f"y must have a label for each of the {len(X)} rows of X, got {len(found.rows)}")
    if unknown_labels == "ignore":
        return ItemLabels(codec, found.labels, found.rows)
    assert isinstance(codec, SupervisedCodec)
    extended = codec.extended(_vectors_of(X, found.rows), found.labels[found.rows])
    return ItemLabels(extended, found.labels)


def check_extensible(codec: Any) -> None:
    """Raise an `InputError` unless classes can be added to a codec."""
    if not isinstance(codec, SupervisedCodec):
        raise InputError(
            "only a model of SupervisedQuantizer (--method sq) can be extended by new labels, and this codec is of type "
            f"{type(codec).__name__}"
        )
    if codec.multilabel:
        raise InputError(
            "a model can be extended by new labels only if every item has one label, not several"
        )


def classes_of(codec: Any) -> list[Any]:
    """Return the labels that a codec knows; none if it has learned without labels."""
    classes = getattr(codec, "classes", None)
    return [] if classes is None else list(classes.tolist())


def read_codes_of(codec: AnyCodec, other: AnyCodec) -> bool:
    """Return whether codes of another codec mean the same under this one: the two are equal, or differ in added classes."""
    if isinstance(codec, SupervisedCodec):
        return codec.reads_codes_of(other)
    return codec.pack().digest == other.pack().digest


def _vectors_of(X: Any, rows: Flags) -> Array:
    """Return the vectors of the rows in a mask (n,). Those of a source are read block by block."""
    if not isinstance(X, VectorSource):
        return X[rows]
    blocks = X.blocks()
    return np.concatenate([block.X[rows[block.start : block.start + len(block)]] for block in blocks])
