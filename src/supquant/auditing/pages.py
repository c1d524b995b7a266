"""Findings to pages: what all pages share, their style, and the pictures and texts of rows."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

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


def render(template: str, **values: Any) -> str:
    """Return a page, made from one of the templates next to this file. The extra ``supquant[audit]`` brings jinja2."""
    from jinja2 import Environment  # noqa: PLC0415  # an extra
    from markupsafe import Markup  # noqa: PLC0415  # comes with it

    def breakable(label: Any) -> Markup:
        """Return a label that a browser may break after its hyphens, dots and the like."""
        return Markup("<wbr>").join(re.split(r"(?<=[_/.:-])", str(label)))

    folder = files("supquant.auditing")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = breakable
    page = environment.from_string((folder / template).read_text(encoding="utf-8"))
    return page.render(style=Markup((folder / "page.css").read_text(encoding="utf-8")), **values)


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
