"""Descriptors that Ctrl-C does not leave open."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["open_descriptor"]


@contextmanager
def open_descriptor(path: str | os.PathLike[str], flags: int) -> Iterator[int]:
    """Open a file or a folder for a `with` block, and yield its descriptor. It is closed whenever Ctrl-C comes.

    Parameters
    ----------
    path : str or path-like
        The file or folder.
    flags : int
        How it is opened, as in `os.open`.
    """
    opened: list[int] = []
    try:
        # Python looks for Ctrl-C after each call. This one call opens the file and also notes its number.
        opened.extend(map(os.open, [path], [flags]))
        yield opened[0]
    finally:
        for descriptor in opened:
            os.close(descriptor)
