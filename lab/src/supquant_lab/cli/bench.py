"""`supquant bench`: the list of benchmarks, and how one becomes a command. Its module is imported when it is called."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from supquant.cli.commands import CommandSource, LazyCommands
from supquant.cli.console import err, print_table
from supquant.cli.files import check_output
from supquant.errors import InputError
from supquant_lab.bench import WrongAnswersError
from supquant_lab.records import write_record

FITS, GPU, OPPONENTS, QUALITY, SEARCHES, SERVICES = (
    f"supquant_lab.cli.bench_{name}"
    for name in ("fits", "gpu", "opponents", "quality", "searches", "services")
)


class BenchCommands(LazyCommands):
    """The benchmarks, by name."""

    sources: ClassVar[dict[str, CommandSource]] = {
        "fit": CommandSource(FITS, "Time a fit against one matrix product over the same rows."),
        "encode": CommandSource(FITS, "Compare encoding speed with that of FAISS."),
        "reading": CommandSource(FITS, "Compare reading Parquet files with reading an .npy file."),
        "query": CommandSource(SEARCHES, "Time a query from a raw vector to its answer."),
        "search": CommandSource(SEARCHES, "Compare the speed of searching with that of FAISS."),
        "cells": CommandSource(SEARCHES, "Compare a search that skips cells with a scan of all codes."),
        "refine": CommandSource(SEARCHES, "Measure the order of first answers by vectors next to codes."),
        "evaluate": CommandSource(SEARCHES, "Time the judging of rankings."),
        "labels": CommandSource(FITS, "Measure what many labels cost, and what codes keep."),
        "quality": CommandSource(QUALITY, "Measure the default model, and what moved since an earlier run."),
        "opponents": CommandSource(OPPONENTS, "Compare the default model with what users take in its place."),
        "extend": CommandSource(FITS, "Measure what a few rows of new classes gain."),
        "odd-fits": CommandSource(FITS, "Fit odd vectors: no fit may be wrong without a warning."),
        "audit": CommandSource(FITS, "Measure what an audit finds of planted faults, and what it costs."),
        "places": CommandSource(FITS, "Measure whether the map of a service shows classes apart."),
        "soak": CommandSource(SERVICES, "Disturb indexes in every way for a while, and check every answer."),
        "serve": CommandSource(SERVICES, "Compare a service with direct searches; load, kill or fuzz it."),
        "cluster": CommandSource(SERVICES, "Fit, encode and search with workers, also when some are lost."),
        "gist": CommandSource(FITS, "Time GIST descriptors."),
        "gpu": CommandSource(GPU, "Compare a GPU with one core, and with torch."),
    }
    plugins = None


bench = typer.Typer(
    cls=BenchCommands, no_args_is_help=True, help="Measure speed and memory, as ratios in one run."
)


@bench.callback()
def _options() -> None:
    """Take no options of its own."""


app = typer.Typer()
app.add_typer(bench, name="bench")

JsonFile = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="A few thousand rows: to see that it runs, not for figures.")
]

FAILED = 1
"""Exit code of a benchmark that found wrong answers or other failures."""


def read_numbers(text: str, name: str) -> list[int]:
    """Return the integers in a text that separates them by commas; `name` is for the error message.

    Examples
    --------
    >>> read_numbers("16,32", "bits")
    [16, 32]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{name} must be integers separated by commas, such as 16,32; got {text!r}"
        ) from None


def benchmark(app: typer.Typer) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]:
    """Return a decorator that makes a command of a function that measures, prints and returns a record.

    The command has the options of the function, and ``--json``, the file that the record is written to. A function with a
    parameter `json` gets the path, too. The command ends with exit code 1 after wrong answers, and if the record has `failures`.
    """

    def register(measure: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        parameters = dict(inspect.signature(measure, eval_str=True).parameters)
        takes_json = parameters.pop("json", None) is not None

        @wraps(measure)
        def command(*, json: Path | None = None, **options: Any) -> None:
            if json is not None:
                check_output(json)  # before anything is measured
            try:
                record = measure(**options, **({"json": json} if takes_json else {}))
            except WrongAnswersError as error:
                err.print(f"Wrong answers: {error}", markup=False, soft_wrap=True)
                raise typer.Exit(FAILED) from None
            write_figures(json, record)
            for failure in record.get("failures", ()):
                err.print(f"Failed: {failure}", markup=False)
            if record.get("failures"):
                raise typer.Exit(FAILED)

        option = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=JsonFile)
        keywords = [each.replace(kind=option.kind) for each in parameters.values()]
        command.__dict__["__signature__"] = inspect.Signature([*keywords, option])
        command.__annotations__ = {**measure.__annotations__, "json": JsonFile}
        app.command(measure.__name__.replace("_", "-"))(command)
        return measure

    return register


def write_figures(path: Path | None, record: dict[str, Any]) -> None:
    """Write what a benchmark measured, if a file was named for it."""
    if path is not None:
        write_record(path, record)


def read_figures(path: Path) -> dict[str, Any]:
    """Return what `write_figures` wrote."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not a record: {error}") from error


def describe(machine: dict[str, Any]) -> str:
    """Return processor, cores and instruction set in a few words."""
    return f"{machine['processor']}, {machine['cores']} cores, {machine['instruction_set']}"


def print_records(
    columns: Mapping[str, str], records: Sequence[Mapping[str, Any]], title: str | None = None
) -> None:
    """Print a table with a row for each record. Columns are given by their headers and formats, such as "{seconds:.1f}"."""
    rows = [[form.format_map(record) for form in columns.values()] for record in records]
    print_table(list(columns), rows, title=title)
