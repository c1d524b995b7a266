"""What the commands of `supquant bench` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

JsonFile = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="A few thousand rows: to see that it runs, not for figures.")
]


def describe(machine: dict[str, Any]) -> str:
    """Say in a few words what figures were measured on."""
    return f"{machine['processor']}, {machine['cores']} cores, {machine['instruction_set']}"
