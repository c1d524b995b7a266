"""Report: the order of first answers by vectors next to codes, and what it costs.

Quality is that of fits with default settings. FAISS refines answers of product quantization and of RaBitQ for comparison.
Times are of random vectors under the same model: they do not depend on the values.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array, Float32
from supquant.index import CodeIndex
from supquant.index.vectors import Vectors, join_vectors
from supquant.interchange import import_faiss
from supquant.model import SupervisedQuantizer
from supquant.model.exact import exact_queries, width_of_meaning
from supquant.model.feature_map import unit_rows
from supquant.models import load_model
from supquant_lab.bench.timing import Figure, seconds_of, time_in_turn
from supquant_lab.datasets import load
from supquant_lab.machine import describe_machine
from supquant_lab.problem import pose
from supquant_lab.quality import neighbour_recalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

DATA = ("banking77", "tinyimagenet")
"""Data sets whose order is measured."""

N_CODEBOOKS = 8
"""Number of bytes of a code."""

REFINED, REFINED_BY_POSITION = 100, 200
"""Number of first rows that are ordered by their vectors: by meaning, and by position."""

QUERIES = 500
"""Number of queries of a data set, at most."""

KINDS: tuple[Any, ...] = (None, "int8", "float16")
"""Types of vectors; None keeps none."""

TIMED_ROWS, TIMED_BATCH = 1_000_000, 64
"""Number of items whose search is timed, and of the queries of a batch."""

PAGE = os.sysconf("SC_PAGE_SIZE")
"""Number of bytes of a page, which a read from the disk fetches at least."""


def bench_refine(
    *,
    quick: bool = False,
    data: tuple[str, ...] = DATA,
    rows: int = TIMED_ROWS,
    repeats: int = 7,
    folder: Path | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> dict[str, Any]:
    """Measure the order of the first answers with and without vectors, and time searches with them.

    Parameters
    ----------
    quick : bool
        Whether to take few rows, only to see that it runs.
    data : tuple of str
        Data sets. Times are those of the model of the first one.
    rows : int
        Number of items whose search is timed.
    repeats : int
        Number of times that each search is timed.
    folder : path, optional
        Where models are kept, and read from if they are there.
    callback : callable, optional
        Gets the `Progress` of fits.

    Returns
    -------
    dict
        A record for `json`: `figures`, the `orders` of every data set, protocol and type of vectors, and the `times`.
    """
    faiss = import_faiss()
    if quick:
        data, rows = ("digits",), 20_000
    orders: list[dict[str, Any]] = []
    models = {}
    for name in data:
        for protocol in ("paper", "unlabelled", "open"):
            models[name] = measure_orders(name, protocol, orders, faiss, folder, callback)
    times = measure_times(models[data[0]], rows, repeats)
    return {
        "benchmark": "refine",
        "quick": quick,
        "codebooks": N_CODEBOOKS,
        "refine": {"label": REFINED, "position": REFINED_BY_POSITION},
        "faiss": faiss.__version__,
        "machine": describe_machine(),
        "figures": [figure.to_json() for figure in (*_figures_of(orders), *_times_asked(times))],
        "orders": orders,
        "times": times,
    }


def _fitted(
    X: Float32, y: Any, path: Path | None, callback: Callable[[Progress], None] | None
) -> SupervisedQuantizer:
    """Return a model of rows, which is read from a file if it is there, and else written to it."""
    if path is not None and path.exists():
        found = load_model(path)
        assert isinstance(found, SupervisedQuantizer)
        return found
    sq = SupervisedQuantizer(N_CODEBOOKS, random_state=0, callback=callback).fit(X, y)
    if path is not None:
        sq.save(path)
    return sq


# order ------------------------------------------------------------------------------------------------------------------


def measure_orders(
    name: str,
    protocol: str,
    orders: list[dict[str, Any]],
    faiss: Any,
    folder: Path | None,
    callback: Callable[[Progress], None] | None,
) -> SupervisedQuantizer:
    """Add the orders of one data set under one protocol to a list; return the model.

    ``paper`` has items with labels, ``unlabelled`` items of known classes without, and ``open`` those of known and new classes.
    """
    data = load(name)
    problem = pose(data, protocol=protocol, seed=0)
    split, X = problem.split, np.asarray(data.X, dtype=np.float32)
    y = np.asarray(data.y)
    given = np.concatenate([split.training, split.unlabelled])
    labels = np.array(y[given], dtype=object)
    labels[len(split.training) :] = None
    sq = _fitted(X[given], labels, folder and folder / f"{name}-{protocol}.model", callback)
    queries = split.queries
    if len(queries) > QUERIES:
        half = QUERIES // 2  # under `open`, the second half of the queries is of new classes
        queries = np.concatenate([queries[:half], queries[-half:]])
    items, Q, known = X[split.database], X[queries], np.isin(y[queries], y[split.training])
    relevant = y[queries][:, None] == y[split.database]
    cosines = unit_rows(Q) @ unit_rows(items).T
    about = {"data": name, "protocol": protocol, "items": len(items), "queries": len(Q)}
    whole = CodeIndex(sq, vectors="float16").add(items, y[split.database] if protocol == "paper" else None)
    coded = whole._snapshot.parts[0].coded()
    assert coded.vectors is not None
    floats = coded.vectors.decoded()
    for kind in KINDS:
        kept = None if kind is None else Vectors.of_items(*floats, kind)
        index = CodeIndex(sq, vectors=kind).add_codes(coded.codes, vectors=kept)
        by_label = index.search(Q, len(items))[1]
        near = index.search(Q, 10, ranking="position", refine=kind and REFINED_BY_POSITION)[1]
        if kind is not None:
            by_label[:, :REFINED] = index.search(Q, REFINED, refine=REFINED)[1]
        scores = np.empty(by_label.shape)
        np.put_along_axis(scores, by_label, np.arange(by_label.shape[1])[None], axis=1)
        within = neighbour_recalls(scores, -cosines, relevant)[:, 1]
        maps = _average_precisions(relevant, by_label)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
        info = index.info()["bytes"]
        orders.append(
            about
            | {
                "vectors": kind,
                "bytes_per_item": (info["codes"] + info.get("vectors", 0)) / len(items),
                "within_class": float(np.nanmean(within)),
                "recall_by_position": _recall(near, nearest),
                "map_known": float(maps[known].mean()),
                **({"map_new": float(maps[~known].mean())} if not known.all() else {}),
            }
        )
    if protocol != "open":
        orders.append(about | {"vectors": "faiss", **their_recalls(faiss, items, Q, nearest)})
    return sq


def _average_precisions(relevant: Array, ranking: Array) -> Array:
    """Return the average precision (q,) of rankings (q, n)."""
    hits = np.take_along_axis(relevant, ranking, axis=1)
    precisions = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    return np.asarray((precisions * hits).sum(axis=1) / np.maximum(hits.sum(axis=1), 1))


def _recall(found: Array, nearest: Array) -> float:
    """Return the fraction of the nearest rows (q, 10) that were found (q, k)."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, nearest, strict=True)]))


