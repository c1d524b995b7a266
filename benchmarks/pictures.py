"""Pictures of the documents, drawn from records."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from recorded import LENGTHS, MANY_CLASSES, NAMES, ONE_LABEL, Results

from supquant_lab.picture import save_picture

COLOURS = {"known": "#2456c5", "new": "#d55e00"}
STYLES = {
    "pq": ("x--", "product quantization"),
    "float": (":", "float probabilities"),
    "cosine": ("-.", "whole vectors, cosine"),
}


def draw_open(results: Results, picture: Path) -> None:
    """Draw MAP by bytes under the protocol `open`, a panel for each data set."""
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), sharex=True, layout="constrained")
    for axes, data in zip(panels, MANY_CLASSES, strict=True):
        for which, colour in COLOURS.items():
            for name, (style, label) in {"map": ("o-", "supquant"), **STYLES}.items():
                found = [(bits, results.get("open", data, f"{name}_{which}", bits=bits)) for bits in LENGTHS]
                points = [(bits / 8, value) for bits, value in found if value is not None]
                axes.plot(
                    *zip(*points, strict=True),
                    style,
                    color=colour,
                    linewidth=2 if name == "map" else 1,
                    label=f"{label}, queries of {which} classes",
                )
        axes.set(title=", ".join(NAMES[data].split(", ")[:2]), xscale="log", xlabel="bytes per item")
        axes.set(ylim=(0, None))
        axes.set_xticks([bits / 8 for bits in LENGTHS], [str(bits // 8) for bits in LENGTHS])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("MAP")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save_picture(figure, picture, dpi=110)


# choices -----------------------------------------------------------------------------------------------------------------

KINDS = {
    "paper": ("items with labels", "#2456c5", "map"),
    "unlabelled": ("items without labels", "#7a9be0", "map"),
    "open": ("known and new classes", "#d55e00", "map"),
}
"""Protocols with their names in a legend, a colour, and the figure."""


def draw_settings(results: Results, picture: Path) -> None:
    """Draw what bytes, rows without labels and whole vectors gain, a panel each."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    _draw_bytes(panels[0], results)
    _draw_given(panels[1], results)
    _draw_refined(panels[2], picture.parents[1] / "benchmarks" / "results" / "bench-refine.json")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    save_picture(figure, picture, dpi=110)


def _draw_bytes(axes: Axes, results: Results) -> None:
    lines = [(kind, figure, "o-", *names) for kind, (*names, figure) in KINDS.items()]
    lines += [("paper", "recall_within_class", "o:", "order in a class, with labels", "#2456c5")]
    for kind, figure, style, label, colour in lines:
        found = [(bits / 8, results.get(kind, "banking77", figure, bits=bits)) for bits in LENGTHS]
        points = [point for point in found if point[1] is not None]
        axes.plot(*zip(*points, strict=True), style, color=colour, label=label)
    axes.set(xscale="log", xlabel="bytes per item", ylabel="MAP", ylim=(0, 1.02))
    axes.set_title("bytes: Banking77", fontsize=10)
    axes.set_xticks([bits / 8 for bits in LENGTHS], [str(bits // 8) for bits in LENGTHS])
    axes.minorticks_off()


def _draw_given(axes: Axes, results: Results) -> None:
    places = range(len(ONE_LABEL))
    for shift, variant, label, colour in (
        (-0.2, "", "fit to labelled rows", "#7a9be0"),
        (0.2, "fit_rows=all", "fit to the items, too", "#2456c5"),
    ):
        values = [results.get("unseen", data, "map", variant=variant) or 0 for data in ONE_LABEL]
        axes.bar([place + shift for place in places], values, 0.38, color=colour, label=label)
    cosines = [results.get("unseen", data, "cosine") or 0 for data in ONE_LABEL]
    axes.plot(places, cosines, "k_", markersize=26, label="whole vectors, cosine")
    axes.set(ylim=(0, 1.02))
    axes.set_title("rows without labels: MAP of new classes", fontsize=10)
    axes.set_xticks(places, [NAMES[data].split(",")[0] for data in ONE_LABEL], fontsize=8)


def _draw_refined(axes: Axes, record: Path) -> None:
    orders = json.loads(record.read_text(encoding="utf-8"))["orders"]
    for shift, vectors, label, colour in (
        (-0.2, None, "codes", "#7a9be0"),
        (0.2, "int8", "`refine=100`", "#2456c5"),
    ):
        found = {
            one["protocol"]: one["within_class"]
            for one in orders
            if one["vectors"] == vectors and one["data"] == "banking77"
        }
        places = [place + shift for place in range(len(KINDS))]
        axes.bar(places, [found[kind] for kind in KINDS], 0.38, color=colour, label=label.strip("`"))
    axes.set(ylim=(0, 1.02))
    axes.set_title("whole vectors: order in a class, Banking77", fontsize=10)
    axes.set_xticks(
        range(len(KINDS)),
        [label.replace(" and", "\nand").replace(" w", "\nw") for label, *_ in KINDS.values()],
        fontsize=8,
    )
