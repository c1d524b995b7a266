"""Report: the time of a query on one thread, before the scan and from a raw vector to its answer, and that of encoding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.interchange import import_faiss
from supquant.model import SupervisedQuantizer
from supquant.parallel import single_blas
from supquant.published import AnchorKernel, PublishedQuantizer
from supquant_lab.bench.data import GaussianClasses, benchmark_data
from supquant_lab.bench.search.sides import product_index, thread_limit
from supquant_lab.bench.timing import Figure, seconds_of, time_in_turn
from supquant_lab.datasets import load
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.arrays import Array, Float32
    from supquant.codec.additive import AdditiveCodec
    from supquant.model import SupervisedCodec
    from supquant.progress import Progress

ANCHORS = 1000
"""Number of anchors of the published features."""

BITS = 64
"""Length of a code, in bits."""

RATIO_LIMIT = 1.2
"""Tables of the label ranking should take at most this many times as long as those of the other ranking."""

FITTED_ROWS = 8_000
"""Number of rows that the models learn from. The time of a query does not depend on it."""

REPEATS = 31
"""Number of timed runs of features and tables; the median is reported."""

BATCH = 256
"""Number of queries of such a run."""

DIMENSIONS, LABELS = 64, 20
"""Width of the vectors and number of classes of the model whose uniform codes are searched."""

QUERIES = 64
"""Number of queries that are searched at once."""


@dataclass(frozen=True)
class PathSizes:
    """The sizes of a run from raw vectors."""

    fitted: int = FITTED_ROWS
    codes: int = 1_000_000  # uniform codes that are searched
    encoded: int = 2_000  # vectors that are encoded
    turns: int = 15  # timed turns; the median is reported


QUICK = PathSizes(400, 5_000, 100, 2)
"""Sizes that only show that it runs."""


def bench_query(*, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Fit the default model and the published one to MNIST, and time features and tables of queries for both rankings.

    Two more default models, of Banking77 and of random rows, are timed from raw vectors to answers and to codes, compared with
    FAISS.

    Parameters
    ----------
    quick : bool
        Whether to take only a few thousand rows.
    callback : callable, optional
        Gets the fits' `Progress`.

    Returns
    -------
    dict
        A record for `json`. It has for each model the seconds of the fit, the microseconds of a query's features, and those of
        its tables by ranking; `ratio` is the time of the label tables over that of the other ranking. `figures` are those
        of whole queries, each with its limit.
    """
    dataset, data = benchmark_data(quick=quick)
    quantizers: dict[str, SupervisedQuantizer | PublishedQuantizer] = {
        "label kernel": SupervisedQuantizer(BITS // 8, random_state=0, callback=callback),
        "anchor kernel": PublishedQuantizer(
            BITS // 8, features=AnchorKernel(ANCHORS, random_state=0), random_state=0, callback=callback
        ),
    }
    models = []
    for name, quantizer in quantizers.items():
        fit_seconds = seconds_of(partial(quantizer.fit, data.X[:FITTED_ROWS], data.y[:FITTED_ROWS]))
        models.append(
            {"features": name, "fit_seconds": fit_seconds} | measure_queries(quantizer.codec_, data.queries)
        )
    texts, figures = path_figures(quick=quick, callback=callback)
    return {
        "benchmark": "query",
        "dataset": dataset,
        "rows": min(FITTED_ROWS, len(data.X)),
        "bits": BITS,
        "threads": 1,
        "batch": min(BATCH, len(data.queries)),
        "models": models,
        "ratio_limit": RATIO_LIMIT,
        "texts": texts,
        "figures": [figure.to_json() for figure in figures],
        "machine": describe_machine(),
    }


def measure_queries(codec: AdditiveCodec | SupervisedCodec, queries: Float32) -> dict[str, Any]:
    """Return the times of queries (q, p) in a batch on one thread. Rankings take turns, so that noise affects all of them."""
    batch = queries[:BATCH]
    with single_blas():
        features = codec.features(batch)
        parts: dict[str, Callable[[], object]] = {"features": partial(codec.features, batch)}
        for ranking in codec.rankings:
            parts[ranking] = partial(_tables, codec, features, ranking)
        runs = [{part: seconds_of(work) for part, work in parts.items()} for _ in range(REPEATS + 1)]
    microseconds = {part: 1e6 / len(batch) * median(run[part] for run in runs[1:]) for part in parts}
    return {
        "features_microseconds": microseconds.pop("features"),
        "tables_microseconds": microseconds,
        "ratio": microseconds["label"] / microseconds[codec.rankings[1]],
    }


def _tables(codec: AdditiveCodec | SupervisedCodec, features: Float32, ranking: str) -> Float32:
    return codec.tables_of(codec.prepare(features, ranking), ranking)


def path_figures(
    *, quick: bool = False, callback: Callable[[Progress], None] | None = None
) -> tuple[str, list[Figure]]:
    """Return the name of the text data, and the figures of features and tables, of encoding, and of whole searches."""
    sizes = QUICK if quick else PathSizes()
    name, X, y = _text_vectors()
    model = partial(SupervisedQuantizer, BITS // 8, random_state=0, callback=callback)
    texts = model().fit(X[: sizes.fitted], y[: sizes.fitted]).codec_
    held = X[sizes.fitted :]
    rows, labels = GaussianClasses(LABELS, DIMENSIONS, 0.5).draw(sizes.fitted + QUERIES, stream=0, every=True)
    assert labels.indices is not None
    codec = model().fit(rows[QUERIES:], labels.indices[QUERIES:]).codec_
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
    return Figure(name, speed, at_least=15_000.0, unit=" vectors per second")
