"""`supquant index` and `supquant search`: write an index of vectors, and find its items that are nearest to queries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.arrays import Codes
from supquant.cli.console import print_facts, print_line, print_table, progress_bars
from supquant.cli.files import (
    ANSWER_FILES,
    check_output,
    check_parent,
    check_space,
    write_answers,
    write_table,
)
from supquant.cli.items import Ids, Items, Labels, Metadata, Vectors, check_ids, open_items
from supquant.errors import InputError, SaveConflictError
from supquant.index import CodeIndex
from supquant.index.files import read_replaceable
from supquant.models import load_model
from supquant.progress import Reporter
from supquant.sources import Block, VectorSource, read_id_file

app = typer.Typer()

STEPS = 100
"""The progress of encoding is reported in this number of steps."""

SHOWN_QUERIES = 3
"""If no file is written, the answers to this number of queries are printed."""

SHOWN_LETTERS = 40
"""At most this number of letters of a column's value is printed."""

ID_FILES = (".npy", ".npz", ".txt", ".csv", ".parquet")
"""Files of ids have one of these endings."""

IndexFolder = Annotated[
    Path, typer.Argument(help="A folder written by `supquant index`.", show_default=False)
]
Jobs = Annotated[int | None, typer.Option(help="Number of threads; all cores by default.")]


@app.command("index")
def make_index(
    *,
    model: Annotated[
        Path, typer.Argument(help="A model file written by `supquant fit`.", show_default=False)
    ],
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
    jobs: Jobs = None,
) -> None:
    """Encode items and write an index of them, or add them to one."""
    if append and replace:
        raise InputError(
            "--append adds to the index that is there and --replace removes it: give one of them"
        )
    _check_folder(output, append or replace)
    codec = load_model(model).codec_
    index = _load_made_with(codec, output) if append else CodeIndex(codec)
    source = open_items(items, vectors, labels, ids, metadata)
    names, kept = ids_for(index, source), source.metadata
    index._check_new(names)
    check_space(output, len(source) * codec.n_codebooks + (0 if kept is None else kept.nbytes))
    codes = collected(codec, source, jobs)
    if append:
        index = change_saved(output, lambda saved: saved.add_codes(codes, names, metadata=kept), codec)
    else:
        index.add_codes(codes, names, metadata=kept).save(output, overwrite=replace)
    done = f"Added {len(source):,} items to" if append else "Wrote"
    print_line(f"{done} {output}: {len(index):,} items, {codec.n_codebooks} bytes a code.")


