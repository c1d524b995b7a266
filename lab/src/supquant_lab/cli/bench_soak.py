"""`supquant bench soak`: disturbed work on indexes, with every answer checked."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant_lab.cli.options import JsonFile, check_figures, describe, write_figures
from supquant_lab.soak.run import run_soak

app = typer.Typer()


@app.command("soak")
def soak(
    minutes: Annotated[float, typer.Option(help="How long to go on.")] = 5.0,
    processes: Annotated[int, typer.Option(help="How many soak at once, with children of their own.")] = 2,
    seed: Annotated[int, typer.Option(help="Of all choices.", min=0)] = 0,
    json: JsonFile = None,
) -> None:
    """Change, search, save, load, kill, interrupt, starve and damage indexes at random, and check every answer."""
    check_figures(json)
    err.print(f"Soaking for {minutes:g} minutes ...")
    record = run_soak(minutes, processes, seed)
    print_facts(
        [
            ("time", f"{record['minutes']:.1f} minutes, {processes} processes, seed {seed}"),
            ("machine", describe(record["machine"])),
        ]
    )
    asked = record["asked_an_hour"]
    print_table(
        ["what", "how often", "asked of an hour"],
        [
            [name, f"{n:,}", f"{asked[name]:,}" if name in asked else ""]
            for name, n in record["counts"].items()
        ],
    )
    write_figures(json, record)
    for failure in record["failures"]:
        err.print(f"Failed: {failure['trial']}, seed {failure['seed']}\n{failure['error']}")
    if record["failures"]:
        raise typer.Exit(1)
