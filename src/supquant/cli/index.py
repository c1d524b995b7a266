"""`supquant index` and `supquant search`: vectors into an index folder, and queries to its nearest items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.cli.console import out, print_facts, print_table, progress_bars
from supquant.cli.files import (
    ANSWER_FILES,
    check_output,
    check_parent,
    read_ids,
    read_label_file,
    read_vectors,
    write_answers,
)
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.models import load_model
from supquant.parallel import row_blocks
from supquant.progress import Reporter

app = typer.Typer()

BATCH_ROWS = 65_536  # between two reports of progress
SHOWN_QUERIES = 3

IndexFolder = Annotated[
    Path, typer.Argument(help="A folder written by `supquant index`.", show_default=False)
]
Jobs = Annotated[int | None, typer.Option(help="Threads; all cores by default.")]


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
            help="Ids of the items, whole numbers or strings: .npy, .npz with ids, .csv or .txt. Else 0, 1, ..."
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the index that is there.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the index that is there.")] = False,
    jobs: Jobs = None,
) -> None:
    """Encode items and write an index of them, or add them to one."""
    if append and replace:
        raise InputError(
            "--append adds to the index that is there and --replace removes it: give one of them"
        )
    _check_folder(output, append or replace)
    codec = load_model(model).codec_
    index = CodeIndex.load(output) if append else CodeIndex(codec)
    if append and index.codec.pack().digest != codec.pack().digest:
        raise InputError(f"{output} was made with another model than {model}")
    X = read_vectors(vectors)
    y = None if labels is None else read_label_file(labels)
    names = None if ids is None else read_ids(ids, text=_ids_are_text(index))
    for what, values in (("labels", y), ("ids", names)):
        if values is not None and len(values) != len(X):
            raise InputError(f"{vectors} has {len(X)} rows, and there are {len(values)} {what}")
    with progress_bars() as callback:
        index.add_codes(_encode(codec, X, y, jobs, callback), names)
    index.save(output)
    done = f"Added {len(X):,} items to" if append else "Wrote"
    out.print(
        f"{done} {output}: {len(index):,} items, {codec.n_codebooks} bytes a code.",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def search(
    *,
    folder: IndexFolder,
    queries: Annotated[Path, typer.Argument(help="Queries: .npy, .csv, or .npz with X.", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="Answers a query.")] = 10,
    ranking: Annotated[
        str | None, typer.Option(help="One that the model knows; its first by default.")
    ] = None,
    where: Annotated[
        Path | None,
        typer.Option(help="Search only the items with the ids in this file, as for `supquant index`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all answers: .npz, .csv or .jsonl. Else some are shown."),
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
        out.print(
            f"Wrote {output}: {ids.shape[1]} answers to each of {len(ids):,} queries.",
            markup=False,
            soft_wrap=True,
        )


def print_index(folder: Path) -> None:
    """Say what an index folder holds."""
    told = CodeIndex.load(folder).info()
    rows, sizes = told["rows"], told["bytes"]
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
            ("removed, not yet cleared", f"{told['removed']:,}"),
            ("ids", kinds[told["id_kind"]]),
            ("bytes a code", told["bytes_per_code"]),
            ("bytes", f"{total:,}: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items())),
            ("bytes a row", f"{(total - sizes['codec']) / rows:.2f}, without the codec" if rows else "-"),
            ("instruction set", told["instruction_set"]),
        ]
    )
    if told["segments"]:
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
                for number, segment in enumerate(told["segments"])
            ],
        )


def _check_folder(path: Path, may_be_there: bool) -> None:
    """Refuse a folder that the index could not be written to, before any work is done."""
    check_parent(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; an index is a folder")
    if not may_be_there and path.is_dir() and any(path.iterdir()):
        raise InputError(f"{path} is there already: add to it with --append, or write over it with --replace")


def _encode(codec: Any, X: Any, y: Any, jobs: int | None, callback: Any) -> Any:
    """Encode in batches, so that progress can be told; rows stay on the disk until their turn comes."""
    batches = row_blocks(len(X), BATCH_ROWS)
    codes = np.empty((len(X), codec.n_codebooks), dtype=np.uint8)
    with Reporter(callback).stage("encode", total=len(batches)) as stage:
        for start, stop in batches:
            labels = None if y is None else y[start:stop]
            codes[start:stop] = codec.encode_items(X[start:stop], labels, n_jobs=jobs)
            stage.step()
    return codes


def _ids_are_text(index: CodeIndex) -> bool | None:
    """Tell whether the ids of an index are strings; None while it has none."""
    kind = index.info()["id_kind"]
    return None if kind is None else kind == "str"


def _print_answers(scores: Any, ids: Any) -> None:
    print_table(
        ["query", "rank", "id", "score"],
        [
            [str(query) if rank == 0 else "", str(rank + 1), str(name), f"{score:.4g}"]
            for query in range(min(len(ids), SHOWN_QUERIES))
            for rank, (name, score) in enumerate(zip(ids[query], scores[query], strict=True))
        ],
    )
    if len(ids) > SHOWN_QUERIES:
        out.print(f"{len(ids) - SHOWN_QUERIES:,} more queries: write all answers with -o answers.csv")
