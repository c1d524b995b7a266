"""`supquant add`, `update` and `remove`: change the items of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import print_line
from supquant.cli.index import IndexFolder, Jobs, change_saved, collected, ids_for, in_kind_of
from supquant.cli.items import Ids, Items, Labels, Metadata, Vectors, open_items
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.sources import read_id_file, typed_texts

app = typer.Typer()


@app.command()
def add(
    *,
    folder: IndexFolder,
    items: Items,
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    metadata: Metadata = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Update items whose ids are in the index already.")
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Encode items and add them to an index. Other processes may add to it at the same time."""
    index = CodeIndex.load(folder)
    source = open_items(items, vectors, labels, ids, metadata)
    names, kept = ids_for(index, source), source.metadata
    if replace and names is None:
        raise InputError("--replace needs ids: name their column with --ids")
    if not replace:
        index._check_new(names)
    codes = collected(index.codec, source, jobs)
    index = change_saved(
        folder,
        lambda saved: (
            saved.upsert_codes(names, codes, metadata=kept)
            if replace
            else saved.add_codes(codes, names, metadata=kept)
        ),
        index.codec,
    )
    print_line(f"Added {len(source):,} items to {folder}: {len(index):,} items.")


@app.command()
def update(
    *,
    folder: IndexFolder,
    items: Items,
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    metadata: Metadata = None,
    jobs: Jobs = None,
) -> None:
    """Encode items of an index anew. Each keeps its id and its place."""
    index = CodeIndex.load(folder)
    source = open_items(items, vectors, labels, True if ids is None else ids, metadata)
    names, kept = ids_for(index, source), source.metadata
    index.codes(names)  # those that are not there are refused before the work
    codes = collected(index.codec, source, jobs)
    change_saved(folder, lambda saved: saved.update_codes(names, codes, metadata=kept), index.codec)
    print_line(f"Updated {len(source):,} items of {folder}.")


@app.command()
def remove(
    *,
    folder: IndexFolder,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of the items to remove.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--ids", help="A file of ids: .txt, .csv, .npy, .npz or .parquet.")
    ] = None,
) -> None:
    """Remove items from an index, by their ids."""
    if bool(ids) == (file is not None):
        raise InputError("give the ids to remove, or a file of them with --ids")
    found = read_id_file(file) if file is not None else typed_texts(ids or [])
    index = change_saved(
        folder, lambda saved: saved.remove(in_kind_of(saved, found, str(file or "the command"))), None
    )
    print_line(f"Removed {len(found):,} items from {folder}: {len(index):,} items are left.")
