"""A source that every worker opens for itself: the path of its files, and the columns to read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from supquant.distributed.worker import Memory
from supquant.errors import InputTypeError
from supquant.sources import VectorSource, open_vectors
from supquant.sources.formats import files_of

__all__ = ["SourceFiles"]


@dataclass(frozen=True)
class SourceFiles:
    """Files of vectors, by a path that is the same for all workers.

    Attributes
    ----------
    path : str
        An absolute path of a file or a folder.
    vectors, labels, ids
        As in `open_vectors`.
    """

    path: str
    vectors: str | tuple[str, ...] | None = None
    labels: str | bool | None = None
    ids: str | bool | None = None
    state: str = ""  # of the files when the driver saw them: a worker opens changed files again

    @classmethod
    def of(cls, source: Any, vectors: str | Sequence[str] | None, labels: Any, ids: Any) -> SourceFiles:
        """Describe a source that was named by the user."""
        if not isinstance(source, str | os.PathLike):
            raise InputTypeError(
                f"expected the path of files that every worker can read, got a {type(source).__name__}"
            )
        for what, value in (("labels", labels), ("ids", ids)):
            if not isinstance(value, str | bool | None):
                raise InputTypeError(
                    f"{what} must be a column or a file that every worker can read, got a {type(value).__name__}"
                )
        columns = vectors if isinstance(vectors, str | None) else tuple(vectors)
        path = Path(source).absolute()
        statuses = [(str(file), file.stat()) for file in files_of(path)]
        state = repr([(name, each.st_size, each.st_mtime_ns) for name, each in statuses])
        return cls(str(path), columns, labels, ids, xxhash.xxh3_128_hexdigest(state.encode()))

    def open(self) -> VectorSource:
        """Open the files."""
        return open_vectors(self.path, self.vectors, self.labels, self.ids)

    def opened(self, memory: Memory) -> VectorSource:
        """Return the source as a worker has opened it; the worker opens it at its first use."""
        files, source = memory.get("source", (None, None))
        if files != self:
            source = self.open()
            memory["source"] = self, source
        assert isinstance(source, VectorSource)
        return source
