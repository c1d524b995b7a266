"""What commands have in common: options, and the file that a benchmark writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.files import check_output
from supquant.errors import InputError
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


def check_figures(path: Path | None) -> None:
    """Refuse a file that could not be written, before anything is measured."""
    if path is not None:
        check_output(path)


def write_figures(path: Path | None, record: dict[str, Any]) -> None:
    """Write what a benchmark measured, if a file was named for it."""
    if path is not None:
        write_record(path, record)


def describe(machine: dict[str, Any]) -> str:
    """Return processor, cores and instruction set in a few words."""
    return f"{machine['processor']}, {machine['cores']} cores, {machine['instruction_set']}"
