"""Findings to pages: an audit as one HTML page that needs no other file."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from supquant.auditing.findings import Audit

MAX_SHOWN = 200
"""The page shows at most this number of findings of a kind. The tables of an `Audit` hold all of them."""

LOOKED_AT = 50
"""Rows of a column that are looked at to see what it holds."""

MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes of the formats of pictures that a browser shows."""

MIN_LETTERS = 12
"""A column of texts has at least this many letters on average; shorter ones are names or labels."""

TITLES = {
    "label": (
        "Labels that look wrong",
        "The most doubtful first. Neither the classifier nor the nearest rows agree with them.",
    ),
    "missing": ("Labels that look forgotten", "Rows that look as if they had one more label."),
    "unlabelled": ("Labels for rows without one", "What the rows look like, the most certain first."),
    "duplicate": (
        "Rows that occur more than once",
        "Equal or nearly equal rows. Groups whose labels differ come first.",
    ),
    "strange": ("Rows that look like no class", "They lie alone, or no class is likely."),
    "confused": ("Classes that are confused", "The share of the rows of one class that look like the other."),
    "two": ("Classes that look like two", "Their rows fall into two parts with few rows between."),
}
"""Heading of every kind of findings, and a sentence that explains it."""


def audit_page(found: Audit, metadata: Any = None, title: str = "Audit") -> str:
    """Return the page of an audit.

    Parameters
    ----------
    found : Audit
    metadata : pyarrow.Table or None, default=None
        Columns of the rows. Pictures and texts among them are shown.
    title : str, default="Audit"

    Returns
    -------
    str
        HTML. The extra ``supquant[audit]`` brings jinja2, which makes it.
    """
    from jinja2 import Environment  # noqa: PLC0415  # an extra

    shown = Shown.of(metadata)
    sections = []
    for kind, (heading, meaning) in TITLES.items():
        findings = found.of_kind(kind)
        if len(findings):
            lines = [_line(finding, shown) for finding in findings[:MAX_SHOWN]]
            sections.append(
                {"kind": kind, "heading": heading, "meaning": meaning, "count": len(findings), "lines": lines}
            )
    template = (files("supquant.auditing") / "report.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(template)
    classes = [
        dict(zip(found.classes.dtype.names or (), line, strict=True)) for line in found.classes.tolist()
    ]
    classes.sort(key=lambda each: each["recall"])
    return page.render(
        title=title,
        found=found,
        sections=sections,
        classes=classes[:MAX_SHOWN],
        has_pictures=shown.pictures is not None,
        has_texts=shown.texts is not None,
    )


def _line(finding: Any, shown: Shown) -> dict[str, Any]:
    """Return the columns of a finding, with the picture and the text of its row; what is not a number is None."""
    values = {name: finding[name] for name in finding.dtype.names}
    line = {
        name: None if isinstance(value, float | np.floating) and np.isnan(value) else value
        for name, value in values.items()
    }
    row = int(finding["row"])
    if row >= 0:
        line |= {"picture": shown.picture(row), "text": shown.text(row)}
    return line


@dataclass(frozen=True, eq=False)
class Shown:
    """The columns of a table that show what a row is."""

    pictures: Any = None  # a column of bytes, or of {"bytes": ...} as the package datasets has them; None if there is none
    texts: Any = None

    @classmethod
    def of(cls, table: Any) -> Shown:
        r"""Find the first column of pictures and the column of the longest texts in a `pyarrow.Table`, or None.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"id": [1], "words": ["a text that is long enough"], "view": [b"\x89PNG..."]})
        >>> shown = Shown.of(table)
        >>> shown.text(0), shown.picture(0)[:22]
        ('a text that is long enough', 'data:image/png;base64,')
        """
        pictures, texts, longest = None, None, float(MIN_LETTERS)
        for column in () if table is None else table.columns:
            values = [value for value in column.slice(0, LOOKED_AT).to_pylist() if value is not None]
            if pictures is None and values and all(_media_type(_bytes(value)) for value in values):
                pictures = column
            if values and all(isinstance(value, str) for value in values):
                letters = sum(map(len, values)) / len(values)
                if letters >= longest:
                    texts, longest = column, letters
        return cls(pictures, texts)

    def picture(self, row: int) -> str | None:
        """Return the picture of a row as a data URI, or None."""
        data = b"" if self.pictures is None else _bytes(self.pictures[row].as_py())
        media_type = _media_type(data)
        return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else None

    def text(self, row: int) -> str | None:
        """Return the text of a row, or None."""
        return None if self.texts is None else self.texts[row].as_py()


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        value = value.get("bytes")
    return value if isinstance(value, bytes) else b""


def _media_type(data: bytes) -> str | None:
    return next((kind for start, kind in MAGIC.items() if data.startswith(start)), None)
