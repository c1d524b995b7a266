"""`supquant fit`, `encode`, `evaluate` and `info`: a model file and what it is good for."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant import kernels
from supquant.cli.app import INTERRUPTED, app
from supquant.cli.console import err, out, print_facts, print_table, progress_bars
from supquant.cli.files import check_output, read_label_file, read_labelled, read_vectors, write_json
from supquant.cli.index import print_index
from supquant.codec import RANKINGS
from supquant.datasets import data_folder
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.experiments.machine import package_version
from supquant.features import AnchorKernel
from supquant.labels import read_labels
from supquant.quantizers import SupervisedQuantizer
from supquant.validation import resolve_jobs

ModelFile = Annotated[
    Path, typer.Argument(help="A model file written by `supquant fit`.", show_default=False)
]


@app.command()
def fit(
    *,
    vectors: Annotated[
        Path, typer.Argument(help="Vectors: .npy, .csv, or .npz with X (and y).", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.safetensors"
    ),
    labels: Annotated[
        Path | None, typer.Option(help="Labels: .npy, .npz with y, .csv or .txt; else y of the .npz file.")
    ] = None,
    bits: Annotated[int, typer.Option(help="Length of a code; 8 bits a codebook.")] = 64,
    init: Annotated[Path | None, typer.Option(help="A model with a shorter code to start from.")] = None,
    anchors: Annotated[
        int | None,
        typer.Option(help="Anchors of the kernel features; 0: none. By default chosen from the data."),
    ] = None,
    solver: Annotated[str | None, typer.Option(help="joint or alternating.")] = None,
    quantization_weight: Annotated[float | None, typer.Option(help="gamma, above 0.")] = None,
    constraint_weight: Annotated[float | None, typer.Option(help="mu.")] = None,
    codewords: Annotated[int, typer.Option(help="Codewords of a codebook, at most 256.")] = 256,
    max_iter: Annotated[int | None, typer.Option(help="Iterations at the most.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same codes.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
) -> None:
    """Learn codes from labelled vectors and write a model file. Ctrl-C saves the best model so far."""
    check_output(output)
    told: dict[str, Any] = {
        "solver": solver,
        "quantization_weight": quantization_weight,
        "constraint_weight": constraint_weight,
        "max_iter": max_iter,
    }
    X, y = read_labelled(vectors, labels)
    with progress_bars() as callback:
        quantizer = SupervisedQuantizer(
            codebooks_of(bits),
            n_codewords=codewords,
            features=_features(anchors, seed),
            init=None if init is None else SupervisedQuantizer.load(init),
            random_state=seed,
            n_jobs=jobs,
            callback=callback,
            **{name: value for name, value in told.items() if value is not None},
        )
        try:
            quantizer.fit(X, y)
        except KeyboardInterrupt:
            _save_interrupted(quantizer, output)
            raise typer.Exit(INTERRUPTED) from None
    quantizer.save(output)
    out.print(
        f"Wrote {output}: {len(X)} rows learned, {bits // 8} bytes a code.", markup=False, soft_wrap=True
    )


@app.command()
def encode(
    model: ModelFile,
    vectors: Annotated[Path, typer.Argument(help="Vectors: .npy, .csv, or .npz with X.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Codes to write: .npy, or .npz with `codes`.")
    ] = Path("codes.npy"),
    labels: Annotated[Path | None, typer.Option(help="Labels of the vectors, where they are known.")] = None,
) -> None:
    """Turn vectors into codes, a byte a codebook."""
    check_output(output, (".npy", ".npz"))
    quantizer = SupervisedQuantizer.load(model)
    X = read_vectors(vectors)
    codes = quantizer.encode(X, None if labels is None else read_label_file(labels))
    if output.suffix == ".npy":
        np.save(output, codes)
    else:
        np.savez(output, codes=codes)
    out.print(
        f"Wrote {output}: {codes.shape[0]} codes of {codes.shape[1]} bytes.", markup=False, soft_wrap=True
    )


@app.command()
def evaluate(
    *,
    model: ModelFile,
    database: Annotated[Path, typer.Option(help="Items to search: .npz with X and y.", show_default=False)],
    queries: Annotated[Path, typer.Option(help="Queries: .npz with X and y.", show_default=False)],
    ranking: Annotated[str, typer.Option(help=f"{', '.join(RANKINGS)}")] = "euclidean",
    cut: Annotated[int | None, typer.Option(help="Count only the first so many of a ranking.")] = None,
    with_labels: Annotated[
        bool, typer.Option("--with-labels", help="Encode items with their labels.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file too.")] = None,
) -> None:
    """Measure how well codes answer queries; items that share a label with the query count as right."""
    if json is not None:
        check_output(json)
    quantizer = SupervisedQuantizer.load(model)
    (X, y), (Q, query_y) = read_labelled(database), read_labelled(queries)
    codes = quantizer.encode(X, y if with_labels else None)
    labels = read_labels(_stacked(y, query_y), n_rows=len(X) + len(Q))
    quality = evaluate_tables(
        quantizer.tables(Q, ranking),
        codes,
        labels.take(np.arange(len(X), len(X) + len(Q))),
        labels.take(np.arange(len(X))),
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
    """Say what a model file or an index folder holds; without one, what this installation runs on."""
    if path is None:
        print_facts(
            [
                ("supquant", package_version()),
                ("Python", platform.python_version()),
                ("instruction set", kernels.isa()),
                ("threads", resolve_jobs(None)),
                ("data folder", data_folder()),
            ]
        )
    elif path.is_dir():
        print_index(path)
    else:
        _print_model(path)


def codebooks_of(bits: int) -> int:
    """Give the number of codebooks, a byte each."""
    if bits < 8 or bits % 8:
        raise InputError(f"bits must be a multiple of 8, one byte a codebook; got {bits}")
    return bits // 8


def _print_model(path: Path) -> None:
    quantizer = SupervisedQuantizer.load(path)
    codebooks = quantizer.codec_.codebooks  # (M, K, r)
    print_facts(
        [
            ("model", path),
            ("bytes of the file", path.stat().st_size),
            ("bytes a code", codebooks.shape[0]),
            ("codewords a codebook", codebooks.shape[1]),
            ("projected to", f"{codebooks.shape[2]} dimensions"),
            ("vectors of", f"{quantizer.codec_.n_inputs} dimensions"),
            ("labels", f"{len(quantizer.classes_)}: {_some(quantizer.classes_)}"),
            *((name.replace("_", " "), value) for name, value in _plain_settings(quantizer).items()),
        ]
    )


def _features(anchors: int | None, seed: int) -> Any:
    if anchors is None:
        return "auto"
    return AnchorKernel(anchors, random_state=seed) if anchors else None


def _save_interrupted(quantizer: Any, output: Path) -> None:
    if hasattr(quantizer, "codec_"):
        quantizer.save(output)
        err.print(f"Interrupted: wrote the best model so far to {output}.", markup=False, soft_wrap=True)
    else:
        err.print("Interrupted before there was a model; nothing was written.")


def _stacked(first: Any, second: Any) -> Any:
    """Join the labels of two files, so that both are read over the same classes."""
    if first.ndim != second.ndim or first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"labels of the database have shape {first.shape}, those of the queries {second.shape}"
        )
    return np.concatenate([first, second])


def _some(classes: Any, limit: int = 8) -> str:
    shown = ", ".join(str(label) for label in classes[:limit])
    return shown if len(classes) <= limit else f"{shown}, ..."


def _plain_settings(quantizer: Any) -> dict[str, Any]:
    told = quantizer.get_params(deep=False)
    return {
        name: told[name]
        for name in ("solver", "quantization_weight", "constraint_weight", "classifier_ridge")
    }
