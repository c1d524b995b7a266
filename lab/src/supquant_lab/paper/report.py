"""Report: one page, its figures and tables as files, and an index page, all from a folder of result files."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant_lab.paper.drawing import PALETTE, Figure
from supquant_lab.paper.headline import Headline, headline
from supquant_lab.paper.results import read_results
from supquant_lab.paper.sections import sections
from supquant_lab.paper.words import OPENING, SCOPE, WORDS

if TYPE_CHECKING:
    from supquant_lab.paper.parts import Part, Section
    from supquant_lab.paper.tables import Table


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
        Gets `report.html`, which needs nothing beside it, `README.md`, `figures/*.svg` and `tables/*.md`.

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
    environment = _jinja()
    said, shown = headline(results), [_drawn(section) for section in sections(results)]
    page = environment.get_template("report.html.j2").render(
        opening=OPENING, scope=SCOPE, words=WORDS, headline=said, sections=shown, palette=PALETTE
    )
    index = _index(said, shown)

    drawn = [figure for section in shown for part in section.parts for figure in part.figures]
    tables = _tables([section.section for section in shown])
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


@dataclass(frozen=True)
class _DrawnPart:
    """A part with its figures drawn."""

    part: Part
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class _DrawnSection:
    """A section with its figures drawn."""

    section: Section
    parts: tuple[_DrawnPart, ...]


def _drawn(section: Section) -> _DrawnSection:
    parts = []
    for part in section.parts:
        drawn = (draw() for draw in part.figures)
        parts.append(_DrawnPart(part, tuple(figure for figure in drawn if figure is not None)))
    return _DrawnSection(section, tuple(parts))


def _tables(shown: list[Section]) -> list[Table]:
    return [table for section in shown for part in section.parts for table in part.tables]


def _jinja() -> Any:
    try:
        jinja = importlib.import_module("jinja2")
    except ImportError as error:
        raise InputError("the report's page needs jinja2: pip install 'supquant[lab]'") from error
    source = files("supquant_lab.paper").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = jinja.Environment(
        loader=jinja.DictLoader({"report.html.j2": source}),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markup = importlib.import_module("markupsafe").Markup
    environment.filters["prose"] = lambda text: markup(
        re.sub(r"\*([^*]+)\*", r"<b>\1</b>", re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))
    )
    environment.filters["raw"] = markup
    return environment


def _index(said: Headline, shown: list[_DrawnSection]) -> str:
    """Return the index page that a code host shows: the headline, the figures, links to the tables."""
    lines = [
        "# Results",
        (
            f"{WRITTEN} from the result files; do not edit. `supquant paper --render` makes report.html from the same "
            "files: the whole report on one page that needs nothing beside it."
        ),
        *(text.replace("*", "**") for text in (OPENING, SCOPE)),
        "\n".join(f"- {sentence}" for sentence in filter(None, (*said.lead, said.beside_paper))),
        "\n".join(f"- {sentence}" for sentence in (*said.stand_ins, *said.verdicts)),
        "| word | what it means |\n| --- | --- |\n"
        + "\n".join(f"| {word} | {text} |" for word, text in WORDS),
        "| | |\n| --- | --- |\n" + "\n".join(f"| {name} | {value} |" for name, value in said.facts),
    ]
    for drawn in shown:
        tables = _tables([drawn.section])
        pictures = [figure for part in drawn.parts for figure in part.figures]
        if tables or pictures:
            lines += [f"## {drawn.section.title}", *drawn.section.words]
        if drawn.section.name == "standing":
            lines += [table.markdown().strip() for table in tables]
            continue
        for part in drawn.section.parts if tables or pictures else ():
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
