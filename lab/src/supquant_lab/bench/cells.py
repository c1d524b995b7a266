"""Report: queries over sorted codes of a trained model, one by one and together, and what adding these codes takes.

One query is compared with a scan of all codes and, over uniform codes, with FAISS.

Trained codes are those of Tiny-ImageNet's vectors, drawn repeatedly with noise. Encoding ten million vectors takes an hour, so
fewer can be encoded: then a row takes all but the last two codewords of one code, and the last two of another code with the same
first codeword.
"""

from __future__ import annotations

from functools import partial
from statistics import mean, median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, Float32, RowNumbers
from supquant.codec import load_codec
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.index.ids import read_ids
from supquant.index.ordering import CodeOrder
from supquant.index.segments import Segment
from supquant.interchange import import_faiss
from supquant.model import SupervisedCodec, SupervisedQuantizer
from supquant.models import load_model
from supquant_lab.bench.process import run_watched, temporary_folder
from supquant_lab.bench.search.codes import Stock, check_same, check_sums, uniform
from supquant_lab.bench.search.sides import FAST_SCAN, OURS, PQ, our_sides, their_sides, thread_limit
from supquant_lab.bench.timing import Figure, time_in_turn
from supquant_lab.datasets import load
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from supquant.progress import Progress
    from supquant_lab.datasets import Dataset

BITS = 64
"""Length of a code."""

ROWS = 10_000_000
"""Number of codes of the trained model."""

ENCODED = 200_000
"""Number of vectors that are encoded."""

UNIFORM_ROWS = 1_000_000
"""Number of uniform codes."""

LEARNED = 100_000
"""Number of rows that the model learns from. The rows after these are the queries."""

NOISE = 0.3
"""Standard deviation of the noise as a fraction of that of the vectors in each dimension."""

QUERIES = 16
"""Number of queries, asked one by one."""

BATCH = 64
"""Number of queries that are asked together."""

K = 100
"""Number of answers."""

MIXED_CODEBOOKS = 2
"""Number of last codewords that a row takes from another code, if fewer vectors are encoded than there are rows."""

STRINGS = 100_000
"""Number of string ids whose bytes are counted."""


def bench_cells(
    *,
    quick: bool = False,
    model: Path | None = None,
    rows: int = ROWS,
    encoded: int = ENCODED,
    repeats: int = 5,
    callback: Callable[[Progress], None] | None = None,
) -> dict[str, Any]:
    """Time single queries on one thread, after a check that both scans give the same answers.

    Parameters
    ----------
    quick : bool
        Whether to take few rows, only to see that it runs.
    model : path, optional
        A fitted model of the data. Without it, one is fitted.
    rows : int
        Number of trained codes.
    encoded : int
        Number of vectors that are encoded.
    repeats : int
        Number of times that each query is asked.
    callback : callable, optional
        Gets the fit's `Progress`.

    Returns
    -------
    dict
        A record for `json`: `figures`, and the milliseconds of every query in `scans`.

    Raises
    ------
    WrongAnswersError
        If a scan that skips cells gives other answers than one that does not.
    """
    faiss = import_faiss()
    data = load("digits" if quick else "tinyimagenet")
    learned = min(LEARNED, len(data.X) - QUERIES)
    if quick:
        rows, encoded = 100_000, 2000
    codec = _codec(data, learned, model, callback)
    scans, batches = [], []
    for labelled in (True, False):
        codes = trained_codes(data, codec, learned, labelled, rows, encoded)
        for ranking in codec.rankings:
            queries = np.asarray(data.X[learned : learned + QUERIES], dtype=np.float32)
            all_labelled = labelled and ranking == "label"
            tables = codec.query_tables(queries, ranking, all_labelled=all_labelled).tables
            about = {"items": "labelled" if labelled else "unlabelled", "ranking": ranking}
            scans.append(about | time_scans(CodeOrder(codec), codes, tables, repeats))
        index = CodeIndex(codec).add_codes(codes)
        batches.append(batch_figure(index, data, learned, "labelled" if labelled else "unlabelled", repeats))
        del index
    figures = [
        *(_ratio(scan, "median") for scan in scans),
        *(_ratio(scan, "mean") for scan in scans),
        *batches,
        *adding_figures(codec, codes),
        *uniform_figures(faiss, rows if quick else UNIFORM_ROWS, repeats),
        string_figure(),
    ]
    return {
        "benchmark": "cells",
        "quick": quick,
        "dataset": data.name,
        "rows": rows,
        "encoded": encoded,
        "bits": BITS,
        "k": K,
        "threads": 1,
        "faiss": faiss.__version__,
        "machine": describe_machine(),
        "figures": [figure.to_json() for figure in figures],
        "scans": scans,
    }