def their_recalls(faiss: Any, items: Float32, Q: Float32, nearest: Array) -> dict[str, float]:
    """Return the recall of FAISS's refine over product quantization of as many bytes, and over RaBitQ of a bit per dimension."""
    units, asked = unit_rows(items), unit_rows(Q)
    p = units.shape[1]
    found = {}
    sides = {"pq": faiss.IndexPQ(p, N_CODEBOOKS, 8, faiss.METRIC_INNER_PRODUCT)}
    if hasattr(faiss, "IndexRaBitQ"):
        sides["rabitq"] = faiss.IndexRaBitQ(p, faiss.METRIC_INNER_PRODUCT)
    for name, base in sides.items():
        index = faiss.IndexRefineFlat(base)
        index.train(units)
        index.add(units)
        index.k_factor = REFINED_BY_POSITION / 10
        found[f"{name}_recall"] = _recall(index.search(asked, 10)[1], nearest)
    return found


# time -------------------------------------------------------------------------------------------------------------------


def measure_times(sq: SupervisedQuantizer, rows: int, repeats: int) -> list[dict[str, Any]]:
    """Return the milliseconds of searches of random items with and without vectors, mapped from files, on one thread."""
    codec, rng = sq.codec_, np.random.default_rng(0)
    p = codec.n_inputs
    X = rng.standard_normal((rows, p), dtype=np.float32)
    codes = rng.integers(0, codec.n_codewords, (rows, codec.n_codebooks), dtype=np.uint8)
    n = min(rows, 1000)
    some = codec.encode_items(X[:n], codec.classes[rng.integers(len(codec.classes), size=n)])
    labelled = some[rng.integers(n, size=rows)]
    labelled[:, -2:] = some[rng.integers(n, size=rows), -2:]  # so that codes do not repeat
    found = []
    for what, own in (("unlabelled", codes), ("labelled", labelled)):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            index = CodeIndex(sq, vectors="int8").add_codes(own, vectors=_as_kept(sq, X, what))
            sizes = index.info()["bytes"]
            index.save(path)
            loaded = CodeIndex.load(path)
            Q = X[:TIMED_BATCH] + rng.standard_normal((TIMED_BATCH, p), dtype=np.float32)
            began = seconds_of(partial(loaded.search, Q[:1], 10, refine=REFINED))
            for name, asked in (("one", Q[:1]), ("batch", Q)):
                calls = {
                    "codes": partial(loaded.search, asked, 10, n_jobs=1),
                    "refined": partial(loaded.search, asked, 10, n_jobs=1, refine=REFINED),
                }
                spent = time_in_turn(calls, repeats=repeats)
                exact = partial(exact_queries, codec, asked, None, n_jobs=1)
                found.append(
                    {
                        "items": what,
                        "rows": rows,
                        "dimensions": p,
                        "queries": len(asked),
                        "name": name,
                        "milliseconds": 1e3 * spent["codes"].best_seconds,
                        "refined_milliseconds": 1e3 * spent["refined"].best_seconds,
                        "of_queries_milliseconds": 1e3 * seconds_of(exact, 20),
                        "first_search_seconds": began,
                        "bytes_of_vectors": sizes["vectors"] / rows,
                        "rows_read_per_query": REFINED,
                        "pages_read_per_row": 1
                        + sizes["vectors"] / rows / PAGE,  # rows begin anywhere in a page
                    }
                )
    return found


