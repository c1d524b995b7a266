"""`supquant index` and `supquant search`: write an index of vectors, and find its items that are nearest to queries."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.cli.console import print_facts, print_line, print_table, progress_bars
from supquant.cli.files import (
    ANSWER_FILES,
    check_output,
    check_parent,
    read_ids,
    read_label_file,
    read_vectors,
    write_answers,
)
from supquant.errors import InputError, SaveConflictError
from supquant.index import CodeIndex
from supquant.models import load_model
from supquant.parallel import row_blocks
from supquant.progress import Reporter

app = typer.Typer()

BATCH_ROWS = 65_536
"""Rows that are encoded between two reports of progress."""

SHOWN_QUERIES = 3
"""Queries whose answers are printed where no file is written."""

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
    vectors: Annotated[Path, typer.Argument(help="Items: .npy, .csv, or .npz with X.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")] = Path(
        "items.index"
    ),
    labels: Annotated[
        Path | None, typer.Option(help="Labels of the items, where they are known: .npy, .npz, .csv or .txt.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Ids of the items, whole numbers or strings: .npy, .npz with ids, .csv or .txt. By default 0, 1, ..."
        ),
    ] = None,
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
    X = read_vectors(vectors)
    y = None if labels is None else read_label_file(labels)
    names = None if ids is None else read_ids(ids, text=_ids_are_text(index))
    for what, values in (("labels", y), ("ids", names)):
        if values is not None and len(values) != len(X):
            raise InputError(f"{vectors} has {len(X)} rows, and there are {len(values)} {what}")
    with progress_bars() as callback:
        codes = _encode(codec, X, y, jobs, callback)
    if append:
        index = _append(output, codec, codes, names)
    else:
        index.add_codes(codes, names).save(output, overwrite=replace)
    done = f"Added {len(X):,} items to" if append else "Wrote"
    print_line(f"{done} {output}: {len(index):,} items, {codec.n_codebooks} bytes a code.")


@app.command()
def search(
    *,
    folder: IndexFolder,
    queries: Annotated[Path, typer.Argument(help="Queries: .npy, .csv, or .npz with X.", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="Number of answers to each query.")] = 10,
    ranking: Annotated[
        str | None, typer.Option(help="A ranking of the model; its first one by default.")
    ] = None,
    where: Annotated[
        Path | None,
        typer.Option(help="Search only the items with the ids in this file, as for `supquant index`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for all answers: .npz, .csv or .jsonl. By default some are printed."
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Find the items of an index that are nearest to each query."""
    if output is not None:
        check_output(output, ANSWER_FILES)
    index = CodeIndex.load(folder)
    Q = read_vectors(queries)
    among = None if where is None else read_ids(where, text=_ids_are_text(index))
    scores, ids = index.search(Q, k, ranking=ranking, where=among, n_jobs=jobs)
    if output is None:
        _print_answers(scores, ids)
    else:
        write_answers(output, scores, ids)
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


def _load_made_with(codec: Any, folder: Path) -> CodeIndex:
    """Load an index; raise an `InputError` if it has another codec."""
    index = CodeIndex.load(folder)
    if index.codec.pack().digest != codec.pack().digest:
        raise InputError(f"{folder} was made with another model")
    return index


def _append(folder: Path, codec: Any, codes: Any, names: Any) -> CodeIndex:
    """Add codes to the index in a folder, and return the index. If another process saves meanwhile, its rows come first."""
    while True:
        index = _load_made_with(codec, folder).add_codes(codes, names)
        with contextlib.suppress(SaveConflictError):
            index.save(folder)
            return index


def _encode(codec: Any, X: Any, y: Any, jobs: int | None, callback: Any) -> Any:
    """Return the codes (n, M) of X (n, p), encoded in batches, so that progress is shown and X may be memory-mapped."""
    batches = row_blocks(len(X), BATCH_ROWS)
    codes = np.empty((len(X), codec.n_codebooks), dtype=np.uint8)
    with Reporter(callback).stage("encode", total=len(batches)) as stage:
        for start, stop in batches:
            labels = None if y is None else y[start:stop]
            codes[start:stop] = codec.encode_items(X[start:stop], labels, n_jobs=jobs)
            stage.step()
    return codes


def _ids_are_text(index: CodeIndex) -> bool | None:
    """Return whether the ids of an index are strings; None while it has no ids."""
    kind = index.info()["id_kind"]
    return None if kind is None else kind == "str"


def _print_answers(scores: Any, ids: Any) -> None:
    """Print scores (q, k) and ids (q, k) of the first queries."""
    print_table(
        ["query", "rank", "id", "score"],
        [
            [str(query) if rank == 0 else "", str(rank + 1), str(name), f"{score:.4g}"]
            for query in range(min(len(ids), SHOWN_QUERIES))
            for rank, (name, score) in enumerate(zip(ids[query], scores[query], strict=True))
        ],
    )
    if len(ids) > SHOWN_QUERIES:
        print_line(f"{len(ids) - SHOWN_QUERIES:,} more queries: write all answers with -o answers.csv")
