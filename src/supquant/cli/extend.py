"""`supquant extend`: add classes to a model file or an index, from a few labelled rows of each."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.arrays import Array
from supquant.cli.console import err, print_line
from supquant.cli.ending import writing
from supquant.cli.files import check_output, check_parent, has_columns
from supquant.cli.index import change_folder, ids_in_kind_of, labels_shown, save
from supquant.cli.options import Ids, Labels, open_items
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.index.ids import name_some, read_ids
from supquant.index.unknown_labels import check_extensible
from supquant.models import load_model
from supquant.sources import VectorSource, is_file_name, read_labels_by_id

app = typer.Typer()


@app.command()
def extend(
    *,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_OR_INDEX",
            help="A model file written by `supquant fit`, or a folder written by `supquant index`.",
            show_default=False,
        ),
    ],
    items: Annotated[
        Path,
        typer.Argument(
            metavar="NEW_ITEMS",
            help="Vectors with labels of the new classes; or, with --vectors FILE, a table of ids and labels.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The model file or the folder to write. By default the model or the index itself is changed.",
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            help="Column of the vectors, or a pattern such as 'x*' for columns of numbers; or a file of vectors with ids, which "
            "has the items that NEW_ITEMS names."
        ),
    ] = None,
    labels: Labels = None,
    ids: Ids = None,
    by_id: Annotated[
        bool,
        typer.Option(
            "--by-id",
            help="NEW_ITEMS is a table of ids and labels of items of the index: learn from their codes, without vectors.",
        ),
    ] = False,
) -> None:
    """Add classes to a model or an index, from a few labelled rows of each. No code changes."""
    if by_id:
        if vectors is not None or not path.is_dir():
            raise InputError("--by-id learns from the codes of an index: name an index, and no --vectors")
        _extend_by_codes(path, items, output, labels, ids)
    elif path.is_dir():
        _extend_index(path, items, output, vectors, labels, ids)
    else:
        _extend_model(path, items, output, vectors, labels, ids)


def _extend_model(path: Path, items: Path, output: Path | None, *columns: str | None) -> None:
    check_output(output or path)
    model: Any = load_model(path)
    before = model.codec_
    check_extensible(before)
    X, y, _ = _read_labelled(items, *columns)
    model.extend(X, y)
    with writing(output or path):
        model.save(output or path)
    _print_added(path, output, before, model.codec_, y)


def _extend_index(path: Path, items: Path, output: Path | None, *columns: str | None) -> None:
    index = _open_index(path, output)
    X, y, named = _read_labelled(items, *columns)
    if named is not None:
        index.codes(ids_in_kind_of(index, named, str(items)))  # ids that are not in the index are refused
    _save_extended(path, output, index, lambda before: _extended(before, X, y), y)


def _extend_by_codes(
    path: Path, items: Path, output: Path | None, labels: str | None, ids: str | None
) -> None:
    index = _open_index(path, output)
    named, y, notes = read_labels_by_id(items, labels, ids)
    for note in notes:
        print_line(note, err)
    wanted = ids_in_kind_of(index, named, str(items))
    _save_extended(path, output, index, lambda before: copy.copy(before).extend(wanted, y), y)


def _open_index(path: Path, output: Path | None) -> CodeIndex:
    """Return the index of a folder, after a check that it can be extended and written to `output`."""
    index = CodeIndex.load(path)
    check_extensible(index.codec)
    if output is not None:
        check_parent(output)
        if output.exists():
            raise InputError(f"{output} exists already: name a new folder")
    return index


def _save_extended(
    path: Path, output: Path | None, index: CodeIndex, extend: Callable[[CodeIndex], CodeIndex], y: Any
) -> None:
    if output is not None:
        extended = extend(index)
        save(extended, output)
    else:
        extended = change_folder(path, extend)
    _print_added(path, output, index.codec, extended.codec, y)


def _extended(index: CodeIndex, X: Array, y: Array) -> CodeIndex:
    codec: Any = index.codec
    return index.with_codec(codec.extended(X, y))


def _read_labelled(
    items: Path, vectors: str | None, labels: str | None, ids: str | None
) -> tuple[Array, Any, Array | None]:
    """Return the vectors (n, p) and labels (n,) of new rows; and their ids, if these name vectors in another file."""
    if vectors is None or not is_file_name(vectors):
        source = open_items(items, vectors, labels or True, False if ids is None else ids)
        return source.X, source.labels, None
    named, y, notes = read_labels_by_id(items, labels, ids)
    for note in notes:
        print_line(note, err)
    # Rows of a table must have ids, but those of an array are numbered, as in an index.
    source = open_items(Path(vectors), ids=has_columns(Path(vectors)) or None)
    return _vectors_named(source, named), y, named


def _vectors_named(source: VectorSource, ids: Array) -> Array:
    """Return the vectors (n, p) of a source with some ids (n,). Without ids in the source, they are row numbers."""
    present = np.arange(len(source)) if source.ids is None else source.ids
    if present.dtype.kind == "O" and ids.dtype.kind in "iu":
        ids = ids.astype(str).astype(object)
    if present.dtype.kind in "iu" and ids.dtype.kind == "O":
        raise InputError(f"the ids of {source.name} are integers, but those of the labels are strings")
    wanted = read_ids(ids, distinct=True)
    rows = read_ids(present, distinct=True).find(wanted)
    if (missing := np.flatnonzero(rows < 0)).size:
        raise InputError(f"{source.name} has no vectors with these ids: {name_some(wanted.take(missing))}")
    X = np.empty((len(rows), source.dim), dtype=source.dtype)
    for block in source.blocks():
        here = (rows >= block.start) & (rows < block.start + len(block))
        X[here] = block.X[rows[here] - block.start]
    return X


def _print_added(path: Path, output: Path | None, before: Any, after: Any, y: Any) -> None:
    added = after.classes[len(before.classes) :].tolist()
    counts = Counter(y.ravel().tolist())
    rows = [counts[label] for label in added]
    if n_left := len(y) - sum(rows):
        print_line(f"{n_left:,} row{'s have' if n_left > 1 else ' has'} no label and add nothing.", err)
    notes = [f"{n:,} row{'s' * (n != 1)}" for n in rows]
    print_line(
        f"Added {len(added):,} class{'es' * (len(added) > 1)} to {path if output is None else output}: "
        f"{labels_shown(added, notes)}."
    )
    print_line(
        f"It knows {len(after.classes):,} classes." + ("" if output is None else f" {path} is as it was.")
    )
