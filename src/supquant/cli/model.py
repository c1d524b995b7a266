"""`supquant encode`, `evaluate` and `info`: use a model file and describe it."""

from __future__ import annotations

import platform
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

import supquant
from supquant import evaluation, kernels
from supquant.cli.console import err, print_facts, print_line, print_table, progress_bars
from supquant.cli.ending import writing
from supquant.cli.files import CODE_FILES, check_output, check_space, make_folder, write_codes
from supquant.cli.index import encoded, print_index
from supquant.cli.options import (
    Device,
    Ids,
    Items,
    Jobs,
    Labels,
    ModelFile,
    Ranking,
    Vectors,
    choose_device,
    open_items,
)
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import resolve_jobs
from supquant.inputs.unlabelled import labelled_rows
from supquant.models import load_model
from supquant.storage.replacing import write_json

app = typer.Typer()


@app.command()
def encode(
    model: ModelFile,
    items: Items,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Codes to write: .npy, .npz with `codes`, or .parquet with ids. With --workers or --ray: a folder.",
        ),
    ] = Path("codes.npy"),
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    jobs: Jobs = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Encode file by file with this number of processes, or of Ray actors with --ray. Finished files are skipped."
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Encode file by file on a Ray cluster, that of RAY_ADDRESS if it is set."),
    ] = False,
    device: Device = "cpu",
) -> None:
    """Turn vectors into codes, one byte per codebook."""
    if ray or workers is not None:
        columns = {"vectors": vectors, "labels": labels, "ids": ids}
        _encode_files(model, items, output, columns, workers, ray, jobs, device)
        return
    choose_device(device)
    check_output(output, CODE_FILES)
    codec = load_model(model).codec_
    source = open_items(items, vectors, labels, ids)
    check_space(output, len(source) * codec.n_codebooks)
    with progress_bars() as callback, writing(output):
        write_codes(output, encoded(codec, source, jobs, callback), (len(source), codec.n_codebooks))
    print_line(f"Wrote {output}: {len(source):,} codes of {codec.n_codebooks} bytes.")


def _encode_files(
    model: Path,
    items: Path,
    output: Path,
    columns: dict[str, str | None],
    n_workers: int | None,
    on_ray: bool,
    jobs: int | None,
    device: str,
) -> None:
    """Encode every file of a folder into a file of its own, on several workers."""
    from supquant import distributed  # noqa: PLC0415  # needs pyarrow, an extra

    make_folder(output)
    kind: Any = distributed.RayWorkers if on_ray else distributed.ProcessWorkers
    options: dict[str, Any] = {"actor_options": {"num_gpus": 1}} if on_ray and device == "cuda" else {}
    with kind(n_workers, **options) as workers, progress_bars() as callback:
        done = distributed.encode_dataset(
            model,
            items,
            output,
            workers=workers,
            n_jobs=jobs or 1,
            callback=callback,
            device=cast("Any", device),
            **columns,
        )
    skipped = f", {done.n_skipped} of which existed already" if done.n_skipped else ""
    print_line(f"Wrote {output}: {done.n_rows} codes in {len(done.files)} files{skipped}.")