def _codec(
    data: Dataset, learned: int, model: Path | None, callback: Callable[[Progress], None] | None
) -> SupervisedCodec:
    if model is None:
        quantizer = SupervisedQuantizer(BITS // 8, random_state=0, callback=callback)
        return quantizer.fit(np.asarray(data.X[:learned], dtype=np.float32), data.y[:learned]).codec_
    loaded = load_model(model)
    if not isinstance(loaded, SupervisedQuantizer):
        raise InputError(f"{model} is not a model of the class SupervisedQuantizer")
    return loaded.codec_


def trained_codes(
    data: Dataset, codec: SupervisedCodec, learned: int, labelled: bool, rows: int, encoded: int
) -> Codes:
    """Return codes (rows, M) of vectors that are drawn from the first `learned` ones, with noise."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(learned, size=min(rows, encoded))
    X = np.asarray(data.X[drawn], dtype=np.float32)
    X += NOISE * X.std(axis=0) * rng.standard_normal(X.shape, dtype=np.float32)
    codes = codec.encode_items(X, data.y[drawn] if labelled else None)
    return codes if rows <= encoded else mixed_codes(codes, rows, rng)


def mixed_codes(codes: Codes, rows: int, rng: np.random.Generator) -> Codes:
    """Return codes (rows, M), each of them made of two codes with the same first codeword.

    Examples
    --------
    >>> codes = np.array([[1, 2, 3], [1, 4, 5], [2, 6, 7]], dtype=np.uint8)
    >>> np.unique(mixed_codes(codes, 100, np.random.default_rng(0)), axis=0)[-1]
    array([2, 6, 7], dtype=uint8)
    """
    codes = codes[codes[:, 0].argsort(kind="stable")]
    first = np.searchsorted(codes[:, 0], np.arange(257))  # where the codes of each first codeword begin
    one = rng.integers(len(codes), size=rows)
    word = codes[one, 0].astype(np.intp)
    other = rng.integers(first[word], first[word + 1])
    mixed = codes[one]
    mixed[:, -MIXED_CODEBOOKS:] = codes[other, -MIXED_CODEBOOKS:]
    return mixed


def time_scans(order: CodeOrder, codes: Codes, tables: Float32, repeats: int) -> dict[str, Any]:
    """Return the milliseconds of each query with a scan of all codes and with one that skips cells."""
    scan = kernels.active().scan
    plain, arranged = Segment.of_codes(codes), Segment.of_codes(codes, order=order)
    everything, cells = plain.scanned(), arranged.scanned()
    spent: dict[str, list[float]] = {"full": [], "cells": []}
    for query in range(len(tables)):
        table = tables[query : query + 1]
        calls = {"full": partial(scan, everything, table, K), "cells": partial(scan, cells, table, K)}
        sums, found = calls["cells"]()
        if query == 0:
            check_sums(f"query {query}", table, codes, sums, found)
        check_same(f"query {query}", "the scan of all codes", calls["full"]()[1], found)
        for name, timing in time_in_turn(calls, repeats=repeats).items():
            spent[name].append(1e3 * timing.seconds)
    return {
        "sorted": arranged.sorted,
        "cells": [len(words) for words in cells.cells.words] if cells.cells is not None else [],
        "full_milliseconds": spent["full"],
        "cells_milliseconds": spent["cells"],
    }


def _ratio(scan: dict[str, Any], statistic: str) -> Figure:
    """Return the time of a scan of all codes over ours. Only labelled items by meaning have a floor."""
    of = {"median": median, "mean": mean}[statistic]
    return Figure(
        f"full scan over cells: {scan['items']} items, {scan['ranking']} ranking, {statistic} over queries",
        of(scan["full_milliseconds"]) / of(scan["cells_milliseconds"]),
        at_least=4.0 if scan["ranking"] == "label" else None,
    )


def batch_figure(index: CodeIndex, data: Dataset, learned: int, items: str, repeats: int) -> Figure:
    """Return the time of queries that are asked together over that of the same queries one by one, on all cores."""
    queries = np.asarray(data.X[learned : learned + BATCH], dtype=np.float32)
    if len(queries) < BATCH:  # of few rows nearly all are learned from
        queries = np.asarray(data.X[-BATCH:], dtype=np.float32)

    def asked(step: int) -> list[RowNumbers]:
        return [index.search(queries[start : start + step], K)[1] for start in range(0, BATCH, step)]

    check_same("a batch", "single queries", np.concatenate(asked(1)), asked(BATCH)[0])
    calls = {"together": partial(asked, BATCH), "one by one": partial(asked, 1)}
    spent = time_in_turn(calls, repeats=repeats)
    return Figure(
        f"{BATCH} queries together over one by one: {items} items, label ranking",
        spent["together"].seconds / spent["one by one"].seconds,
        at_most=0.5,
    )


def adding_figures(codec: SupervisedCodec, codes: Codes) -> list[Figure]:
    """Return what adding codes (n, M) to an index takes, in a process that does nothing else."""
    with temporary_folder() as folder:
        codec.save(folder / "codec")
        np.save(folder / "codes.npy", codes)
        paths = folder / "codec", folder / "codes.npy"
        seconds, peak = run_watched(add_codes, *paths, purpose="add codes")
    return [
        Figure("add_codes: seconds per 10,000,000 codes", seconds * 1e7 / len(codes), at_most=1.0),
        Figure(
            "add_codes: peak memory of the process in bytes per code", 1e6 * peak / len(codes), at_most=24.0
        ),
    ]


def add_codes(codec: str, codes: str) -> float:
    """Return the seconds in which an index takes the codes of a file."""
    index, mapped = CodeIndex(load_codec(codec)), np.load(codes, mmap_mode="r")
    begin = perf_counter()
    index.add_codes(mapped)
    return perf_counter() - begin


def uniform_figures(faiss: Any, rows: int, repeats: int) -> list[Figure]:
    """Return the times of FAISS over ours for one query and uniform codes, which are not sorted."""
    data = uniform(Stock("uniform", rows, BITS))
    ours = our_sides(data)[0]
    check_sums("uniform codes", ours.tables, data.codes, *ours.index.search_tables(ours.tables, K))
    sides = {side.name: side for side in (ours, *their_sides(faiss, data))}
    with thread_limit(faiss, 1):
        spent = time_in_turn(
            {name: partial(sides[name].from_tables, 1, K, 1) for name in (OURS, FAST_SCAN, PQ)},
            repeats=4 * repeats,
        )
    return [
        Figure(
            f"{name} over ours: uniform codes, 1 query",
            spent[name].seconds / spent[OURS].seconds,
            at_least=floor,
        )
        for name, floor in ((FAST_SCAN, 1.0), (PQ, None))
    ]


def string_figure() -> Figure:
    """Return the bytes that a string id takes in addition to its text."""
    texts = [f"item/{number}" for number in range(STRINGS)]
    extra = read_ids(texts).nbytes - sum(map(len, texts))
    return Figure("string ids: bytes per row in addition to the text", extra / STRINGS, at_most=20.0)
