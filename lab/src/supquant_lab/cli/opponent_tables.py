"""Report: the tables of a page, rendered from records between two comments of the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import Any

from supquant.errors import InputError
from supquant_lab.bench.opponents.plan import BITS, COMPARED, DATA, PROTOCOLS, REFERENCES
from supquant_lab.table import markdown_lines

BEGIN, END = "<!-- tables of records: begin -->", "<!-- tables of records: end -->"
"""The comments around the tables."""

HEADINGS: Mapping[str, str] = {
    "open": "Known and new classes, items without labels (`open`): MAP of queries of known / new classes",
    "unlabelled": "Known classes, items without labels (`unlabelled`): MAP",
    "unseen": "New classes alone (`unseen`): MAP",
    "paper": "Known classes, items with labels (`paper`): MAP",
}
"""The heading of the table of each protocol."""

SMALL = 8
"""Methods of at most this number of bytes per item are compared with each other, and so are those of more."""

Column = tuple[str, int | None]
"""A data set and the number of rows that were drawn from it."""

Figures = dict[str, list[float]]
"""The figures of all seeds, by name."""

Cells = Mapping[tuple[str, Column], Figures]
"""The figures of all methods on all data sets of a protocol."""

OURS = REFERENCES[0]

QUERIES: Mapping[tuple[str, str], str] = {
    ("open", "map_known"): "known and new classes (`open`), queries of known ones",
    ("open", "map_new"): "known and new classes (`open`), queries of new ones",
    ("unlabelled", "map"): "known classes, items without labels (`unlabelled`)",
    ("unseen", "map"): "new classes alone (`unseen`)",
    ("paper", "map"): "known classes, items with labels (`paper`)",
}
"""What queries and items are, by protocol and figure."""


def rendered(page: str, records: Iterable[Mapping[str, Any]]) -> str:
    r"""Return the page with the tables of records between its two comments.

    Examples
    --------
    >>> print(rendered(f"Before.\n{BEGIN} old {END}\nAfter.", []))
    Before.
    <!-- tables of records: begin -->
    <BLANKLINE>
    Seeds of the splits: none.
    <BLANKLINE>
    <!-- tables of records: end -->
    After.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"the page has no place for tables: a line {BEGIN!r}, and a line {END!r} after it")
    return f"{before}{BEGIN}\n\n{tables(records)}\n\n{END}{after}"


def compared(records: Iterable[Mapping[str, Any]], *, lost: bool = False) -> str:
    """Return a table of our figures and those of the best other methods, of which all that are better than ours are bold.

    A row is a data set and a kind of queries. It is left out if it has no figures of ours, or of no other method. With `lost`, it
    is also left out if no other method is better.
    """
    rows = []
    usual = {protocol: cells for (protocol, bits), cells in _by_protocol(records).items() if bits == BITS}
    for protocol in (name for name in PROTOCOLS if name in usual):
        table = _Table(protocol, BITS, usual[protocol])
        for field, column in product(table.fields, table.columns):
            measured = [name for name in table.methods if (name, column) in table.cells]
            if OURS not in measured or len(measured) == 1:
                continue
            best = [table.best_text(column, field, is_small=is_small) for is_small in (True, False)]
            if not lost or any("**" in text for text in best):
                ours = table.text(OURS, column, field)
                rows.append([QUERIES[protocol, field], _title(column), ours, *best])
    few = f"best other of at most {SMALL} bytes"
    header = ["queries and items", "data", "supquant, 8 bytes", few, "best other of more bytes"]
    return markdown_lines(header, rows) if rows else ""


def tables(records: Iterable[Mapping[str, Any]]) -> str:
    """Return a table for each protocol and code length, in Markdown: means over seeds.

    The best of a column is bold: once among methods of at most `SMALL` bytes, once among the others.
    """
    records = list(records)
    found = _by_protocol(records)
    seeds = sorted({record["seed"] for record in records})
    order = sorted(found, key=lambda key: (key[1] != BITS, key[1], PROTOCOLS.index(key[0])))
    parts = [_Table(protocol, bits, found[protocol, bits]).markdown() for protocol, bits in order]
    return "\n\n".join([f"Seeds of the splits: {', '.join(map(str, seeds)) or 'none'}.", *parts])