@app.command()
def evaluate(
    *,
    model: ModelFile,
    database: Annotated[Path, typer.Option(help="Items to search, with labels.", show_default=False)],
    queries: Annotated[Path, typer.Option(help="Queries, with labels.", show_default=False)],
    vectors: Vectors = None,
    labels: Labels = None,
    ranking: Ranking = None,
    cut: Annotated[int | None, typer.Option(help="Count only this many answers per query.")] = None,
    with_labels: Annotated[
        bool, typer.Option("--with-labels", help="Encode items with their labels.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="File to which the figures are also written.")] = None,
) -> None:
    """Measure how well codes answer queries. An item that shares a label with the query is a right answer."""
    if json is not None:
        check_output(json)
    codec = load_model(model).codec_
    (X, y), (Q, query_y) = (_labelled(path, vectors, labels) for path in (database, queries))
    codes = codec.encode_items(X, y if with_labels else None)
    both = read_labels(_stacked(y, query_y), n_rows=len(X) + len(Q))
    with warnings.catch_warnings(action="ignore"):  # said below
        quality = evaluation.evaluate_tables(
            codec.query_tables(Q, ranking).tables,
            codes,
            both.take(np.arange(len(X), len(X) + len(Q))),
            both.take(np.arange(len(X))),
            cut=cut,
        )
    figures = {"MAP": quality.map, "MAP, mean over ties": quality.map_tie_aware}
    figures |= {f"precision at {k}": precision for k, precision in quality.precision_at.items()}
    print_table(
        ["", f"{len(Q)} queries, {len(X)} items of {codes.shape[1]} bytes"],
        [[name, f"{value:.4f}"] for name, value in figures.items()],
    )
    if quality.n_without_answer:
        print_line(
            f"{quality.n_without_answer} of {len(Q)} queries share no label with any item, and count as 0."
        )
    if json is not None:
        precision_at = {str(k): precision for k, precision in quality.precision_at.items()}
        with writing(json):
            write_json(
                json,
                {
                    "map": quality.map,
                    "map_tie_aware": quality.map_tie_aware,
                    "precision_at": precision_at,
                    "n_without_answer": quality.n_without_answer,
                    "cut": cut,
                },
            )


@app.command()
def info(
    path: Annotated[
        Path | None, typer.Argument(help="A model file or an index folder.", show_default=False)
    ] = None,
) -> None:
    """Describe a model file or an index folder; without one, describe this installation."""
    if path is None:
        print_facts(
            [
                ("supquant", supquant.__version__),
                ("Python", platform.python_version()),
                ("instruction set", kernels.isa()),
                ("threads", resolve_jobs(None)),
                ("GPU", kernels.device.why_no_gpu() or kernels.device.cuda().name()),
            ]
        )
    elif path.is_dir():
        print_index(path)
    else:
        _print_model(path)


def _print_model(path: Path) -> None:
    """Print what a model file holds."""
    model = load_model(path)
    codec = model.codec_
    facts: list[tuple[str, Any]] = [
        ("model", path),
        ("method", type(model).__name__),
        ("bytes of the file", path.stat().st_size),
        ("bytes per code", codec.n_codebooks),
        ("codewords per codebook", codec.n_codewords),
        ("projected to", f"{codec.n_components} dimensions"),
        ("vectors of", f"{codec.n_inputs} dimensions"),
        ("rankings", ", ".join(codec.rankings)),
    ]
    classes = getattr(codec, "classes", None)
    if classes is not None:
        facts.append(("labels", f"{len(classes)}: {_some(classes)}"))
    hidden = ("n_codebooks", "n_codewords", "n_bits", "features", "init", "callback", "verbose", "n_jobs")
    parameters = model.get_params(deep=False)
    facts += [(name.replace("_", " "), value) for name, value in parameters.items() if name not in hidden]
    print_facts(facts)


def _labelled(path: Path, vectors: str | None, labels: str | None) -> tuple[Any, Any]:
    """Return the vectors and labels of a file, without the rows whose label is unknown: they cannot tell right from wrong."""
    source = open_items(path, vectors, labels or True, False)
    y, known = labelled_rows(source.labels, missing=True, name="the labels")
    if known is None:
        return source.X, y
    print_line(f"{path}: {np.count_nonzero(~known)} of {len(known)} rows have no label and are left out", err)
    if not known.any():
        raise InputError(f"{path}: no row has a label, so no answer can be judged")
    return source.X[known], y


def _stacked(first: Any, second: Any) -> Any:
    """Return the labels of two files in one array, so that both are read with the same classes."""
    if first.ndim != second.ndim or first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"the labels of the database have shape {first.shape}, and those of the queries {second.shape}"
        )
    return np.concatenate([first, second])


def _some(classes: Any, limit: int = 8) -> str:
    """Return the first classes as text."""
    shown = ", ".join(str(label) for label in classes[:limit])
    return shown if len(classes) <= limit else f"{shown}, ..."
