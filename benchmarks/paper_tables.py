"""Tables of the documents that show cells of docs/results, which `supquant paper` and `benchmarks/accuracy.sh` measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from recorded import LENGTHS, NONE, best_bold, number

from supquant_lab.paper.published import published_map
from supquant_lab.records import read_records
from supquant_lab.table import markdown_lines as table

Cell = Mapping[str, Any]

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10 GIST"}

SOLVERS = {
    "`joint`, the default solver": ("joint", "cells"),
    "`alternating`, the published steps": ("alternating", "alternating"),
}
"""The solvers of the published method, and the folders of their cells."""

RIVALS = {
    "`sq`, the published method": "cells/cifar10-paper-sq-euclidean",
    "`sq` ranked by meaning, 4,000 anchors": "cells/cifar10-paper-sq-label",
    "`classifier`, the label itself, 4,000 anchors": "cells/cifar10-paper-classifier-4000-anchors-label",
    "`classifier`, the label itself": "cells/cifar10-paper-classifier-label",
    "`classifier-bits`": "compare/cifar10-classifier-bits/cifar10-classifier-bits-paper-hamming",
    "`sdh`": "compare/cifar10-sdh/cifar10-sdh-paper-hamming",
    "`sdh-linear`": "compare/cifar10-sdh-linear/cifar10-sdh-linear-paper-hamming",
    "`ksh`": "compare/cifar10-ksh/cifar10-ksh-paper-hamming",
    "`fasthash`": "compare/cifar10-fasthash/cifar10-fasthash-paper-hamming",
    "`cca-itq`": "compare/cifar10-cca-itq/cifar10-cca-itq-paper-hamming",
    "`mlh`": "compare/cifar10-mlh/cifar10-mlh-paper-hamming",
    "`ssh`": "compare/cifar10-ssh/cifar10-ssh-paper-hamming",
    "`bre`": "compare/cifar10-bre/cifar10-bre-paper-hamming",
    "`pq`, no labels": "compare/cifar10-pq/cifar10-pq-paper-euclidean",
    "`cq`, no labels": "compare/cifar10-cq/cifar10-cq-paper-euclidean",
    "`opq`, no labels": "compare/cifar10-opq/cifar10-opq-paper-euclidean",
    "`classifier-scores`, floats": "compare/cifar10-classifier-scores/cifar10-classifier-scores-paper-label",
    "`euclidean`, raw vectors in floats": "compare/cifar10-euclidean/cifar10-euclidean-paper-euclidean",
}
"""Lines of the table of rivals, and where their cells of 64 bits are."""

SPLITS = 3
"""Number of splits of a mean, unless a table says otherwise."""


@cache
def _cells(folder: Path) -> Mapping[str, Cell]:
    """Return the cells of a folder by name. Those of `accuracy.sh` name the folder that they were measured in."""
    return {record.name: record.content for record in read_records(folder)}


def _splits(folder: Path, name: str) -> list[Cell]:
    """Return the cells of all seeds."""
    cells = _cells(folder)
    return [
        cell
        for seed in range(SPLITS)
        for where, cell in cells.items()
        if where.rpartition("/")[2] == f"{name}-seed{seed}"
    ]


def _mean_map(cells: Iterable[Cell], decimals: int = 3) -> str:
    values = [cell["map"] for cell in cells]
    if not values:
        return NONE
    few = "" if len(values) == SPLITS else f" ({len(values)} split{'s' * (len(values) > 1)})"
    return number(mean(values), decimals) + few


def published(results: Path) -> str:
    """Return MAP of the published method where the database has labels, next to the numbers of the paper."""
    rows = []
    for data, name in DATA.items():
        for solver, (variant, folder) in SOLVERS.items():
            infix = "" if variant == "joint" else f"{variant}-"
            maps = [
                _mean_map(_splits(results / folder, f"{data}-paper-sq-{infix}euclidean-{bits}bits"))
                for bits in LENGTHS
            ]
            rows.append([f"{name}, {solver}", *maps])
        printed = [published_map(data, "sq", bits) for bits in LENGTHS]
        rows.append([f"{name}, in the paper", *(number(each.value if each else None) for each in printed)])
        stored = [
            _mean_map(_splits(results / "cells", f"{data}-paper-classifier-label-{bits}bits"))
            for bits in LENGTHS
        ]
        rows.append([f"{name}, the label itself, stored", *stored])
    return table(["MAP", *(f"{bits} bits" for bits in LENGTHS)], rows)


def published_encoded(results: Path) -> str:
    """Return MAP of the published method where the database has no labels."""
    rows = []
    for data, name in DATA.items():
        texts = []
        for bits in (16, 64):
            cells = _splits(results / "cells", f"{data}-unlabelled-sq-euclidean-{bits}bits")
            error = number(mean(cell["quantization_error"] for cell in cells))
            distinct = mean(cell["distinct_codes"] for cell in cells)
            texts.append(f"{_mean_map(cells)} ({error}, {distinct:,.0f})")
        stored = _splits(results / "cells", f"{data}-unlabelled-classifier-label-16bits")
        rows.append([name, *texts, _mean_map(stored)])
    header = "MAP, database without labels (quantization error, distinct codes)"
    return table([header, "16 bits", "64 bits", "the predicted label, stored"], rows)


def rivals(results: Path) -> str:
    """Return every method that the paper compares with, for CIFAR-10 GIST. The best of its column is bold."""
    cells = []
    for where in RIVALS.values():
        folder, _, name = where.partition("/")
        cells.append(_cells(results / folder)[f"{name}-64bits-seed0"])
    maps = (best_bold([cell[name] for cell in cells]) for name in ("map_learned", "map_encoded"))
    rows = [
        [name, f"{cell['index_bytes_per_item']:,.0f}", learned, encoded, _fit_time(cell)]
        for name, cell, learned, encoded in zip(RIVALS, cells, *maps, strict=True)
    ]
    return table(["MAP", "bytes", "learned", "encoded", "fit time, two cores"], rows, numbers=True)


def _fit_time(cell: Cell) -> str:
    seconds = cell["parameters"].get("chain_seconds") or cell["fit_seconds"]
    return f"{seconds:,.0f} s, {'Xeon' if 'x86_64' in cell['machine']['system'] else 'ARM'}"


TABLES: dict[str, Callable[[Path], str]] = {
    "published": published,
    "published_encoded": published_encoded,
    "rivals": rivals,
}
