"""`supquant index`, `search`, `add`, `update` and `remove`: write an index of vectors, search it and change it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.arrays import Codes
from supquant.cli.console import err, print_facts, print_line, print_table, progress_bars
from supquant.cli.ending import writing
from supquant.cli.files import (
    ANSWER_FILES,
    check_output,
    check_parent,
    check_space,
    write_answers,
    write_table,
)
from supquant.cli.options import (
    Device,
    Ids,
    IndexFolder,
    Items,
    Jobs,
    Labels,
    Metadata,
    ModelFile,
    Ranking,
    UnknownLabels,
    Vectors,
    check_ids,
    choose_device,
    open_items,
)
from supquant.errors import InputError, SaveConflictError
from supquant.index import CodeIndex
from supquant.index.files import MANIFEST, read_replaceable
from supquant.index.local import CodecStep
from supquant.index.searchable import Change
from supquant.index.unknown_labels import (
    ItemLabels,
    bytes_of_vectors,
    classes_of,
    read_codes_of,
    read_item_labels,
)
from supquant.index.vectors import CodedRows, VectorKind, join_vectors
from supquant.models import load_model
from supquant.progress import Reporter
from supquant.sources import Block, VectorSource, read_id_file, typed_texts

app = typer.Typer()

SHOWN_QUERIES = 3
"""Without an output file, the answers to this number of queries are printed."""

SHOWN_LABELS = 8
"""At most this number of labels is printed."""

SHOWN_LETTERS = 40
"""At most this number of letters of a column's value are printed."""

ID_FILES = (".npy", ".npz", ".txt", ".csv", ".parquet")
"""Files of ids have one of these endings."""


@app.command("index")
def make_index(
    *,
    model: ModelFile,
    items: Items,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")] = Path(
        "items.index"
    ),
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    metadata: Metadata = None,
    append: Annotated[bool, typer.Option("--append", help="Add to an index that exists.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an index that exists.")] = False,
    unknown_labels: UnknownLabels = "error",
    keep_vectors: Annotated[
        str | None,
        typer.Option(help="Keep vectors next to the codes, for searches with --refine: int8 or float16."),
    ] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
) -> None:
    """Encode items and write an index of them, or add them to one."""
    choose_device(device)
    if append and replace:
        raise InputError("--append adds to the existing index and --replace removes it: give one of them")
    _check_folder(output, append or replace)
    codec = load_model(model).codec_
    if append and keep_vectors is not None:
        raise InputError(
            "--keep-vectors is for a new index: an index that exists keeps what it was made with"
        )
    kind: Any = keep_vectors
    index = CodeIndex.load(output) if append else CodeIndex(codec, vectors=kind)
    if append:
        _check_made_with(codec, index, output)
    source = open_items(items, vectors, labels, ids, metadata)
    names, kept = _ids_for(index, source), source.metadata
    index._check_new(names)
    index._check_room(len(source))
    row_bytes = codec.n_codebooks + bytes_of_vectors(codec, index.vectors, source.labels is not None)
    check_space(output, len(source) * row_bytes + (0 if kept is None else kept.nbytes))
    new_items = _EncodedItems(index, source, unknown_labels, jobs)
    if append:
        index = change_saved(output, lambda saved: new_items.put("add", saved, names, kept), codec)
    else:
        new_items.put("add", index, names, kept)
        save(index, output, overwrite=replace)
    done = f"Added {len(source):,} items to" if append else "Wrote"
    print_line(
        f"{done} {output}: {len(index):,} items, {codec.n_codebooks} bytes per code{_vectors_shown(index)}."
    )
    new_items.print_added()


