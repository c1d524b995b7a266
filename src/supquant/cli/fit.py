"""`supquant fit`: learn codes from labelled vectors, and write a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.app import INTERRUPTED
from supquant.cli.console import err, print_line, progress_bars
from supquant.cli.files import check_output
from supquant.cli.items import Ids, Items, Labels, Vectors, check_ids, open_items
from supquant.cli.parameters import Parameters, read_parameters

METHODS = (
    "sq",
    "sq-triplet",
    "sq-no-transform",
    "cq",
    "pq",
    "opq",
    "sdh",
    "sdh-linear",
    "ksh",
    "fasthash",
    "cca-itq",
    "ssh",
    "mlh",
    "bre",
    "classifier",
    "classifier-bits",
)
"""The names in `supquant.models.ESTIMATORS`, which takes seconds to import."""

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
    method: Annotated[str, typer.Option(help=", ".join(METHODS))] = "sq",
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
    print_line(f"Reading {items} ...", err)
    source = open_items(items, vectors, labels or True, ids)
    print_line(f"Read {len(source):,} rows of {source.dim} numbers.", err)
    from supquant import evaluation  # noqa: PLC0415  # scikit-learn takes seconds to import: words come first
    from supquant.inputs.labels import read_labels  # noqa: PLC0415
    from supquant.model.summary import ModelSummary  # noqa: PLC0415
    from supquant.models import load_model, make_estimator  # noqa: PLC0415
    from supquant.published.anchor_kernel import AnchorKernel  # noqa: PLC0415

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


def _save_interrupted(estimator: Any, output: Path) -> None:
    """Write the best model so far, if there is one."""
    if hasattr(estimator, "codec_"):
        estimator.save(output)
        print_line(f"Interrupted: wrote the best model so far to {output}.", err)
    else:
        err.print("Interrupted before there was a model; nothing was written.")
