"""Report: what a section is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supquant_lab.paper.drawing import Figure
    from supquant_lab.paper.tables import Table


@dataclass(frozen=True)
class Part:
    """A part of a section.

    Attributes
    ----------
    title : str
    words : tuple of str
        Paragraphs.
    points : tuple of str
        Entries of a list.
    figures : tuple of callables
        Each draws a figure, or returns None if there is nothing to draw.
    tables : tuple of Table
    folded : bool
        Whether the tables are hidden until the reader opens them.
    samples : mapping, optional
        Sample queries with their answers, as a samples file has them.
    missing : tuple of str
        Commands that measure what is missing.
    """

    title: str = ""
    words: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[Callable[[], Figure | None], ...] = ()
    tables: tuple[Table, ...] = ()
    folded: bool = False
    samples: Mapping[str, Any] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of the report; `name` is that of its anchor on the page."""

    name: str
    title: str
    words: tuple[str, ...]
    parts: tuple[Part, ...]
