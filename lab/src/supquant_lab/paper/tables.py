"""Report: tables before they become HTML or Markdown; every number names the cells that it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from supquant_lab.table import map_text, markdown_lines

if TYPE_CHECKING:
    from supquant_lab.paper.results import Cell, Mean

MISSING = "\N{EN DASH}"
"""The text of a number that was not measured."""

CUT_SHORT = "†"
"""The mark of a number whose fit stopped at the time limit."""

TRUNCATED = f"{CUT_SHORT} A fit of this number stopped at the time limit."
"""The note that explains `CUT_SHORT`."""


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes
    ----------
    text, note : str
        The note follows the text in smaller letters.
    data : mapping
        Attributes of the HTML element: the number in full, and the cells that it comes from.
    kind : str
        Classes of the HTML element: `best`, `first`, `behind`, `missing`, `words`, `code`.
    span : int
        The number of columns that it fills.
    """

    text: str
    note: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    span: int = 1

    def markdown(self) -> str:
        """Return the text and the note in Markdown.

        Examples
        --------
        >>> Entry(".97", "±.01", kind="best").markdown(), Entry("sq", "MNIST").markdown()
        ('**.97** ±.01', 'sq (MNIST)')
        """
        kinds = set(self.kind.split())
        text = self.text.replace("|", "\\|")
        text = f"`{text}`" if "code" in kinds else text.replace("<", "&lt;")
        text = f"**{text}**" if {"best", "first"} & kinds else text
        if self.note:
            text += f" {self.note}" if self.note.startswith("±") else f" ({self.note})"
        return text + " |" * (self.span - 1)


@dataclass(frozen=True)
class Row:
    """A row: its head, then its entries."""

    head: Entry
    entries: Sequence[Entry]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a name, which is also that of its file, a caption and notes.

    Attributes
    ----------
    groups : sequence of Entry
        A line above the header that names groups of columns; may be empty.
    notes : sequence of str
        Sentences below the table. The note on `CUT_SHORT` is added where it is needed.
    kept : bool, default=True
        Whether its file is small enough to be kept in the repository, where the index page links to it.
    """

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Row]
    groups: Sequence[Entry] = ()
    notes: Sequence[str] = ()
    kept: bool = True

    @property
    def all_notes(self) -> list[str]:
        """The notes, and the one on `CUT_SHORT` if some entry has the mark."""
        marked = any(entry.text.endswith(CUT_SHORT) for row in self.rows for entry in row.entries)
        return [*self.notes, *([TRUNCATED] if marked else [])]

    def markdown(self) -> str:
        """Return the table in Markdown, the caption above it and the notes below.

        Examples
        --------
        >>> print(Table("t", "A table.", ["method", "16 bits"], [Row(Entry("sq"), [Entry(".97")])]).markdown())
        A table.
        <BLANKLINE>
        | method | 16 bits |
        | --- | ---: |
        | sq | .97 |
        <BLANKLINE>
        """
        header = list(self.header)
        if self.groups:
            over = [group.text for group in self.groups for _ in range(group.span)]
            header = [": ".join(filter(None, pair)) for pair in zip(over, header, strict=True)]
        lines = [[entry.markdown() for entry in (row.head, *row.entries)] for row in self.rows]
        body = markdown_lines(header, lines, numbers=True)
        return "\n\n".join([self.caption, body, *self.all_notes]) + "\n"


def number(mean: Mean | None, form: str = "map", kind: str = "") -> Entry:
    """Return the entry of a mean over seeds, with its half range and its cells."""
    if mean is None:
        return Entry(MISSING, kind="missing")
    spread = mean.half_range
    data = {**identity(mean.cells[0]), **source(mean.field, mean.cells, mean.value)}
    if spread is not None:
        data["spread"] = repr(spread)
    note = "" if spread is None or form != "map" else f"±{write(spread, form)}"
    marked = CUT_SHORT if mean.truncated else ""
    return Entry(write(mean.value, form) + marked, note, data, kind)


def identity(cell: Cell) -> dict[str, str]:
    """Return the attributes that identify a cell, without its seed."""
    names = ("dataset", "method", "bits", "protocol", "ranking")
    solver = cell["parameters"].get("solver")
    return {
        **{name: str(cell[name]) for name in names},
        **({"solver": str(solver)} if solver else {}),
        "series": cell.series.label,
    }


def source(figure: str, cells: Sequence[Cell], value: float) -> dict[str, str]:
    """Return the attributes that name the field and the cells of a number, and the number in full."""
    return {
        "figure": figure,
        "cells": json.dumps([cell.name for cell in cells]),
        "seeds": " ".join(str(cell["seed"]) for cell in cells),
        "value": repr(value),
    }


def write(value: float, form: str = "map") -> str:
    """Return a number as text, in one of the forms of the report.

    Examples
    --------
    >>> write(0.93291), write(1.0), write(52023, "count"), write(0.4811, "ms"), write(2.0, "bytes")
    ('.9329', '1.0000', '52,023', '0.481', '2')
    >>> write(114.97, "seconds"), write(1e-07, "power"), write(7300, "time")
    ('115.0', '1e-07', '2 h 2 min')
    """
    return _FORMS[form](value)


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_FORMS: Mapping[str, Any] = {
    "map": map_text,
    "ms": lambda value: f"{value:.3f}",
    "count": lambda value: f"{value:,.0f}",
    "bytes": lambda value: f"{value:,.0f}" if value == int(value) else f"{value:,.1f}",
    "seconds": lambda value: f"{value:,.1f}",
    "power": lambda value: f"{value:.0e}",
    "objective": lambda value: f"{value:,.6g}",
    "time": _time,
}
