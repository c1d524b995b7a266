"""Tables of the documents that show records of `supquant bench`, other than those of `supquant bench quality`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from recorded import NAMES, short_name

from supquant_lab.bench.opponents.run import read_folder as read_opponents
from supquant_lab.bench.quality.run import read_folder as read_quality
from supquant_lab.cli.opponent_tables import compared
from supquant_lab.table import markdown_lines as table

Record = Mapping[str, Any]

MACHINES = {
    "neon": "NEON (Neoverse-N1)",
    "avx512": "AVX-512 VBMI (Xeon)",
    "avx2": "AVX2 (the same Xeon)",
}
"""Records of `supquant bench search`, by the kernels that ran, and the processors."""

SEARCHES = {
    "1 query, 64 bits: `IndexPQ` / `IndexResidualQuantizer`": ("uniform codes, 64 bits, 1 query", 2),
    "64 queries, 64 bits: the same two / 4-bit `IndexPQFastScan`": ("uniform codes, 64 bits, 64 queries", 3),
    "64 queries, 128 bits: `IndexPQ` / `IndexResidualQuantizer`": ("uniform codes, 128 bits, 64 queries", 2),
    "1 query, 16 bits, codes of a trained model: the same two": ("trained codes, 16 bits, 1 query", 2),
}
"""Lines of the table of searches: the case, and how many of `INDEXES` it was compared with."""

INDEXES = ("IndexPQ", "IndexResidualQuantizer", "IndexPQFastScan")

CLOSED = ("paper", "unlabelled")
"""Protocols without new classes: items with labels, and without."""


def _record(folder: Path, name: str) -> Record:
    found: Record = json.loads((folder / f"bench-{name}.json").read_text(encoding="utf-8"))
    return found


def _measured(record: Record) -> dict[str, float]:
    """Return the figures of a record by their names."""
    return {figure["name"]: figure["measured"] for figure in record["figures"]}


def _times(value: float) -> str:
    """Return a ratio with two or three digits.

    Examples
    --------
    >>> _times(1.762), _times(203.3)
    ('1.8', '203')
    """
    return f"{value:.1f}" if value < 20 else f"{value:.0f}"


def _short(value: float, decimals: int = 2) -> str:
    """Return a fraction without its leading zero."""
    return f"{value:.{decimals}f}".replace("0.", ".", 1)


# speed -------------------------------------------------------------------------------------------------------------------


def searches(folder: Path) -> str:
    """Return how many times faster than FAISS a search is."""
    found = [_measured(_record(folder, f"search-{name}")) for name in MACHINES]
    rows = [
        [
            line,
            *(
                " / ".join(_times(one[f"{index} over ours: {case}"]) for index in INDEXES[:n])
                for one in found
            ),
        ]
        for line, (case, n) in SEARCHES.items()
    ]
    return table(["", *MACHINES.values()], rows)


def tasks(folder: Path) -> str:
    """Return what the steps before a search take."""
    rows: list[tuple[str, str, str]] = []
    record = _record(folder, "query")
    found = _measured(record)
    one = "features and tables of one query, 384 dimensions, 4,000 anchors"
    product = _times(found[f"{one}: time over one float32 product with the anchors"])
    rows += [
        (one, f"{_short(found[one])} ms, {product} times one product of the anchors and a vector", "query")
    ]
    for queries in ("1 raw query", "64 raw queries"):
        case = f"{queries} to answers, 1,000,000 uniform codes: time of IndexPQ over ours"
        rows += [(case, _times(found[case]), "query")]
    rest = "one query over 64 items: all but features and tables"
    rows += [(rest, f"{found[rest]:.0f} microseconds", "query")]
    encoding = "encoding of raw vectors, 384 dimensions to 64 bits"
    rows += [(f"{encoding}, one thread", f"{found[encoding]:,.0f} vectors per second", "query")]
    many, few = record["models"]
    speeds = " and ".join(f"{each['features_microseconds']:.0f}" for each in (many, few))
    case = "features of one of 256 queries, 4,000 and 1,000 anchors; time of tables by meaning over tables by distance"
    rows += [(case, f"{speeds} microseconds; {_short(many['ratio'])} and {_short(few['ratio'])}", "query")]

    record = _record(folder, "fit")
    for data, name in (("banking77", "Banking77"), ("mnist", "MNIST")):
        fit = record["default_fits"][data]
        case = f"default fit of {name}, {fit['rows']:,} rows, 64 bits, one thread"
        against = (
            "scikit-learn's `LogisticRegression(C=10, tol=1e-6)` on the same rows"
            if "regressions" in fit
            else "one float32 `X'X` of shape ({:,}, {:,})".format(*fit["product_shape"])
        )
        rows += [(case, f"{fit['fit_seconds']:.1f} s, {_times(fit['ratio'])} times {against}", "fit")]
    case = (
        f"`joint` fit of MNIST, {record['rows']:,} rows, 16 bits, one thread, MAP {_short(record['map'], 3)}"
    )
    rows += [
        (case, f"{record['fit_seconds']:.1f} s, {_times(record['ratio'])} times `X'X` of the features", "fit")
    ]
    shapes = " and ".join(f"({each['rows']:,}, {each['columns']:,})" for each in record["memory"])
    memory = " and ".join(f"{each['peak_anonymous_mb']:.0f} MB" for each in record["memory"])
    rows += [(f"peak anonymous memory of a fit of 64 bits to mapped files of shape {shapes}", memory, "fit")]

    record = _record(folder, "evaluate")
    ranking = next(kind for kind in record["kinds"] if kind["kind"] == "tables")
    case = f"MAP, tie-aware MAP and precision of {record['queries']:,} queries and {record['rows']:,} rows"
    rows += [(case, f"{ranking['seconds']:.1f} s, {ranking['peak_memory_mb']:.0f} MB", "evaluate")]
    record = _record(folder, "gist")
    rows += [
        (f"GIST of {record['images']:,} pictures of 32 x 32 pixels", f"{record['seconds']:.0f} s", "gist")
    ]
    record = _record(folder, "encode")
    speed, ratio = record["sides"][0]["vectors_per_second"], _times(record["ratio"])
    case = "encoding of 256-dimensional projected vectors to 64 bits, one thread"
    against = f"{ratio} times as fast as FAISS `LocalSearchQuantizer` 8x8"
    rows += [(case, f"{speed:,.0f} vectors per second, {against}", "encode")]
    lines = [[what, took, f"`supquant bench {command}`"] for what, took, command in rows]
    return table(["task", "measured", "command"], lines)


# many labels -------------------------------------------------------------------------------------------------------------


def many_labels(folder: Path) -> str:
    """Return ratios to the best possible result for many labels, and what they cost."""
    rows = []
    for n in (400, 1_000, 10_000, 100_000):
        record = json.loads((folder / "labels" / f"{n}.json").read_text(encoding="utf-8"))
        short, long = (next(one for one in record["measured"] if one["bits"] == bits) for bits in (16, 64))
        rows += [
            [
                f"{n:,}, {short['rows']:,} x {short['dimensions']}",
                _short(short["labelled"]["map_ratio"], 3),
                _short(long["unlabelled"]["map_ratio"], 3),
                _short(short["accuracy_ratio"], 3),
                f"{short['fit_seconds']:.0f} s",
                f"{short['peak_memory_mb'] / 1000:.1f} GB",
                f"{short['tables_ms']:.1f} ms",
            ]
        ]
    header = [
        "labels, rows",
        "items with labels, 2 bytes: MAP over that of the stored label",
        "items without labels, 8 bytes: MAP over that of float scores",
        "accuracy of the classifier over that of the Bayes rule",
        "fit time, 2 bytes",
        "memory above the data",
        "time to make the tables of a query",
    ]
    return table(header, rows)


# vectors next to codes ---------------------------------------------------------------------------------------------------


def refined(folder: Path) -> str:
    """Return what the order by vectors is, for Banking77."""
    orders = _record(folder, "refine")["orders"]
    ways = (None, "int8", "float16")

    def of(protocol: str, way: str | None) -> Record:
        return next(
            one
            for one in orders
            if (one["data"], one["protocol"], one["vectors"]) == ("banking77", protocol, way)
        )

    def both(name: str, decimals: int) -> list[str]:
        return [" / ".join(_short(of(kind, way)[name], decimals) for kind in CLOSED) for way in ways]

    def each(protocol: str, name: str, decimals: int) -> list[str]:
        return [_short(of(protocol, way)[name], decimals) for way in ways]

    harmonic = []
    for way in ways:
        known, new = (of("open", way)[f"map_{which}"] for which in ("known", "new"))
        harmonic.append(
            f"{_short(known, 3)} / {_short(new, 3)}, {_short(2 * known * new / (known + new), 3)}"
        )
    sizes = [" / ".join(f"{of(kind, way)['bytes_per_item']:,.0f}" for kind in CLOSED) for way in ways]
    recall = (
        'recall@10 of the nearest vectors, `ranking="position"`, `refine=200`: items with labels / without'
    )
    rows = [
        ["overlap with the ten nearest of the class, items with labels", *each("paper", "within_class", 2)],
        ["the same, items without labels, all known", *each("unlabelled", "within_class", 2)],
        ["the same, known and new classes together", *each("open", "within_class", 2)],
        ["MAP, items with labels", *each("paper", "map_known", 3)],
        ["MAP, items without labels, all known", *each("unlabelled", "map_known", 3)],
        ["MAP of known / new queries together, harmonic mean", *harmonic],
        [recall, *both("recall_by_position", 3)],
        ["bytes per item, with labels / without", *sizes],
    ]
    return table(["Banking77, 8 bytes, 500 queries, one split", "codes", "`int8`", "`float16`"], rows)


# others ------------------------------------------------------------------------------------------------------------------


def ours_and_best(folder: Path) -> str:
    """Return our figures and those of the best other methods."""
    return compared(read_opponents(folder / "opponents"))


def lost(folder: Path) -> str:
    """Return where another method is better than ours."""
    return compared(read_opponents(folder / "opponents"), lost=True)


# GPU -----------------------------------------------------------------------------------------------------------------


def on_gpu(folder: Path) -> str:
    """Return what a GPU does in place of all cores, of one core, and of torch."""
    record = _record(folder, "gpu")
    encoding, searching, copied = record["encoding"], record["searching"], record["copy_bytes_per_second"]
    core = encoding["one_core_rows_per_second"]
    rows = [
        [
            f"fit {fit['rows']:,} rows of {NAMES[fit['dataset']]} to {fit['bytes']} bytes",
            f"{fit['gpu_seconds']:.1f} s, MAP {_short(fit['map_gpu'], 4)}",
            f"{fit['times_as_fast']:.1f} times {fit['cores']} cores: {fit['cpu_seconds']:.1f} s, MAP {_short(fit['map_cpu'], 4)}",
        ]
        for fit in record.get("fitting", ())  # records of before there were fits
    ]
    for case, name in (
        ("rows in the memory of the GPU", "gpu_memory"),
        ("float16 rows in the memory of the CPU", "host_float16"),
        ("the same, with labels", "host_float16_labelled"),
    ):
        speed = encoding[f"{name}_rows_per_second"]
        line = f"encode {encoding['dimensions']} dimensions to {encoding['bytes']} bytes: {case}"
        rows.append(
            [
                line,
                f"{speed / 1e6:.1f} million rows/s",
                f"{speed / core:.0f} times one core" if "labelled" not in name else "",
            ]
        )
    sides = {(side["name"], side["queries"]): side for side in searching["sides"]}
    gathered = sides["torch, gathered entries", 1]["seconds"]
    for queries in (1, 8, 64):
        ours = sides["supquant", queries]
        speed = f"{ours['seconds'] * 1e3:.1f} ms, {ours['code_bytes_per_second'] / 1e12:.1f} TB/s of codes, "
        speed += f"{ours['pairs_per_second'] / 1e12:.2f} 10^12 pairs/s"
        against = f"torch: {gathered * queries / ours['seconds']:.0f} times as long"
        if queries == 1:
            scanned, one = ours["code_bytes_per_second"], searching["one_core_bytes_per_second"]
            against += f"; {scanned / one:.0f} times one core; {scanned / copied:.0%} of what a copy reads and writes"
        plural = "query" if queries == 1 else "queries"
        rows.append(
            [
                f"search {searching['rows']:,} codes of {searching['bytes']} bytes: {queries} {plural}",
                speed,
                against,
            ]
        )
    return table(["", record["gpu"], "compared with"], rows)


def on_gpu_in_short(folder: Path) -> str:
    """Return how many times faster than a CPU a GPU is."""
    record = _record(folder, "gpu")
    encoding, searching = record["encoding"], record["searching"]
    rows = []
    for fit in record["fitting"]:
        data = short_name(fit["dataset"])
        times = f"{fit['times_as_fast']:.1f} (all {fit['cores']} cores)"
        rows.append([f"fit {fit['rows']:,} rows of {data}", f"{fit['gpu_seconds']:.1f} s", times])
    speed = encoding["gpu_memory_rows_per_second"]
    times = f"{speed / encoding['one_core_rows_per_second']:.0f} (one core)"
    line = f"encode vectors of {encoding['dimensions']} dimensions"
    rows.append([line, f"{speed / 1e6:.1f} million per second", times])
    (ours,) = (side for side in searching["sides"] if (side["name"], side["queries"]) == ("supquant", 1))
    times = f"{ours['code_bytes_per_second'] / searching['one_core_bytes_per_second']:.0f} (one core)"
    rows.append([f"one query, {searching['rows']:,} items", f"{ours['seconds'] * 1e3:.1f} ms", times])
    return table([f"codes of {searching['bytes']} bytes", record["gpu"], "times as fast as the CPU"], rows)


def places(folder: Path) -> str:
    """Return how often near items on a map have the same label."""
    return table(
        ["near items with the same label", "by codes", "layout of the graph", "linear map"],
        [
            [
                NAMES[each["dataset"]],
                *(_short(each["same_label"][of]) for of in ("codes", "neighbours", "linear")),
            ]
            for each in _record(folder, "places")["records"]
        ],
    )


def audited_in_short(folder: Path) -> str:
    """Return what users want to know of an audit."""
    lines = {
        "average precision": "average precision over all rows, by `found.wrong`",
        "the same, cleanlab": "cleanlab, the best of four label quality scores of both",
        "fraction of the listed labels that are wrong": "fraction of these that were changed",
        "the same, cleanlab's `find_label_issues`": "fraction of these that had been changed",
        "fraction of the wrong labels that are listed": "changed labels among them",
        "processor time": "processor time",
    }
    columns = [_audited(each) for each in _record(folder, "audit")["records"] if not each["ambiguous"]]
    rows = [[line, *(found[name] for _, found in columns)] for line, name in lines.items()]
    return table(["", *(name for name, _ in columns)], rows)


def audited(folder: Path) -> str:
    """Return what an audit finds, and what others find by the probabilities of its two classifiers."""
    columns = [_audited(each) for each in _record(folder, "audit")["records"]]
    return table(
        ["", *(name for name, _ in columns)],
        [[line, *(found[line] for _, found in columns)] for line in columns[0][1]],
    )


def _audited(record: Record) -> tuple[str, dict[str, str]]:
    """Return the heading of a data set, and its figures by the names of their lines."""
    measured = record["measured"]

    def others(figure: str, *words: str) -> dict[str, float]:
        names = [name for name in measured[0]["others"] if any(word in name for word in words)]
        return {name: mean(each["others"][name][figure] for each in measured) for name in names}

    def of_labels(figure: str) -> str:
        return _short(mean(each["labels"][figure] for each in measured))

    ours = mean(each["all_rows"]["average_precision"] for each in measured)
    plain = others("average_precision", ": self-confidence")
    scores = others("average_precision", ": self-confidence", "normalized_", "weighted_", "adjusted ")
    lists = others("average_precision", "find_label_issues")
    best = max(lists, key=lambda name: lists[name])
    listed = sorted(each["others"][best]["listed"] for each in measured)
    first = short_name(record["dataset"])
    heading = f"{first}, ambiguous" if record["ambiguous"] else f"{first}, {record['rows']:,} rows"
    precisions = [ours, max(plain.values()), max(scores.values())]
    shown = [_short(each, 3) for each in precisions]
    bold = [f"**{text}**" if text == max(shown) else text for text in shown]
    return heading, {
        "average precision over all rows, by `found.wrong`": bold[0],
        "self-confidence, by the better of the two classifiers": bold[1],
        "cleanlab, the best of four label quality scores of both": bold[2],
        "labels changed": str(measured[0]["changed"]),
        "labels listed, by seed": ", ".join(f"{each['labels']['listed']:,}" for each in measured),
        "fraction of these that were changed": of_labels("precision"),
        "changed labels among them": of_labels("recall"),
        "cleanlab, labels listed by `find_label_issues`": " to ".join(
            f"{each:,}" for each in sorted({listed[0], listed[-1]})
        ),
        "fraction of these that had been changed": _short(others("precision", best)[best]),
        "precision of the first 100": of_labels("precision_of_first"),
        "copies found": f"{mean(each['duplicates_found'] for each in measured):.0f} of {measured[0]['duplicates_planted']}",
        "processor time": f"{mean(each['processor_seconds'] for each in measured):.0f} s",
    }


TABLES: dict[str, Callable[[Path], str]] = {
    "audit": audited_in_short,
    "audited": audited,
    "gpu": on_gpu_in_short,
    "gpu_all": on_gpu,
    "searches": searches,
    "tasks": tasks,
    "labels": many_labels,
    "refine": refined,
    "compared": ours_and_best,
    "lost": lost,
    "places": places,
}


# figures in sentences ----------------------------------------------------------------------------------------------------


def index_pq_times(folder: Path) -> str:
    """Return how many times faster than `IndexPQ` one query is, from the slowest to the fastest processor."""
    case = "IndexPQ over ours: uniform codes, 64 bits, 1 query"
    times = [_measured(_record(folder, f"search-{name}"))[case] for name in MACHINES]
    return f"{_times(min(times))} to {_times(max(times))}"


def audit_seeds(folder: Path) -> str:
    """Return what the table of audits has means of."""
    (n,) = {len(each["measured"]) for each in _record(folder, "audit")["records"]}
    return "figures of one seed" if n == 1 else f"means of {n} seeds"


def quality_splits(folder: Path) -> str:
    """Return what the tables of quality.md are means of."""
    records = [each for each in read_quality(folder / "quality") if each["kind"] == "unlabelled"]
    rows = {each["data"]: each["rows"] for each in records}
    splits = len({each["seed"] for each in records})
    (others,) = {rows[name] for name in ("cifar10", "mnist")}
    drawn = f"{rows['tinyimagenet']:,} rows of Tiny-ImageNet and {others:,} rows of the others"
    return f"{splits} splits of all of Banking77, {drawn}"


def _quoted(record: str, figure: str, form: Callable[[float], str]) -> Callable[[Path], str]:
    """Return the function that writes one figure of a record of `supquant bench`."""
    return lambda folder: form(_measured(_record(folder, record))[figure])


def _default_fit(form: str) -> Callable[[Path], str]:
    """Return the function that writes figures of the default fits: `banking77`, `mnist`, and `regression` of scikit-learn."""

    def text(folder: Path) -> str:
        fits = _record(folder, "fit")["default_fits"]
        seconds = {name: fit["fit_seconds"] for name, fit in fits.items()}
        # the last regression has the default tolerance of scikit-learn
        return form.format(**seconds, regression=fits["banking77"]["regressions"][-1]["ratio"])

    return text


def _served(name: str, form: Callable[[float], str]) -> Callable[[Path], str]:
    return lambda folder: form(_record(folder, "serve")["medians"][name])


RAW = "to answers, 1,000,000 uniform codes: time of IndexPQ over ours"
MASK, PREPARED = (f"random 1 %{how}: time over that of no filter" for how in (" mask", ", prepared"))

FIGURES: dict[str, Callable[[Path], str]] = {
    "audit_seeds": audit_seeds,
    "index_pq_times": index_pq_times,
    "quality_splits": quality_splits,
    "raw_query": _quoted("query", f"1 raw query {RAW}", _times),
    "raw_queries": _quoted("query", f"64 raw queries {RAW}", _times),
    "encoding": _quoted("query", "encoding of raw vectors, 384 dimensions to 64 bits", "{:,.0f}".format),
    "fast_scan": _quoted("cells-avx512", "IndexPQFastScan over ours: uniform codes, 1 query", _times),
    "fast_scan_bw": _quoted("cells-avx512bw", "IndexPQFastScan over ours: uniform codes, 1 query", _times),
    "two_threads": _quoted("search-avx512", "one thread over two: 1 query, 64 bits, 10,000,000 rows", _times),
    "mask_neon": _quoted("search-neon", MASK, _short),
    "mask_avx512": _quoted("search-avx512", MASK, _times),
    "prepared_neon": _quoted("search-neon", PREPARED, _short),
    "prepared_avx512": _quoted("search-avx512", PREPARED, _short),
    "opening": _quoted("search-avx512", "opening an index of 1.00 GB", _times),
    "cells_labelled": _quoted(
        "cells-avx512", "full scan over cells: labelled items, label ranking, median over queries", _times
    ),
    "cells_unlabelled": _quoted(
        "cells-avx512", "full scan over cells: unlabelled items, label ranking, median over queries", _times
    ),
    "fit_banking77": _default_fit("{banking77:.1f}"),
    "fit_regression": _default_fit("{regression:.1f}"),
    "fit_mnist": _default_fit("{mnist:.1f}"),
    "served": _served("served_per_second", "{:,.0f}".format),
    "served_share": _served("served_share", _short),
    "served_json": _served("json_per_second", "{:,.0f}".format),
    "served_added": _served("added_ms", "{:.1f}".format),
}
"""Figures of sentences, by name."""
