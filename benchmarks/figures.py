"""Render the tables and the picture of the documents from the records in benchmarks/results.

python benchmarks/figures.py            # writes what differs: `make figures`
python benchmarks/figures.py --check    # only says what differs, and which records are older than the code

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`, and a figure in a sentence between
`<!-- figure: NAME -->` and `<!-- end -->`, which must not begin a line: Markdown would end the paragraph.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench_tables import FIGURES
from bench_tables import TABLES as BENCH_TABLES
from paper_tables import TABLES as PAPER_TABLES
from pictures import draw_open, draw_settings
from recorded import LENGTHS, MANY_CLASSES, NAMES, NONE, ONE_LABEL, Results, best_bold, number, short_name

from supquant_lab.bench.opponents.run import read_folder
from supquant_lab.cli import opponent_tables
from supquant_lab.table import markdown_lines as table

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "results" / "quality"
BENCHES = RECORDS.parent
CELLS = ROOT / "docs" / "results"
PAGES = (
    "README.md",
    "docs/alternatives.md",
    "docs/audit.md",
    "docs/gpu.md",
    "docs/quality.md",
    "docs/settings.md",
    "docs/discover.md",
    "docs/serving.md",
    "docs/speed.md",
    "docs/maintainers/audits.md",
    "docs/maintainers/comparison.md",
    "docs/maintainers/measurements.md",
    "docs/maintainers/opponents.md",
)
PICTURES: dict[str, Callable[[Results, Path], None]] = {
    "docs/open.png": draw_open,
    "docs/settings.png": draw_settings,
}

BLOCK = re.compile(r"(?<=<!-- figures: )(\w+)( -->\n\n).*?(?=\n\n<!-- end of figures -->)", re.DOTALL)
FIGURE = re.compile(r"(?<=<!-- figure: )(\w+)( -->).*?(?=<!-- end -->)", re.DOTALL)


# tables ------------------------------------------------------------------------------------------------------------------


def known_and_new(results: Results, others: dict[str, str], title: str) -> str:
    """Return MAP under the protocol `open`, for queries of known and of new classes."""
    rows = []
    for data in MANY_CLASSES:
        both = [
            best_bold([results.get("open", data, f"{name}_{which}") for name in ("map", *others)], 2)
            for which in ("known", "new")
        ]
        rows.append([NAMES[data], *(" / ".join(pair) for pair in zip(*both, strict=True))])
    return table([title, "supquant, 8 bytes", *others.values()], rows)


def labelled(results: Results) -> str:
    """Return MAP over items with labels, and how many of the nearest items come first."""
    rows = []
    for data in (*ONE_LABEL, "coco30k"):
        codes = [results.get("paper", data, "map", bits=bits) for bits in (16, 64)]
        stored = results.get("paper", data, "float", bits=16)
        overlap = results.get("paper", data, "recall_within_class") if data in ONE_LABEL else None
        rows.append([short_name(data), *best_bold([*codes, stored]), number(overlap, 2)])
    nearest = "of the ten nearest items of the class, 8 bytes"
    return table(["MAP, items with labels", "2 bytes", "8 bytes", "the stored label", nearest], rows)


def unlabelled(results: Results) -> str:
    """Return MAP over items without labels, all of known classes."""
    rows = []
    for data in ONE_LABEL:
        variants = [
            results.get("unlabelled", data, "map", variant=variant) for variant in ("", "fit_rows=all")
        ]
        rows.append([short_name(data), *map(number, [*variants, results.get("unlabelled", data, "float")])])
    header = "MAP, items without labels, 8 bytes"
    ways = ["supquant", "the same, items given to `fit`", "float probabilities"]
    return table([header, *ways], rows)


def unseen(results: Results) -> str:
    """Return MAP where all queries and items are of classes without labels."""
    rows = []
    for data in ONE_LABEL:
        ours = [results.get("unseen", data, "map", variant=variant) for variant in ("", "fit_rows=all")]
        others = [results.get("unseen", data, name) for name in ("pq", "cosine")]
        rows.append([short_name(data), *best_bold([*ours, *others])])
    ways = ["supquant", "the same, items given to `fit`", "product quantization", "whole vectors, cosine"]
    return table(["MAP, new classes only, 8 bytes", *ways], rows)


def lengths(results: Results) -> str:
    """Return MAP by length of the code."""
    cases = {
        "items with labels": ("paper", "map"),
        "items without labels": ("unlabelled", "map"),
        "known and new classes, harmonic mean": ("open", "map"),
    }
    rows = [
        [name, *(number(results.get(kind, "banking77", figure, bits=bits)) for bits in LENGTHS)]
        for name, (kind, figure) in cases.items()
    ]
    return table(["MAP, Banking77", *(f"{bits // 8} bytes" for bits in LENGTHS)], rows)


def calibration(results: Results) -> str:
    """Return calibration errors."""
    rows = []
    for data in ONE_LABEL:
        alone = [number(results.get(kind, data, "calibration")) for kind in ("paper", "unlabelled")]
        both = [number(results.get("open", data, f"calibration_{which}")) for which in ("known", "new")]
        rows.append([short_name(data), *alone, " / ".join(both) if data in MANY_CLASSES else NONE])
    header = ["calibration error, 8 bytes", "items with labels", "items without labels"]
    return table([*header, "queries of known / new classes"], rows)


def forecasts(results: Results) -> str:
    """Return what the summary of a fit expects, next to what was then measured."""
    cases = {"paper": "", "unlabelled": "", "open": "_new"}
    rows = []
    for data in ONE_LABEL:
        pairs = [
            [results.get(kind, data, f"{name}{which}") for name in ("forecast", "map")]
            for kind, which in cases.items()
        ]
        texts = [
            NONE if expected is None else f"{number(expected)} / {number(true)}" for expected, true in pairs
        ]
        rows.append([NAMES[data], *texts])
    header = ["expected / measured MAP, 8 bytes", "items with labels", "items without labels", "new classes"]
    return table(header, rows)


def extended(results: Results) -> str:
    """Return what `extend` gains and costs."""
    rows = []
    for data in ("digits", "banking77"):
        for variant, classes in (("one", "one new class"), ("fifth", "a fifth of the classes new")):
            figures = [
                " / ".join(
                    number(results.get("extend", data, f"map_{which}{when}", variant=variant))
                    for which in ("known", "new")
                )
                for when in ("_before", "")
            ]
            rows.append([f"{short_name(data)}, {classes}", *figures])
    return table(["MAP of known / new classes, 8 bytes", "before", "after `extend`"], rows)


def discovered(results: Results) -> str:
    """Return how many rows are put into the group of their class."""
    ways = {
        "discover": "supquant",
        "semi_kmeans": "semi-supervised k-means, told the number of classes",
    }
    rows = []
    for data in MANY_CLASSES:
        figures = [
            [number(results.get("discover", data, f"{way}{which}")) for which in ("", "_known", "_new")]
            for way in ways
        ]
        rows.append([short_name(data), *(f"{of_all} ({known} / {new})" for of_all, known, new in figures)])
    return table(["clustering accuracy: all (known / new classes)", *ways.values()], rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "first": partial(
        known_and_new,
        others={
            "pq": "product quantization, 8 bytes",
            "cosine": "whole vectors, cosine, 1,536 and 1,024 bytes",
        },
        title="how well items of the right label come first (MAP, 0 to 1), queries of known / new classes",
    ),
    "open": partial(
        known_and_new,
        others={
            "pq": "product quantization, 8 bytes",
            "float": "float probabilities",
            "cosine": "whole vectors, cosine",
        },
        title="MAP, queries of known / new classes",
    ),
    "labelled": labelled,
    "unlabelled": unlabelled,
    "unseen": unseen,
    "lengths": lengths,
    "calibration": calibration,
    "forecast": forecasts,
    "extend": extended,
    "discover": discovered,
}


def rendered(text: str, results: Results) -> str:
    """Return a page with its tables and figures rendered."""

    def of_block(block: re.Match[str]) -> str:
        name = block[1]
        if name in BENCH_TABLES:
            made = BENCH_TABLES[name](BENCHES)
        elif name in PAPER_TABLES:
            made = PAPER_TABLES[name](CELLS)
        else:
            made = TABLES[name](results)
        return f"{name}{block[2]}{made}"

    text = BLOCK.sub(of_block, text)
    if opponent_tables.BEGIN in text:
        text = opponent_tables.rendered(text, read_folder(BENCHES / "opponents"))
    return FIGURE.sub(lambda figure: f"{figure[1]}{figure[2]}{FIGURES[figure[1]](BENCHES)}", text)


def main(*arguments: str) -> int:
    """Render all pages, or check them; return the exit status."""
    results = Results(RECORDS)
    different = [name for name in PAGES if rendered(text := _read(name), results) != text]
    if "--check" in arguments:
        for name in different:
            print(f"{name} differs from the records: run `make figures`")
        for line in results.older:
            print(f"older than the code: {line}")
        return bool(different or results.older)
    for name in different:
        (ROOT / name).write_text(rendered(_read(name), results), encoding="utf-8")
        print(f"wrote {name}")
    for name, draw in PICTURES.items():
        draw(results, ROOT / name)
    return 0


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
