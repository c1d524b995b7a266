"""`supquant fit`, `encode`, `evaluate` and `info`: write a model file, use it and describe it."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import supquant
from supquant import evaluation, kernels
from supquant.cli.app import INTERRUPTED
from supquant.cli.console import err, print_facts, print_line, print_table, progress_bars
from supquant.cli.files import CODE_FILES, check_output, check_space, write_codes
from supquant.cli.index import Jobs, encoded, print_index
from supquant.cli.items import Ids, Items, Labels, Vectors, check_ids, open_items
from supquant.cli.parameters import Parameters, read_parameters
from supquant.errors import InputError
from supquant.features import AnchorKernel
from supquant.labels import read_labels
from supquant.models import ESTIMATORS, load_model, make_estimator
from supquant.quantizers.summary import ModelSummary
from supquant.storage.json_file import write_json
from supquant.validation import resolve_jobs

ModelFile = Annotated[
    Path, typer.Argument(help="A model file written by `supquant fit`.", show_default=False)
]

app = typer.Typer()


@app.command()
def fit(
    *,
    items: Items,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.safetensors"
    ),
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    method: Annotated[str, typer.Option(help=", ".join(ESTIMATORS))] = "sq",
    bits: Annotated[int, typer.Option(help="Length of a code, a multiple of 8.")] = 64,
    init: Annotated[Path | None, typer.Option(help="A model with a shorter code to start from.")] = None,
    anchors: Annotated[
        int | None,
        typer.Option(help="Number of anchors of the kernel features, or 0. By default the method chooses."),
    ] = None,
    solver: Annotated[str | None, typer.Option(help="joint or alternating.")] = None,
    quantization_weight: Annotated[
        float | None, typer.Option(help="Weight gamma of the quantization error, above 0.")
    ] = None,
    constraint_weight: Annotated[
        float | None, typer.Option(help="Weight mu of the constraint on codes.")
    ] = None,
    codewords: Annotated[int | None, typer.Option(help="Codewords of a codebook, at most 256.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Number of iterations at the most.")] = None,
    parameters: Parameters = None,
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast", help="Print first how good retrieval will be, from a fit without some of the rows."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same codes.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Number of threads; all cores by default.")] = None,
) -> None:
    """Learn codes from labelled vectors and write a model file. Ctrl-C saves the best model so far."""
    check_output(output)
    options: dict[str, Any] = {
        "solver": solver,
        "quantization_weight": quantization_weight,
        "constraint_weight": constraint_weight,
        "n_codewords": codewords,
        "max_iter": max_iter,
        "init": None if init is None else load_model(init),
    }
    given = {name: value for name, value in options.items() if value is not None}
    if anchors is not None:
        given["features"] = AnchorKernel(anchors, random_state=seed) if anchors else None
    settings = {"random_state": seed, "n_jobs": jobs, **given, **read_parameters(parameters)}
    estimator = make_estimator(method, bits, settings)
    source = open_items(items, vectors, labels or True, ids)
    X, y = source.X, source.labels
    if ids is not None:
        check_ids(source)
    if forecast:
        print_line(str(evaluation.forecast(estimator, X, y, random_state=seed)))
    with progress_bars() as callback:
        if "callback" in estimator.get_params(deep=False):
            estimator.set_params(callback=callback)
        try:
            estimator.fit(X, y)
        except KeyboardInterrupt:
            _save_interrupted(estimator, output)
            raise typer.Exit(INTERRUPTED) from None
    estimator.save(output)
    summary = getattr(estimator, "summary_", None) or ModelSummary.of(
        estimator.training_codes_, read_labels(y, n_rows=len(X), missing=True)
    )
    for line in str(summary).splitlines():
        print_line(line)
    print_line(f"Wrote {output}: {len(X)} rows learned, {estimator.codec_.n_codebooks} bytes a code.")


@app.command()
def encode(
    model: ModelFile,
    items: Items,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Codes to write: .npy, .npz with `codes`, or .parquet with ids."),
    ] = Path("codes.npy"),
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    jobs: Jobs = None,
) -> None:
    """Turn vectors into codes of one byte a codebook."""
    check_output(output, CODE_FILES)
    codec = load_model(model).codec_
    source = open_items(items, vectors, labels, ids)
    check_space(output, len(source) * codec.n_codebooks)
    with progress_bars() as callback:
        write_codes(output, encoded(codec, source, jobs, callback), (len(source), codec.n_codebooks))
    print_line(f"Wrote {output}: {len(source)} codes of {codec.n_codebooks} bytes.")


@app.command()
def evaluate(
    *,
    model: ModelFile,
    database: Annotated[Path, typer.Option(help="Items to search, with labels.", show_default=False)],
    queries: Annotated[Path, typer.Option(help="Queries, with labels.", show_default=False)],
    vectors: Vectors = None,
    labels: Labels = None,
    ranking: Annotated[
        str | None, typer.Option(help="A ranking of the model; its first one by default.")
    ] = None,
    cut: Annotated[int | None, typer.Option(help="Count only this many answers to each query.")] = None,
    with_labels: Annotated[
        bool, typer.Option("--with-labels", help="Encode items with their labels.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="File to which the figures are also written.")] = None,
) -> None:
    """Measure how well codes answer queries; items that share a label with the query count as right."""
    if json is not None:
        check_output(json)
    codec = load_model(model).codec_
    (X, y), (Q, query_y) = (
        (source.X, source.labels)
        for source in (open_items(path, vectors, labels or True, False) for path in (database, queries))
    )
    codes = codec.encode_items(X, y if with_labels else None)
    both = read_labels(_stacked(y, query_y), n_rows=len(X) + len(Q))
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
    if json is not None:
        precision_at = {str(k): precision for k, precision in quality.precision_at.items()}
        write_json(
            json,
            {
                "map": quality.map,
                "map_tie_aware": quality.map_tie_aware,
                "precision_at": precision_at,
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
        ("bytes a code", codec.n_codebooks),
        ("codewords a codebook", codec.n_codewords),
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


def _save_interrupted(estimator: Any, output: Path) -> None:
    """Write the best model so far, if there is one."""
    if hasattr(estimator, "codec_"):
        estimator.save(output)
        print_line(f"Interrupted: wrote the best model so far to {output}.", err)
    else:
        err.print("Interrupted before there was a model; nothing was written.")


def _stacked(first: Any, second: Any) -> Any:
    """Return the labels of two files in one array, so that both are read over the same classes."""
    if first.ndim != second.ndim or first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"labels of the database have shape {first.shape}, those of the queries {second.shape}"
        )
    return np.concatenate([first, second])


def _some(classes: Any, limit: int = 8) -> str:
    """Return the first classes as text."""
    shown = ", ".join(str(label) for label in classes[:limit])
    return shown if len(classes) <= limit else f"{shown}, ..."
