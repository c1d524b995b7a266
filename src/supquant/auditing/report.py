"""Findings to pages: an audit as one HTML page that needs no other file."""

from __future__ import annotations

from typing import Any

import numpy as np

from supquant.auditing.findings import Audit
from supquant.auditing.pages import Shown, render

MAX_SHOWN = 200
"""The page shows at most this number of findings of a kind. The tables of an `Audit` hold all of them."""

TITLES = {
    "label": (
        "Labels that look wrong",
        "As many as seem to be wrong, the surest first. They are unusual for rows like these.",
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
    shown = Shown.of(metadata)
    sections = []
    for kind, (heading, meaning) in TITLES.items():
        findings = found.of_kind(kind)
        if len(findings):
            lines = [_line(finding, shown) for finding in findings[:MAX_SHOWN]]
            sections.append(
                {"kind": kind, "heading": heading, "meaning": meaning, "count": len(findings), "lines": lines}
            )
    classes = [
        dict(zip(found.classes.dtype.names or (), line, strict=True)) for line in found.classes.tolist()
    ]
    classes.sort(key=lambda each: each["recall"])
    return render(
        "report.html.j2",
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
