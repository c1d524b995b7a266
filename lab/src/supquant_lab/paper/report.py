"""Report: one page, its figures and tables as files, and an index page, all from a folder of result files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from supquant.errors import InputError
from supquant_lab.paper.drawing import PALETTE
from supquant_lab.paper.headline import Headline, headline
from supquant_lab.paper.results import read_results
from supquant_lab.paper.sections import sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supquant_lab.paper.sections import Section
    from supquant_lab.paper.tables import Table


OPENING = (
    "A *code* of a few bytes stands for a vector: a picture, a text. This page compares ways to learn such codes. Every query is "
    "compared with the codes of all items, and the items are sorted. A method is good if the items with the label of the query "
    "come first. Mean average precision, *MAP*, measures this: it is 1 if all of them come before all others."
)

SCOPE = (
    "The tables and figures are those of “Supervised Quantization for Similarity Search” (Wang, Zhang, Qi, Tang, Wang, CVPR "
    "2016), measured with supquant, next to every method that the paper compares with. Section 7 and the sections without "
    "a number go beyond the paper."
)

WORDS: tuple[tuple[str, str], ...] = (
    ("sq", "Supervised quantization, the method of the paper and of this library: “ours”."),
    ("pq", "Product quantization, the usual way to make codes without labels."),
    ("comparison", "Ours next to all other methods, on one data set and at one length of the codes."),
    ("bits", "The length of a code. 16 bits are 2 bytes per item, 128 bits are 16 bytes."),
    ("learned codes", "Codes of items that were in the training set with their labels."),
    ("encoded codes", "Codes of items made from their vectors alone, without their labels."),
    (
        "euclidean ranking",
        "Items are sorted by the distance between their codes and the query, as published.",
    ),
    (
        "label ranking",
        "Items are sorted by the probability that they share a label with the query. This is the default of the library.",
    ),
    ("joint, alternating", "Two ways to solve for the same codes: ours, and the steps of the paper."),
    (
        "classifier",
        "It predicts a label for each item and stores that instead of a code: a mark to reach where labels are all that counts.",
    ),
    ("cell", "One measurement: a data set, a method, a length, a seed."),
    ("seed", "The number that decides how rows are divided. Several seeds show how much a result varies."),
    ("anchors", "Training rows with which vectors are compared to make features."),
)
"""Words and their meanings, in the order in which a reader meets them."""


WRITTEN = "Written by `supquant paper`"
"""An index page with these words was written by the program and may be replaced."""


@dataclass(frozen=True)
class Report:
    """The files of a report, and its first screen."""

    page: Path
    index: Path
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]
    headline: Headline


def render_report(folder: str | Path, out: str | Path) -> Report:
    """Write the report on the result files of a folder; the same files give the same bytes.

    Parameters
    ----------
    folder : path
        Holds `cells/`, `curves/`, `sweeps/`, `samples/` and `failed/`; the report names what is missing.
    out : path
        Gets `report.html`, which needs no other file, `README.md`, `figures/*.svg` and `tables/*.md`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = render_report(folder, folder)
    ...     report.page.name, report.headline.lead
    ('report.html', ('There is nothing to compare yet.',))
    """
    results, out = read_results(folder), Path(out)
    index_page = out / "README.md"
    if index_page.is_file() and WRITTEN not in index_page.read_text(encoding="utf-8"):
        raise InputError(f"{index_page} was not written by supquant; name another folder for the report")
    said, shown = headline(results), sections(results)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(opening=OPENING, scope=SCOPE, words=WORDS, headline=said, sections=shown, palette=PALETTE)
    )
    index = _index(said, shown)

    drawn = [figure for section in shown for part in section.parts for figure in part.figures]
    tables = _tables(shown)
    for name in ("figures", "tables"):
        (out / name).mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for figure in drawn:
        written.append(out / "figures" / f"{figure.name}.svg")
        written[-1].write_text(figure.svg, encoding="utf-8")
    for table in tables:
        (out / "tables" / f"{table.name}.md").write_text(table.markdown(), encoding="utf-8")
    (out / "report.html").write_text(page, encoding="utf-8")
    (out / "README.md").write_text(index, encoding="utf-8")
    return Report(
        out / "report.html",
        out / "README.md",
        tuple(written),
        tuple(out / "tables" / f"{table.name}.md" for table in tables),
        said,
    )


def _tables(shown: Sequence[Section]) -> list[Table]:
    return [table for section in shown for part in section.parts for table in part.tables]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("supquant_lab.paper", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = lambda text: Markup(
        re.sub(r"\*([^*]+)\*", r"<b>\1</b>", re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))
    )
    environment.filters["raw"] = Markup
    return environment


def _index(said: Headline, shown: Sequence[Section]) -> str:
    """Return the index page that a code host shows: the headline, the figures, links to the tables."""
    lines = [
        "# Results",
        (
            f"{WRITTEN} from the result files; do not edit. `supquant paper --render` makes report.html from the same "
            "files: the whole report on one page that needs no other file."
        ),
        *(text.replace("*", "**") for text in (OPENING, SCOPE)),
        "\n".join(f"- {sentence}" for sentence in filter(None, (*said.lead, said.with_paper))),
        "\n".join(f"- {sentence}" for sentence in (*said.stand_ins, *said.verdicts)),
        "| word | what it means |\n| --- | --- |\n"
        + "\n".join(f"| {word} | {text} |" for word, text in WORDS),
        "| | |\n| --- | --- |\n" + "\n".join(f"| {name} | {value} |" for name, value in said.facts),
    ]
    for section in shown:
        tables = _tables([section])
        pictures = [figure for part in section.parts for figure in part.figures]
        if tables or pictures:
            lines += [f"## {section.title}", *section.words]
        if section.name == "standing":
            lines += [table.markdown().strip() for table in tables]
            continue
        for part in section.parts if tables or pictures else ():
            if part.words or part.points:
                lines += [f"### {part.title}" if part.title else "", *part.words]
                lines.append("\n".join(f"- {point}" for point in part.points))
        if pictures:
            lines.append(
                "\n".join(
                    f'<img src="figures/{figure.name}.svg" width="430" alt="{escape(figure.alt)}">'
                    for figure in pictures
                )
            )
        if kept := [f"[{table.name}](tables/{table.name}.md)" for table in tables if table.kept]:
            lines.append(f"Tables: {', '.join(kept)}.")
        if long := [f"`tables/{table.name}.md`" for table in tables if not table.kept]:
            lines.append(f"`supquant paper --render` writes {', '.join(long)}.")
    return "\n\n".join(filter(None, lines)) + "\n"
