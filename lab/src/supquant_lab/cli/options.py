"""What commands have in common: options, and how a benchmark becomes a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_table
from supquant.cli.files import check_output
from supquant_lab.bench import WrongAnswersError
from supquant_lab.records import write_record

JsonFile = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="A few thousand rows: to see that it runs, not for figures.")
]
FitsFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for fits, so that a cell that is measured again needs no training."),
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch data sets that are not there and are public.")
]

FAILED = 1
"""Exit code of a benchmark that found wrong answers or other failures."""


def benchmark(
    app: typer.Typer,
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]:
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
        app.command(measure.__name__)(command)
        return measure

    return register


def write_figures(path: Path | None, record: dict[str, Any]) -> None:
    """Write what a benchmark measured, if a file was named for it."""
    if path is not None:
        write_record(path, record)


def describe(machine: dict[str, Any]) -> str:
    """Return processor, cores and instruction set in a few words."""
    return f"{machine['processor']}, {machine['cores']} cores, {machine['instruction_set']}"


def print_records(
    columns: Mapping[str, str], records: Sequence[Mapping[str, Any]], title: str | None = None
) -> None:
    """Print a table with a row for each record. Columns are given by their headers and formats, such as "{seconds:.1f}"."""
    rows = [[form.format_map(record) for form in columns.values()] for record in records]
    print_table(list(columns), rows, title=title)
