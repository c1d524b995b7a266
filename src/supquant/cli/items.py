"""Arguments of the commands that read vectors: the file or folder, and its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_line
from supquant.sources import VectorSource, open_vectors

__all__ = ["Ids", "Items", "Labels", "Metadata", "Vectors", "check_ids", "open_items"]

Items = Annotated[
    Path,
    typer.Argument(
        help="Vectors: a Parquet, Arrow, CSV, JSON lines, .npy, .npz, HDF5, .fbin or .fvecs file, or a folder of such files.",
        show_default=False,
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        help="Column of the vectors, or a pattern such as 'x*' for columns of numbers; array of an .npz file."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Column of the labels, or a file of labels. A blank one is unknown."),
]
Ids = Annotated[
    str | None,
    typer.Option(
        help="Column of the ids, whole numbers or strings, or a file of ids. By default a column `id`, or 0, 1, ..."
    ),
]

Metadata = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to keep beside the codes. Give it again for each column; '*' keeps all. Or a file of columns."
    ),
]


def open_items(
    items: Path,
    vectors: str | None = None,
    labels: str | bool | None = None,
    ids: str | bool | None = None,
    metadata: list[str] | None = None,
) -> VectorSource:
    """Open the vectors that a command was given, and say what was guessed."""
    kept: Any = metadata[0] if metadata is not None and len(metadata) == 1 else metadata
    source = open_vectors(items, vectors, labels, ids, True if kept == "*" else kept)
    for note in source.notes:
        print_line(note, err)
    return source


def check_ids(source: VectorSource) -> None:
    """Raise an `InputError` if the ids cannot be those of an index, so that this is known before a long fit."""
    from supquant.index.ids import read_ids  # noqa: PLC0415  # only needed here, and slow to import

    if source.ids is not None:
        read_ids(source.ids, distinct=True)
