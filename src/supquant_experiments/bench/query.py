"""Report: what a query costs before the scan, by either ranking, with the library's features and with the published ones."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from supquant.arrays import Float32
from supquant.features import AnchorKernel
from supquant.parallel import single_blas
from supquant.quantizers import SupervisedQuantizer
from supquant_experiments.bench.data import benchmark_data
from supquant_experiments.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.codec import AdditiveCodec, SemanticCodec
    from supquant.progress import Progress


ANCHORS = 1000
BITS = 64
RATIO_LIMIT = 1.2
REPEATS = 31
BATCH = 256


def bench_query(*, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Fit MNIST twice and time features and tables of queries on one thread, both rankings of one model in turn.

    Parameters
    ----------
    quick : bool
        A few thousand rows.
    callback : callable, optional
        Gets the fits' `Progress`.

    Returns
    -------
    dict
        Ready for `json`. Of every model: the seconds of the fit, the microseconds of a query's features, and by ranking those
        of its tables, from features on; `ratio` is semantic over the model's other ranking.
    """
    data = benchmark_data(quick=quick)
    kinds: dict[str, Literal["auto"] | AnchorKernel] = {
        "label kernel": "auto",
        "anchor kernel": AnchorKernel(ANCHORS, random_state=0),
    }
    models = []
    for name, features in kinds.items():
        quantizer = SupervisedQuantizer(BITS // 8, features=features, random_state=0, callback=callback)
        began = time.perf_counter()
        quantizer.fit(data.X, data.y)
        fit_seconds = time.perf_counter() - began
        models.append(
            {"features": name, "fit_seconds": fit_seconds} | measure_queries(quantizer.codec_, data.queries)
        )
    return {
        "benchmark": "query",
        "dataset": data.name,
        "rows": len(data.X),
        "bits": BITS,
        "threads": 1,
        "batch": min(BATCH, len(data.queries)),
        "models": models,
        "ratio_limit": RATIO_LIMIT,
        "machine": describe_machine(),
    }


def measure_queries(codec: AdditiveCodec | SemanticCodec, queries: Float32) -> dict[str, Any]:
    """Time a batch of queries (q, p) on one thread, repeated, rankings in turn so that all see the same machine."""
    batch = queries[:BATCH]
    with single_blas():
        features = codec.features(batch)
        parts: dict[str, Callable[[], object]] = {"features": partial(codec.features, batch)}
        for ranking in codec.rankings:
            parts[ranking] = partial(_tables, codec, features, ranking)
        runs = [{part: _seconds(work) for part, work in parts.items()} for _ in range(REPEATS + 1)]
    microseconds = {part: 1e6 / len(batch) * median(run[part] for run in runs[1:]) for part in parts}
    return {
        "features_microseconds": microseconds.pop("features"),
        "tables_microseconds": microseconds,
        "ratio": microseconds["semantic"] / microseconds[codec.rankings[1]],
    }


def _tables(codec: AdditiveCodec | SemanticCodec, features: Float32, ranking: str) -> Float32:
    return codec.tables_of(codec.prepare(features, ranking), ranking)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
