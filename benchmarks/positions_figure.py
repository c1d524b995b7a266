"""Draw the cells of `benchmarks/positions.sh` under the protocol `open`: MAP by bytes, for known and for new classes.

python benchmarks/positions_figure.py docs/results/positions docs/open.png
"""

import sys
from collections import defaultdict
from statistics import mean

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from supquant_lab.picture import save_picture
from supquant_lab.table import read_cells

DATASETS = {"banking77": "Banking77, sentences", "tinyimagenet": "Tiny-ImageNet, pictures"}
FLOATS = {"probabilities": "float probabilities", "cosine": "raw vectors, cosine"}
COLOURS = {"map_known": "#2456c5", "map_new": "#d55e00"}
KINDS = {"map_known": "queries of known classes", "map_new": "queries of new classes"}


def main(results: str, picture: str) -> None:
    """Draw two panels, one for each data set."""
    found = defaultdict(list)
    for cell in read_cells(results):
        if cell["protocol"] == "open":
            found[cell["dataset"], cell["method"], cell["bits"]].append(cell)
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), sharex=True, layout="constrained")
    for axes, (dataset, title) in zip(panels, DATASETS.items(), strict=True):
        lengths = sorted(bits for name, method, bits in found if (name, method) == (dataset, "sq"))
        for kind, colour in COLOURS.items():
            ours = [mean(cell[kind] for cell in found[dataset, "sq", bits]) for bits in lengths]
            axes.plot(
                [bits / 8 for bits in lengths], ours, "o-", color=colour, label=f"supquant, {KINDS[kind]}"
            )
            product = mean(cell[kind] for cell in found[dataset, "pq", 64])
            axes.plot([8], [product], "x", color=colour, label=f"product quantization, {KINDS[kind]}")
            for method, dashes in zip(FLOATS, ("--", ":"), strict=True):
                level = mean(cell[kind] for cell in found[dataset, method, 64])
                axes.axhline(
                    level,
                    color=colour,
                    linestyle=dashes,
                    linewidth=1,
                    label=f"{FLOATS[method]}, {KINDS[kind]}",
                )
        axes.set(title=title, xscale="log", xlabel="bytes per item", ylim=(0, None))
        axes.set_xticks([bits / 8 for bits in lengths], [str(bits // 8) for bits in lengths])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("MAP, mean of three splits")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8
    )
    save_picture(figure, picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
