"""Report: pictures of figures, in files that are small enough to keep with the text."""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

COLOURS = 128
"""The size of the palette. Lines, and the edges of letters, need no more; three bytes per pixel take three times the space."""


def save_picture(figure: Any, path: str | Path, *, dpi: int) -> None:
    """Save a Matplotlib figure as a .png file with a palette."""
    images = importlib.import_module("PIL.Image")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    with images.open(drawn) as picture:
        palette = picture.convert("RGB").quantize(COLOURS, dither=images.Dither.NONE)
    palette.save(path, format="png", optimize=True, dpi=(dpi, dpi))
