"""Report: the time of a query: its parts for both rankings, with the library's features and the published ones, and the whole."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from supquant.arrays import Float32
from supquant.model.quantizer import SupervisedQuantizer
from supquant.parallel import single_blas
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.bench.clock import seconds_of
from supquant_lab.bench.data import benchmark_data
from supquant_lab.bench.query_path import path_figures
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.codec.additive import AdditiveCodec
    from supquant.model.codec import SupervisedCodec
    from supquant.progress import Progress


ANCHORS = 1000
"""Number of anchors of the published features."""

BITS = 64
"""Length of a code."""

RATIO_LIMIT = 1.2
"""Tables of the label ranking should take at most this many times as long as those of the other ranking."""

FITTED_ROWS = 8_000
"""Number of rows of MNIST that the models learn from. The time of a query does not depend on it."""

REPEATS = 31
"""Number of timed runs; the median is reported."""

BATCH = 256
"""Number of queries of a run."""


def bench_query(*, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Fit two models to MNIST, and time features and tables of queries on one thread for both rankings of each.

    Two more models, of Banking77 and of random rows, are timed from raw vectors to answers and to codes, beside FAISS.

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
        of whole queries, each beside its limit.
    """
    data = benchmark_data(quick=quick)
    kinds: dict[str, Literal["auto"] | AnchorKernel] = {
        "label kernel": "auto",
        "anchor kernel": AnchorKernel(ANCHORS, random_state=0),
    }
    models = []
    for name, features in kinds.items():
        quantizer = SupervisedQuantizer(BITS // 8, features=features, random_state=0, callback=callback)
        fit_seconds = seconds_of(partial(quantizer.fit, data.X[:FITTED_ROWS], data.y[:FITTED_ROWS]))
        models.append(
            {"features": name, "fit_seconds": fit_seconds} | measure_queries(quantizer.codec_, data.queries)
        )
    texts, figures = path_figures(quick=quick, callback=callback)
    return {
        "benchmark": "query",
        "dataset": data.name,
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
