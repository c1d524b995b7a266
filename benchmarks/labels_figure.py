"""Draw the measurements of `supquant bench labels`: quality, and the time of fits and queries, by the number of labels.

mkdir -p benchmarks/results/labels
for labels in 100 400 1000 10000; do
    supquant bench labels --labels $labels --json benchmarks/results/labels/$labels.json
done
supquant bench labels --labels 100000 --bits 16,32,64 --json benchmarks/results/labels/100000.json
supquant bench labels --several --bits 64 --json benchmarks/results/labels/several.json
python benchmarks/labels_figure.py benchmarks/results/labels docs/labels.png
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator

from supquant_lab.picture import save_picture

SHORT, LONG = 16, 64
DASHES = {SHORT: "-", LONG: "--"}
QUALITIES = {
    "labelled": ("#2456c5", SHORT, "MAP with labels over storing the label"),
    "unlabelled": ("#d55e00", LONG, "MAP without labels over float scores"),
    "accuracy": ("#009e73", SHORT, "classifier over the Bayes rule"),
}
COSTS = {
    "fit_seconds": ("#2456c5", "fit, seconds"),
    "answers_ms": ("#d55e00", "one query to its first ten answers, ms"),
}


def main(results: str, picture: str) -> None:
    """Draw two panels: quality and time."""
    found = {}
    for path in sorted(Path(results).glob("*.json")):
        for case in json.loads(path.read_text())["measured"]:
            found[case["several"], case["bits"], case["labels"]] = case
    numbers = sorted({labels for several, _, labels in found if not several})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for kind, (colour, bits, name) in QUALITIES.items():
        longer = " (100,000: 32)" if bits == SHORT and (False, SHORT, 100_000) not in found else ""
        title = name if kind == "accuracy" else f"{name}, {bits} bits{longer}"
        drawn = draw(left, found, bits, lambda case, kind=kind: quality(case, kind), color=colour)
        drawn.set_label(title)
    left.axhline(1, color="0.6", linewidth=1, linestyle=":")
    left.set(title="What codes keep", ylabel="fraction of the best")
    axes = dict(zip(COSTS, (right, right.twinx()), strict=True))
    for kind, (colour, name) in COSTS.items():
        for bits, dashes in DASHES.items():
            drawn = draw(axes[kind], found, bits, lambda case, kind=kind: case[kind], dashes, color=colour)
            drawn.set_label(f"{name}, {bits} bits")
        axes[kind].set_yscale("log")
        axes[kind].set_ylabel(name, color=colour)
        axes[kind].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[kind].yaxis.set_major_formatter("{x:g}")
        axes[kind].yaxis.minorticks_off()
        axes[kind].tick_params(axis="y", colors=colour)
    right.set(title="What it costs")
    for each in (left, *axes.values()):
        each.set(xscale="log", xlabel="labels (x: several per row)")
        each.set_xticks(numbers, [f"{labels:,}" for labels in numbers], fontsize=8)
        each.xaxis.minorticks_off()
        each.spines["top"].set_visible(False)
    left.spines["right"].set_visible(False)
    lines = [line for each in (left, *axes.values()) for line in each.get_legend_handles_labels()[0]]
    figure.legend(
        handles=lines, loc="outside lower center", ncols=2, frameon=False, fontsize=8, handlelength=3.5
    )
    save_picture(figure, picture, dpi=110)


def draw(axes, found, bits, value, dashes="-", **style):
    """Draw one line over the sets with one label per row, a cross for each of the others, and return the line.

    A set that was not measured at this length is drawn at the next longer one.
    """
    for several, marker in ((True, "x"), (False, "o" + dashes)):
        sets = sorted({labels for other, _, labels in found if other == several})
        lengths = {each: [key[1] for key in found if key[::2] == (several, each)] for each in sets}
        shortest = {each: min((b for b in lengths[each] if b >= bits), default=None) for each in sets}
        cases = [found[several, shortest[each], each] for each in sets if shortest[each] is not None]
        points = [(case["labels"], value(case)) for case in cases if value(case) is not None]
        (line,) = axes.plot([x for x, _ in points], [y for _, y in points], marker, **style)
    return line


def quality(case, kind):
    """Return a ratio of one case; None if there is nothing to compare with."""
    return case["accuracy_ratio"] if kind == "accuracy" else case[kind]["map_ratio"]


if __name__ == "__main__":
    main(*sys.argv[1:])