@app.command()
def search(
    *,
    folder: IndexFolder,
    queries: Items,
    vectors: Vectors = None,
    k: Annotated[int, typer.Option("-k", help="Number of answers to each query.")] = 10,
    ranking: Annotated[
        str | None, typer.Option(help="A ranking of the model; its first one by default.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Search only some items: a condition on columns such as \"price < 10 and brand = 'x'\", or a file of ids."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", help="Column to return with the answers. Give it again for each; all by default."
        ),
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
) -> None:
    """Find the items of an index that are nearest to each query."""
    if output is not None:
        check_output(output, ANSWER_FILES)
    index = CodeIndex.load(folder)
    Q = open_items(queries, vectors, ids=False).X
    among = None if where is None else _read_where(index, where)
    if output is not None and output.suffix == ".parquet":
        write_table(output, index.search_table(Q, k, columns, ranking=ranking, where=among, n_jobs=jobs))
        print_line(f"Wrote {output}: answers to {len(Q):,} queries.")
        return
    scores, ids = index.search(Q, k, ranking=ranking, where=among, n_jobs=jobs)
    if output is None:
        _print_answers(index, scores[:SHOWN_QUERIES], ids[:SHOWN_QUERIES], columns)
        if len(ids) > SHOWN_QUERIES:
            print_line(f"{len(ids) - SHOWN_QUERIES:,} more queries: write all answers with -o answers.csv")
        return
    shown = _columns_of(index, ids, columns)
    write_answers(output, scores, ids, shown)
    print_line(f"Wrote {output}: {ids.shape[1]} answers to each of {len(ids):,} queries.")


def print_index(folder: Path) -> None:
    """Print what an index folder holds."""
    facts = CodeIndex.load(folder).info()
    rows, sizes = facts["rows"], facts["bytes"]
    total = sum(sizes.values())
    kinds = {
        "automatic": "numbers given in turn",
        "int64": "whole numbers",
        "str": "strings",
        None: "none yet",
    }
    print_facts(
        [
            ("index", folder),
            ("rows", f"{rows:,}"),
            ("removed, not yet cleared", f"{facts['removed']:,}"),
            ("ids", kinds[facts["id_kind"]]),
            ("bytes a code", facts["bytes_per_code"]),
            ("bytes", f"{total:,}: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items())),
            ("bytes a row", f"{(total - sizes['codec']) / rows:.2f}, without the codec" if rows else "-"),
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
        raise InputError(f"{path} is there already: add to it with --append, or write over it with --replace")
    if path.is_dir():
        read_replaceable(path)


def _load_made_with(codec: Any, folder: Path) -> CodeIndex:
    """Load an index; raise an `InputError` if it has another codec."""
    index = CodeIndex.load(folder)
    if index.codec.pack().digest != codec.pack().digest:
        raise InputError(f"{folder} was made with another model")
    return index


def change_saved(folder: Path, change: Callable[[CodeIndex], object], codec: Any = None) -> CodeIndex:
    """Change the index in a folder, and return it. If another process saves meanwhile, its changes come first.

    If a codec is given, the index must have the same one.
    """
    while True:
        index = CodeIndex.load(folder) if codec is None else _load_made_with(codec, folder)
        change(index)
        with contextlib.suppress(SaveConflictError):
            index.save(folder)
            return index


def encoded(
    codec: Any, source: VectorSource, jobs: int | None, callback: Any
) -> Iterator[tuple[Codes, Block]]:
    """Encode the items of a source block by block, with their labels, and report progress."""
    steps = min(len(source), STEPS)
    with Reporter(callback).stage("encode", total=steps) as stage:
        done = 0
        for block in source.blocks():
            yield codec.encode_items(block.X, block.labels, n_jobs=jobs), block
            reached = (block.start + len(block)) * steps // len(source)
            for _ in range(done, reached):
                stage.step()
            done = reached


def collected(codec: Any, source: VectorSource, jobs: int | None) -> Codes:
    """Return the codes (n, M) of all items of a source."""
    codes = np.empty((len(source), codec.n_codebooks), dtype=np.uint8)
    with progress_bars() as callback:
        for part, block in encoded(codec, source, jobs, callback):
            codes[block.start : block.start + len(part)] = part
    return codes


def ids_for(index: CodeIndex, source: VectorSource) -> Any:
    """Return the ids of a source, of the kind that the index has; None if they are to be numbered.

    They are checked before the long work of encoding.
    """
    check_ids(source)
    return None if source.ids is None else in_kind_of(index, source.ids, source.name)


def in_kind_of(index: CodeIndex, ids: Any, name: str) -> Any:
    """Return ids as strings if the ids of the index are strings, and as numbers if they are numbers."""
    kind = index.info()["id_kind"]
    if kind == "str" and ids.dtype.kind in "iu":
        return ids.astype(str).astype(object)
    if kind in ("int64", "automatic") and ids.dtype.kind not in "iu":
        raise InputError(f"{name} has ids that are strings, and the ids of the index are whole numbers")
    return ids


def _read_where(index: CodeIndex, where: str) -> Any:
    """Return the ids in a file, or the condition itself."""
    path = Path(where)
    if path.suffix.lower() in ID_FILES or path.is_file():
        return in_kind_of(index, read_id_file(path), where)
    return where


def _columns_of(index: CodeIndex, ids: Any, columns: list[str] | None) -> dict[str, list[Any]]:
    """Return columns of the answers (q, k), by their names: lists of q times k values."""
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