@app.command()
def search(
    *,
    folder: IndexFolder,
    queries: Items,
    vectors: Vectors = None,
    k: Annotated[int, typer.Option("-k", help="Number of answers to each query.")] = 10,
    ranking: Ranking = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Search only some items: a condition on columns such as \"price < 10 and brand = 'x'\", or a file of ids."
        ),
    ] = None,
    refine: Annotated[
        int | None,
        typer.Option(
            help="Number of first answers to order by vectors: those of the index, or of --refine-from.",
            min=1,
        ),
    ] = None,
    refine_from: Annotated[
        Path | None,
        typer.Option(help="The file or folder of the items' vectors, if the index keeps none."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="Column to return with the answers; may be repeated; all by default."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for all answers: .npz, .csv, .jsonl or .parquet. By default some are printed.",
        ),
    ] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
) -> None:
    """Find the items of an index that are nearest to each query."""
    choose_device(device)
    if output is not None:
        check_output(output, ANSWER_FILES)
    index = CodeIndex.load(folder)
    Q = open_items(queries, vectors, ids=False).X
    among = None if where is None else _read_where(index, where)
    first: Any = refine
    if refine_from is not None:
        items = open_items(refine_from, None, ids=None)
        first = items if refine is None else (items, refine)
    if output is not None and output.suffix == ".parquet":
        table = index.search_table(Q, k, columns, ranking=ranking, where=among, n_jobs=jobs, refine=first)
        with writing(output):
            write_table(output, table)
        print_line(f"Wrote {output}: answers to {len(Q):,} queries.")
        return
    scores, ids = index.search(Q, k, ranking=ranking, where=among, n_jobs=jobs, refine=first)
    if output is None:
        _print_answers(index, scores[:SHOWN_QUERIES], ids[:SHOWN_QUERIES], columns)
        if len(ids) > SHOWN_QUERIES:
            print_line(f"{len(ids) - SHOWN_QUERIES:,} more queries: write all answers with -o answers.csv")
        return
    shown = _columns_of(index, ids, columns)
    with writing(output):
        write_answers(output, scores, ids, shown)
    print_line(f"Wrote {output}: {ids.shape[1]} answers to each of {len(ids):,} queries.")


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
    unknown_labels: UnknownLabels = "error",
    jobs: Jobs = None,
) -> None:
    """Encode items and add them to an index. Other processes may add to it at the same time."""
    index = CodeIndex.load(folder)
    source = open_items(items, vectors, labels, ids, metadata)
    names, kept = _ids_for(index, source), source.metadata
    if replace and names is None:
        raise InputError("--replace needs ids: name their column with --ids")
    if not replace:
        index._check_new(names)
        index._check_room(len(source))
    new_items = _EncodedItems(index, source, unknown_labels, jobs)
    change: Change = "upsert" if replace else "add"
    index = change_saved(folder, lambda saved: new_items.put(change, saved, names, kept), index.codec)
    print_line(f"Added {len(source):,} items to {folder}: {len(index):,} items.")
    new_items.print_added()


@app.command()
def update(
    *,
    folder: IndexFolder,
    items: Items,
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    metadata: Metadata = None,
    unknown_labels: UnknownLabels = "error",
    jobs: Jobs = None,
) -> None:
    """Encode items of an index again. Each keeps its id and its place."""
    index = CodeIndex.load(folder)
    source = open_items(items, vectors, labels, True if ids is None else ids, metadata)
    names, kept = _ids_for(index, source), source.metadata
    index.codes(names)  # unknown ids are refused before the work
    new_items = _EncodedItems(index, source, unknown_labels, jobs)
    change_saved(folder, lambda saved: new_items.put("update", saved, names, kept), index.codec)
    print_line(f"Updated {len(source):,} items of {folder}.")
    new_items.print_added()


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
        folder, lambda saved: saved.remove(ids_in_kind_of(saved, found, str(file or "the command"))), None
    )
    print_line(f"Removed {len(found):,} items from {folder}: {len(index):,} items are left.")


