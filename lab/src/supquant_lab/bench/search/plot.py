"""Report: the picture of the speed of every side by code length."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant_lab.bench.search.codes import BITS, QUERIES
from supquant_lab.bench.search.sides import ADDITIVE, BINARY, FAST_SCAN, OURS, OURS_HAMMING, PQ
from supquant_lab.picture import save_picture

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STYLES = {
    OURS: ("#2456c5", "-", "o", "supquant"),
    PQ: ("#d9762b", "-", "s", "FAISS IndexPQ"),
    FAST_SCAN: ("#c2a21c", "-", "D", "FAISS IndexPQFastScan, 4 bits"),
    ADDITIVE: ("#b23a48", "-", "^", "FAISS IndexResidualQuantizer"),
    OURS_HAMMING: ("#2456c5", ":", "o", "supquant, Hamming"),
    BINARY: ("#6b7078", ":", "v", "FAISS IndexBinaryFlat"),
}
"""Colour, line, marker and name of every side."""


def plot_search(record: Mapping[str, Any], path: Path) -> None:
    """Draw millions of code-query sums per second by code length, for one query and for 64, one thread.

    Parameters
    ----------
    record : mapping
        As `bench_search` returns it.
    path : Path
        The .png file to write.
    """
    figures = importlib.import_module("matplotlib.figure")
    cells = [
        cell
        for cell in record["cells"]
        if (cell["source"], cell["k"], cell["threads"]) == ("uniform", 100, 1)
    ]
    if not cells:
        raise InputError("the record has no cells to draw")
    rows = max(cell["rows"] for cell in cells if cell["rows"] <= 1_000_000)
    figure = figures.Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, queries in zip(panels, QUERIES, strict=True):
        drawn = [cell for cell in cells if (cell["rows"], cell["queries"]) == (rows, queries)]
        for name, (colour, line, marker, _) in STYLES.items():
            _draw_side(panel, drawn, name, colour, line, marker)
        _finish_panel(panel, "one query" if queries == 1 else f"{queries} queries at once")
    panels[0].set_ylabel("million code-query sums per second")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    machine = record["machine"]
    figure.suptitle(
        f"Search of {rows:,} codes, k = 100, one thread, {machine['processor']}, {machine['instruction_set']}"
    )
    save_picture(figure, path, dpi=150)


def _draw_side(panel: Any, cells: list[Any], name: str, colour: str, line: str, marker: str) -> None:
    speeds = {
        cell["bits"]: side["million_sums_per_second"]
        for cell in cells
        for side in cell["sides"]
        if side["name"] == name
    }
    bits = sorted(speeds)
    panel.plot(
        [BITS.index(each) for each in bits],
        [speeds[each] for each in bits],
        color=colour,
        linestyle=line,
        marker=marker,
        linewidth=2.4 if name == OURS else 1.6,
        markersize=6,
        markerfacecolor="white" if line == ":" else colour,
        label=STYLES[name][3],
    )


def _finish_panel(panel: Any, title: str) -> None:
    panel.set_title(title)
    panel.set_yscale("log")
    panel.set_xticks(range(len(BITS)), [str(bits) for bits in BITS])
    panel.set_xlabel("bits per code")
    panel.yaxis.set_major_formatter("{x:,.0f}")
    panel.grid(axis="y", which="both", color="#e2e2de", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
