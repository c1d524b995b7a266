"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supquant.cli.console import err, print_line
from supquant.errors import InputError
from supquant.kernels import use_device
from supquant.sources import VectorSource, open_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

Items = Annotated[
    Path,
    typer.Argument(
        help="Vectors: a Parquet, Arrow, CSV, JSON lines, .npy, .npz, HDF5, .fbin or .fvecs file, or a folder of such files.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(help="A model file written by `supquant fit`.", show_default=False)
]
IndexFolder = Annotated[
    Path, typer.Argument(help="A folder written by `supquant index`.", show_default=False)
]
Vectors = Annotated[
    str | None,
    typer.Option(
        help="Column of the vectors, or a pattern such as 'x*' for columns of numbers; array of an .npz file."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Column of the labels, or a file of labels. A blank label is unknown."),
]
UnknownLabels = Annotated[
    str,
    typer.Option(
        help="Labels that the model does not know: error refuses them, ignore takes their items as items without a label, "
        "extend adds them to the model of the index."
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        help="Column of the ids, integers or strings, or a file of ids. By default a column `id`, or 0, 1, ..."
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to store with the codes; may be repeated; '*' stores all. Or a file of columns."
    ),
]
Ranking = Annotated[str | None, typer.Option(help="A ranking of the model; its first one by default.")]
Jobs = Annotated[int | None, typer.Option(help="Number of threads; all cores by default.")]
Device = Annotated[
    str,
    typer.Option(
        help="Where the work is done: cpu, cuda for an NVIDIA GPU, or auto for a GPU if there is one."
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the method's estimator, as name=value; may be repeated."),
]


def choose_device(name: str) -> None:
    """Let this process work on a device; raise an error in one line if it cannot."""
    chosen: Any = name
    use_device(chosen)


def open_items(
    items: Path,
    vectors: str | None = None,
    labels: str | bool | None = None,
    ids: str | bool | None = None,
    metadata: list[str] | None = None,
) -> VectorSource:
    """Open the vectors that a command was given, and print what was guessed."""
    kept: Any = metadata[0] if metadata is not None and len(metadata) == 1 else metadata
    source = open_vectors(items, vectors, labels, ids, True if kept == "*" else kept)
    for note in source.notes:
        print_line(note, err)
    return source


def check_ids(source: VectorSource) -> None:
    """Raise an `InputError` if an index cannot have these ids, before the long work begins."""
    from supquant.index.ids import read_ids  # noqa: PLC0415  # only needed here, and slow to import

    if source.ids is not None:
        read_ids(source.ids, distinct=True)


def read_parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the parameters in texts name=value; a value that is not JSON is a string.

    Examples
    --------
    >>> read_parameters(["ridge=0.1", "solver=joint"])
    {'ridge': 0.1, 'solver': 'joint'}
    """
    return dict(map(_parameter, texts or ()))


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"a parameter is given as name=value, such as ridge=0.1; got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
