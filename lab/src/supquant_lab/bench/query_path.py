"""Report: the time from a raw vector to an answer or to a code, with the library's default models, on one thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.interchange import import_faiss
from supquant.model.quantizer import SupervisedQuantizer
from supquant_lab.bench.gaussian_classes import GaussianClasses
from supquant_lab.bench.search.figures import Figure
from supquant_lab.bench.search.sides import product_index, thread_limit
from supquant_lab.bench.search.timing import time_in_turn
from supquant_lab.datasets import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.arrays import Array, Float32
    from supquant.model.codec import SupervisedCodec
    from supquant.progress import Progress

BITS = 64
"""Length of a code."""

FITTED_ROWS = 8_000
"""Number of rows that the models learn from."""

CODES = 1_000_000
"""Number of uniform codes that are searched."""

DIMENSIONS, LABELS = 64, 20
"""Width of the vectors, and number of classes, of the model whose uniform codes are searched."""

QUERIES = 64
"""Number of queries of a batch."""

ENCODED = 2_000
"""Number of vectors that are encoded."""

TURNS = 15
"""Number of timed turns; the median is reported."""


@dataclass(frozen=True)
class PathSizes:
    """The sizes of a run."""

    fitted: int = FITTED_ROWS
    codes: int = CODES
    encoded: int = ENCODED
    turns: int = TURNS


QUICK = PathSizes(400, 5_000, 100, 2)
"""Sizes that only show that it runs."""


def path_figures(
    *, quick: bool = False, callback: Callable[[Progress], None] | None = None
) -> tuple[str, list[Figure]]:
    """Return the name of the text data, and the figures of features and tables, of encoding, and of whole searches."""
    sizes = QUICK if quick else PathSizes()
    name, X, y = _text_vectors()
    model = partial(SupervisedQuantizer, BITS // 8, random_state=0, callback=callback)
    texts: SupervisedCodec = model().fit(X[: sizes.fitted], y[: sizes.fitted]).codec_
    held = X[sizes.fitted :]
    rows, labels = GaussianClasses(LABELS, DIMENSIONS, 0.5).draw(sizes.fitted + QUERIES, stream=0, every=True)
    codec: SupervisedCodec = model().fit(rows[QUERIES:], labels.indices[QUERIES:]).codec_  # type: ignore[index]
    faiss = import_faiss()
    with thread_limit(faiss, 1):
        return name, [
            *_feature_figures(texts, held, sizes),
            *_search_figures(faiss, codec, rows[:QUERIES], sizes),
            _encoding_figure(texts, held, sizes),
        ]


def _text_vectors() -> tuple[str, Float32, Array]:
    """Return the rows of Banking77 in random order; those of scikit-learn's digits if they are not there."""
    try:
        dataset = load("banking77")
    except InputError:
        dataset = load("digits")
    order = np.random.default_rng(0).permutation(len(dataset.X))
    return dataset.name, dataset.X[order].astype(np.float32), np.asarray(dataset.y)[order]


def _feature_figures(codec: SupervisedCodec, queries: Float32, sizes: PathSizes) -> list[Figure]:
    """Return the time of features and tables of one query, and that over one product of the anchors with a vector."""
    query = np.ascontiguousarray(queries[:1])
    anchors = codec.map.arrays()["kernel.anchors"]
    calls: dict[str, Callable[[], Any]] = {
        "tables": partial(codec.query_tables, query, n_jobs=1),
        "product": partial(np.dot, anchors, query[0]),
    }
    spent = time_in_turn(calls, repeats=sizes.turns)
    tables, product = (spent[name].seconds for name in ("tables", "product"))
    of = f"features and tables of one query, {query.shape[1]} dimensions, {len(anchors):,} anchors"
    return [
        Figure(f"{of}: time over one float32 product with the anchors", tables / product, at_most=1.5),
        Figure(of, 1000 * tables, at_most=0.5, unit=" ms"),
    ]


def _search_figures(faiss: Any, codec: SupervisedCodec, queries: Float32, sizes: PathSizes) -> list[Figure]:
    """Return the time of `IndexPQ` over ours from raw vectors to answers, and that of a query over few items."""
    codes = np.random.default_rng(0).integers(256, size=(sizes.codes, BITS // 8), dtype=np.uint8)
    ours = CodeIndex(codec).add_codes(codes)
    few = CodeIndex(codec).add_codes(codes[:64])
    theirs = product_index(faiss, BITS // 8, 8, codes, DIMENSIONS)
    figures = []
    for q, floor in ((1, 1.7), (QUERIES, 10.0)):
        Q = np.ascontiguousarray(queries[:q])
        calls: dict[str, Callable[[], Any]] = {
            "ours": partial(ours.search, Q, 100, n_jobs=1),
            "theirs": partial(theirs.search, Q, 100),
        }
        spent = time_in_turn(calls, repeats=sizes.turns)
        what = f"{q} raw {'query' if q == 1 else 'queries'} to answers, {len(codes):,} uniform codes"
        ratio = spent["theirs"].seconds / spent["ours"].seconds
        figures.append(Figure(f"{what}: time of IndexPQ over ours", ratio, at_least=floor))
    query = np.ascontiguousarray(queries[:1])
    calls = {
        "search": partial(few.search, query, 10, n_jobs=1),
        "features": partial(codec.map, query),
        "tables": partial(codec.tables_of, codec.prepare(codec.map(query))),
    }
    spent = time_in_turn(calls, repeats=sizes.turns)
    rest = spent["search"].seconds - spent["features"].seconds - spent["tables"].seconds
    name = "one query over 64 items: all but features and tables"
    return [*figures, Figure(name, 1e6 * rest, at_most=50.0, unit=" microseconds")]


def _encoding_figure(codec: SupervisedCodec, vectors: Float32, sizes: PathSizes) -> Figure:
    """Return the number of raw vectors that one thread encodes in a second."""
    some = vectors[: sizes.encoded]
    spent = time_in_turn({"encode": partial(codec.encode, some, n_jobs=1)}, repeats=min(sizes.turns, 5))
    name = f"encoding of raw vectors, {some.shape[1]} dimensions to {BITS} bits"
    speed = len(some) / spent["encode"].seconds
    return Figure(name, speed, at_least=15_000.0, unit=" vectors a second")
