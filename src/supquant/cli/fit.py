"""`supquant fit`: learn codes from labelled vectors, and write a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_line, progress_bars
from supquant.cli.ending import INTERRUPTED, announce_end, keeping_result, writing
from supquant.cli.files import check_output
from supquant.cli.options import (
    Device,
    Ids,
    Items,
    Jobs,
    Labels,
    Parameters,
    Vectors,
    check_ids,
    choose_device,
    open_items,
    read_parameters,
)
from supquant.errors import InputError
from supquant.models import METHODS, check_method, make_estimator

PUBLISHED = "With --method published"
"""The heading of the options of the published method in the help."""

METHOD_HELP = f"The default model, sq, or one of {', '.join(METHODS).removeprefix('sq, ')}."
"""Those of other packages, such as supquant-lab, are named in the error about an unknown method."""

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
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "sq",
    bits: Annotated[int, typer.Option(help="Length of a code, a multiple of 8.")] = 64,
    init: Annotated[Path | None, typer.Option(help="A model with a shorter code to start from.")] = None,
    codewords: Annotated[int | None, typer.Option(help="Codewords per codebook, at most 256.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of iterations.")] = None,
    parameters: Parameters = None,
    forecast: Annotated[
        bool,
        typer.Option("--forecast", help="First predict the quality, by a fit without some of the rows."),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same codes.")] = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    anchors: Annotated[
        int | None,
        typer.Option(help="Number of anchors of the kernel features, or 0.", rich_help_panel=PUBLISHED),
    ] = None,
    components: Annotated[
        int | None, typer.Option(help="Dimensions that are quantized.", rich_help_panel=PUBLISHED)
    ] = None,
    projection: Annotated[
        str | None, typer.Option(help="learned, identity or pca.", rich_help_panel=PUBLISHED)
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help="joint or alternating.", rich_help_panel=PUBLISHED)
    ] = None,
    quantization_weight: Annotated[
        float | None,
        typer.Option(help="Weight gamma of the quantization error, above 0.", rich_help_panel=PUBLISHED),
    ] = None,
    constraint_weight: Annotated[
        float | None,
        typer.Option(help="Weight mu of the constraint on codes.", rich_help_panel=PUBLISHED),
    ] = None,
) -> None:
    """Learn codes from labelled vectors and write a model file. Ctrl-C saves the best model so far."""
    choose_device(device)
    check_method(method, bits)
    check_output(output)
    print_line(f"Reading {items} ...", err)
    source = open_items(items, vectors, labels or True, ids)
    print_line(f"Read {len(source):,} rows of {source.dim} numbers.", err)
    options = {
        "n_codewords": codewords,
        "max_iter": max_iter,
        "n_components": components,
        "projection": projection,
        "solver": solver,
        "quantization_weight": quantization_weight,
        "constraint_weight": constraint_weight,
    }
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if init is not None:
        from supquant.models import load_model  # noqa: PLC0415

        settings["init"] = load_model(init)
    if anchors is not None:
        settings["features"] = _anchor_kernel(method, anchors, seed)
    settings |= {"random_state": seed, "n_jobs": jobs, **read_parameters(parameters)}
    estimator = make_estimator(method, bits, settings)
    X, y = source.X, source.labels
    if ids is not None:
        check_ids(source)
    if forecast:
        from supquant import evaluation  # noqa: PLC0415  # as slow to import as the estimators

        print_line(str(evaluation.forecast(estimator, X, y, random_state=seed)))
    with progress_bars() as callback:
        if "callback" in estimator.get_params(deep=False):
            estimator.set_params(callback=callback)
        with keeping_result(lambda: hasattr(estimator, "codec_")):
            try:
                estimator.fit(X, y)
            except KeyboardInterrupt:
                _save_interrupted(estimator, output)
                raise typer.Exit(INTERRUPTED) from None
    with writing(output):
        estimator.save(output)
    for line in str(_summary(estimator, y)).splitlines():
        print_line(line)
    print_line(f"Wrote {output}: {len(X):,} rows learned, {estimator.codec_.n_codebooks} bytes per code.")


def _anchor_kernel(method: str, n_anchors: int, seed: int) -> Any:
    """Return the features of the published method, or None for the vectors themselves."""
    if method in METHODS and method != "published":
        raise InputError(f"--anchors is an option of --method published; the method {method} has no anchors")
    from supquant.published import AnchorKernel  # noqa: PLC0415  # scikit-learn takes seconds to import

    return AnchorKernel(n_anchors, random_state=seed) if n_anchors else None


def _summary(estimator: Any, y: Any) -> Any:
    """Return what the default model says about its fit, or the counts of another model."""
    if hasattr(estimator, "summary_"):
        return estimator.summary_
    from supquant.inputs.labels import read_labels  # noqa: PLC0415  # as slow to import as the estimators
    from supquant.model.summary import ModelSummary  # noqa: PLC0415

    codes = estimator.training_codes_
    return ModelSummary.of(codes, read_labels(y, n_rows=len(codes), missing=True))


def _save_interrupted(estimator: Any, output: Path) -> None:
    """Write the best model so far, if there is one."""
    if hasattr(estimator, "codec_"):
        with writing(output):
            estimator.save(output)
        announce_end(f"Interrupted: wrote the best model so far to {output}.")
    else:
        announce_end("Interrupted before there was a model; nothing was written.")