def _as_kept(sq: SupervisedQuantizer, X: Float32, what: str) -> Any:
    """Return items as vectors that an index keeps, with random meanings: the times do not depend on them."""
    rng, w, pieces = np.random.default_rng(1), width_of_meaning(sq.codec_), []
    of_labels = rng.random((77, w), dtype=np.float32)
    for start in range(0, len(X), 1 << 16):
        units = unit_rows(X[start : start + (1 << 16)])
        meanings = rng.random((len(units), w), dtype=np.float32)
        if what == "labelled":
            meanings = of_labels[rng.integers(77, size=len(units))]
        pieces.append(Vectors.of_items(units, meanings, "int8"))
    return join_vectors(pieces)


# what is asked ------------------------------------------------------------------------------------------------------------


def _figures_of(orders: list[dict[str, Any]]) -> list[Figure]:
    figures = []
    for one in orders:
        if one["vectors"] not in ("int8", "float16"):
            continue
        of = f"{one['data']}, {one['protocol']}, {one['vectors']}"
        least = 0.95 if one["protocol"] == "paper" else 0.9
        figures.append(Figure(f"overlap within the class: {of}", one["within_class"], at_least=least))
        figures.append(Figure(f"recall@10 by position: {of}", one["recall_by_position"], at_least=0.95))
        if one["protocol"] == "open":
            plain = next(
                other
                for other in orders
                if other["vectors"] is None and (other["data"], other["protocol"]) == (one["data"], "open")
            )
            gain = _harmonic(one) / _harmonic(plain)
            figures.append(Figure(f"MAP over that of codes, harmonic mean: {of}", gain, at_least=1.0))
    return figures


def _harmonic(one: dict[str, Any]) -> float:
    known, new = one["map_known"], one.get("map_new", one["map_known"])
    return float(2 * known * new / (known + new))


def _times_asked(times: list[dict[str, Any]]) -> list[Figure]:
    limits = {"one": 0.4, "batch": 10.0}
    return [
        Figure(
            f"milliseconds more than without, {each['items']}, {each['queries']} queries",
            each["refined_milliseconds"] - each["milliseconds"],
            at_most=limits[each["name"]],
        )
        for each in times
    ]