def print_index(folder: Path) -> None:
    """Print what an index folder holds."""
    facts = CodeIndex.load(folder).info()
    rows, sizes = facts["rows"], facts["bytes"]
    total = sum(sizes.values())
    kinds = {
        "automatic": "row numbers",
        "int64": "integers",
        "str": "strings",
        None: "none yet",
    }
    print_facts(
        [
            ("index", folder),
            ("rows", f"{rows:,}"),
            ("removed, not yet cleared", f"{facts['removed']:,}"),
            ("ids", kinds[facts["id_kind"]]),
            ("bytes per code", facts["bytes_per_code"]),
            ("bytes", f"{total:,}: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items())),
            ("bytes per row", f"{(total - sizes['codec']) / rows:.2f}, without the codec" if rows else "-"),
            ("instruction set", facts["instruction_set"]),
        ]
    )
    if facts["segments"]:
        print_table(
            ["segment", "rows", "removed", "distinct codes", "equal codes kept once"],
            [
                [
                    str(number),
                    f"{segment['rows']:,}",
                    f"{segment['removed']:,}",
                    f"{segment['distinct_codes']:,}" if segment["grouped"] else "not counted",
                    "yes" if segment["grouped"] else "no",
                ]
                for number, segment in enumerate(facts["segments"])
            ],
        )


def _check_folder(path: Path, may_be_there: bool) -> None:
    """Raise an `InputError` if the index cannot be written to a folder, before any work is done."""
    check_parent(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; an index is a folder")
    if not may_be_there and path.is_dir() and any(path.iterdir()):
        raise InputError(f"{path} exists already: add to it with --append, or replace it with --replace")
    if path.is_dir():
        read_replaceable(path)


def _check_made_with(codec: Any, index: CodeIndex, folder: Path) -> None:
    """Raise an `InputError` unless an index has a codec, with or without labels that were added to it."""
    known = classes_of(codec)
    if not read_codes_of(index.codec, codec) or classes_of(index.codec)[: len(known)] != known:
        raise InputError(f"{folder} was made with another model")


def change_saved(folder: Path, change: Callable[[CodeIndex], object], codec: Any = None) -> CodeIndex:
    """Change the index in a folder, and return it. If another process saves in the meantime, its changes come first.

    If a codec is given, the index must have this one, with or without labels that were added to it.
    """

    def changed(index: CodeIndex) -> CodeIndex:
        if codec is not None:
            _check_made_with(codec, index, folder)
        change(index)
        return index

    return change_folder(folder, changed)


def change_folder(folder: Path, changed: Callable[[CodeIndex], CodeIndex]) -> CodeIndex:
    """Replace the index in a folder by what a function makes of it, and return that, as `change_saved` does."""
    while True:
        index = changed(CodeIndex.load(folder))
        with contextlib.suppress(SaveConflictError):
            save(index, folder)
            return index


def save(index: CodeIndex, folder: Path, *, overwrite: bool = False) -> None:
    """Save an index as the output of the command."""
    with writing(folder / MANIFEST):
        index.save(folder, overwrite=overwrite)


def encoded(
    codec: Any, source: VectorSource, jobs: int | None, callback: Any
) -> Iterator[tuple[Codes, Block]]:
    """Encode the items of a source block by block, with their labels, and report progress."""
    with Reporter(callback).stage("encode", total=len(source)) as stage:
        for block in source.blocks():
            yield codec.encode_items(block.X, block.labels, n_jobs=jobs), block
            stage.step(len(block))


class _EncodedItems:
    """The items of a source, encoded before an index is changed, so that its folder is free meanwhile.

    Parameters
    ----------
    index : CodeIndex
        The index that will probably be changed.
    source : VectorSource
        The items.
    unknown_labels : str
        As in `CodeIndex.add`.
    jobs : int or None
        The number of threads.
    """

    def __init__(self, index: CodeIndex, source: VectorSource, unknown_labels: Any, jobs: int | None) -> None:
        self._source, self._unknown_labels, self._jobs = source, unknown_labels, jobs
        self._encode(index)

    def _encode(self, index: CodeIndex) -> None:
        source = self._source
        self._made_for = index.codec.pack().digest
        self._labels = read_item_labels(index.codec, source, source.labels, self._unknown_labels)
        self._n_added = len(classes_of(self._labels.codec)) - len(classes_of(index.codec))
        self._codes = _collected(self._labels, source, self._jobs, index.vectors)

    def put(self, change: Change, index: CodeIndex, ids: Any, metadata: Any) -> None:
        """Add, update or upsert the items, with their new labels. They are encoded again if the codec has changed meanwhile."""
        if index.codec.pack().digest != self._made_for:
            self._encode(index)
        before = index.codec
        step = CodecStep(before, self._labels.codec if self._n_added else before)
        index._change_codes(change, ids, self._codes.codes, metadata, step, vectors=self._codes.vectors)

    def print_added(self) -> None:
        """Print what was done with unknown labels."""
        if self._n_added:
            print_line(
                f"Added to its model: {labels_shown(classes_of(self._labels.codec)[-self._n_added :])}."
            )
        elif self._labels.ignored is not None:
            n = np.count_nonzero(self._labels.ignored)
            print_line(f"The labels of {n:,} items are unknown to the model and were ignored.", err)


def labels_shown(labels: list[Any], notes: list[str] | None = None) -> str:
    """Return the first of some labels as text, each with a note in brackets if there are notes.

    Examples
    --------
    >>> labels_shown(["cat", "dog"], ["5 rows", "1 row"]), labels_shown(list(range(100)))
    ("'cat' (5 rows), 'dog' (1 row)", '0, 1, 2, 3, 4, 5, 6, 7, ... (100 labels)')
    """
    shown = [repr(label) for label in labels[:SHOWN_LABELS]]
    if notes is not None:
        shown = [f"{label} ({note})" for label, note in zip(shown, notes, strict=False)]
    return ", ".join(shown) + (f", ... ({len(labels):,} labels)" if len(labels) > SHOWN_LABELS else "")


def _vectors_shown(index: CodeIndex) -> str:
    """Return what the vectors of an index take, as text."""
    if index.vectors is None or not len(index):
        return ""
    return f", {index.info()['bytes']['vectors'] / len(index):.0f} for its vector"


def _collected(
    labels: ItemLabels, source: VectorSource, jobs: int | None, kind: VectorKind | None
) -> CodedRows:
    """Return the codes (n, M) of all items of a source, with their labels, and their vectors if there is a kind."""
    vectors = []
    codes = np.empty((len(source), labels.codec.n_codebooks), dtype=np.uint8)
    with progress_bars() as callback, Reporter(callback).stage("encode", total=len(source)) as stage:
        for block in source.blocks():
            stop = block.start + len(block)
            codes[block.start : stop] = labels.encode(block.X, block.start, stop, n_jobs=jobs)
            if kind is not None:
                vectors.append(labels.vectors(block.X, block.start, stop, kind, jobs))
            stage.step(len(block))
    return CodedRows(codes, join_vectors(vectors) if vectors else None)


def _ids_for(index: CodeIndex, source: VectorSource) -> Any:
    """Check the ids of a source; return them in the kind that the index has, or None if the items are to be numbered."""
    check_ids(source)
    return None if source.ids is None else ids_in_kind_of(index, source.ids, source.name)


def ids_in_kind_of(index: CodeIndex, ids: Any, name: str) -> Any:
    """Return ids as strings if the ids of the index are strings, and as integers if they are integers."""
    kind = index.info()["id_kind"]
    if kind == "str" and ids.dtype.kind in "iu":
        return ids.astype(str).astype(object)
    if kind in ("int64", "automatic") and ids.dtype.kind not in "iu":
        raise InputError(f"{name} has ids that are strings, but the ids of the index are integers")
    return ids


def _read_where(index: CodeIndex, where: str) -> Any:
    """Return the ids in a file, or the condition itself."""
    path = Path(where)
    if path.suffix.lower() in ID_FILES or path.is_file():
        return ids_in_kind_of(index, read_id_file(path), where)
    return where


def _columns_of(index: CodeIndex, ids: Any, columns: list[str] | None) -> dict[str, list[Any]]:
    """Return columns of the answers (q, k) by name: lists of q k values."""
    if not index.columns and not columns:
        return {}
    table = index.get(ids.ravel(), columns).drop_columns(["id"])
    return {name: table[name].to_pylist() for name in table.column_names}


def _print_answers(index: CodeIndex, scores: Any, ids: Any, columns: list[str] | None) -> None:
    """Print scores (q, k) and ids (q, k), with columns."""
    shown = _columns_of(index, ids, columns)
    print_table(
        ["query", "rank", "id", "score", *shown],
        [
            [
                str(query) if rank == 0 else "",
                str(rank + 1),
                str(name),
                f"{score:.4g}",
                *(_short(values[query * len(ids[query]) + rank]) for values in shown.values()),
            ]
            for query in range(len(ids))
            for rank, (name, score) in enumerate(zip(ids[query], scores[query], strict=True))
        ],
    )


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 3]}..."