def _by_protocol(records: Iterable[Mapping[str, Any]]) -> Mapping[tuple[str, int], Cells]:
    """Return the figures of cells by protocol and code length."""
    found: dict[tuple[str, int], dict[tuple[str, Column], Figures]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for record in records:
        column = record["data"], record["rows"]
        for name, value in record["figures"].items():
            found[record["protocol"], record["bits"]][record["method"], column][name].append(value)
    return found


def _title(column: Column) -> str:
    name, rows = column
    return name if rows is None else f"{name}, {rows:,} rows"


@dataclass
class _Table:
    """The table of one protocol and code length."""

    protocol: str
    bits: int
    cells: Cells

    @property
    def fields(self) -> tuple[str, ...]:
        """The figures that are shown of a cell."""
        return ("map_known", "map_new") if self.protocol == "open" else ("map",)

    @cached_property
    def columns(self) -> list[Column]:
        """The data sets, in the order of the plan."""
        order = list(DATA)
        found = {column for _, column in self.cells}
        return sorted(
            found,
            key=lambda column: (order.index(column[0]) if column[0] in order else len(order), column[1] or 0),
        )

    @cached_property
    def methods(self) -> list[str]:
        """The methods in the order of the plan, small ones first."""
        found = {method for method, _ in self.cells}
        return sorted((name for name in COMPARED if name in found), key=lambda name: not self.is_small(name))

    def markdown(self) -> str:
        """Return the heading and the table."""
        titles = [_title(column) for column in self.columns]
        times = (f"{self.columns[0][0]}: tuning, s", "fit, s", "encoding, µs per item")
        lines = [
            [
                f"`{method}`",
                self.bytes_text(method),
                *(self.quality_text(method, column) for column in self.columns),
                *self.time_texts(method),
            ]
            for method in self.methods
        ]
        table = markdown_lines(["method", "bytes", *titles, *times], lines, numbers=True)
        length = "" if self.bits == BITS else f", codes of {self.bits // 8} bytes"
        return f"### {HEADINGS[self.protocol]}{length}\n\n{table}"

    def bytes_of(self, method: str) -> list[float]:
        """Return the bytes of an item by data set."""
        return [
            fmean(figures["bytes_per_item"]) for (name, _), figures in self.cells.items() if name == method
        ]

    def is_small(self, method: str) -> bool:
        """Whether items have at most `SMALL` bytes, whatever the data set."""
        return max(self.bytes_of(method)) <= SMALL

    def bytes_text(self, method: str) -> str:
        """Return the bytes, from the fewest to the most."""
        least, most = min(self.bytes_of(method)), max(self.bytes_of(method))
        return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"

    def quality_text(self, method: str, column: Column) -> str:
        """Return the figures of a cell, those that are the best of their column in bold."""
        if (method, column) not in self.cells:
            return "-"
        texts = []
        for field in self.fields:
            rivals = [
                self.text(name, column, field)
                for name in self.methods
                if (name, column) in self.cells and self.is_small(name) == self.is_small(method)
            ]
            text = self.text(method, column, field)
            texts.append(f"**{text}**" if text == max(rivals) else text)
        return " / ".join(texts)

    def best_text(self, column: Column, field: str, *, is_small: bool) -> str:
        """Return the best other method of few or of many bytes and its figure, bold if it is better than ours; or a dash."""
        figures = {
            name: self.text(name, column, field)
            for name in self.methods
            if name != OURS and (name, column) in self.cells and self.is_small(name) == is_small
        }
        if not figures:
            return "-"
        name = max(figures, key=figures.__getitem__)
        text = f"`{name}` {figures[name]}"
        return f"**{text}**" if figures[name] > self.text(OURS, column, field) else text

    def text(self, method: str, column: Column, field: str) -> str:
        """Return the mean over seeds with three decimals. Texts of fractions are in the order of the fractions."""
        return f"{fmean(self.cells[method, column][field]):.3f}".removeprefix("0")

    def time_texts(self, method: str) -> list[str]:
        """Return the times on the first data set."""
        figures = self.cells.get((method, self.columns[0]))
        if figures is None:
            return ["-"] * 3
        tuning, fit, encoding = (
            fmean(figures[name]) for name in ("tune_seconds", "fit_seconds", "encode_us")
        )
        return [f"{tuning:.0f}" if tuning >= 0.5 else "-", f"{fit:.1f}", f"{encoding:,.0f}"]
