"""Files of the system by their number, which are closed whenever Ctrl-C comes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
