"""`supquant bench extend`: the gain from a few labelled rows of new classes."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer
from supquant_lab.bench.extend import bench_extend
from supquant_lab.cli.options import JsonFile, check_figures, describe, read_numbers, write_figures
from supquant_lab.datasets import NAMES, load

app = typer.Typer()


@app.command("extend")
def extend(
    dataset: Annotated[str, typer.Option(help=f"{', '.join(NAMES)}; one label a row.")] = "banking77",
    rows: Annotated[
        str, typer.Option(help="Labelled rows of each new class, one number or several: 5,20.")
    ] = "5,20",
    bits: Annotated[int, typer.Option(help="Of a code.", min=8, max=128)] = 64,
    seed: Annotated[int, typer.Option(help="Of split, rows and fits.", min=0)] = 0,
    json: JsonFile = None,
) -> None:
    """Compare extending a model by a few rows of new classes with fitting it anew, under the protocol open."""
    counts = [check_integer(each, "rows", 1) for each in read_numbers(rows, "rows")]
    if bits % 8:
        raise InputError(f"bits must be a multiple of 8, got {bits}")
    check_figures(json)
    record = bench_extend(
        load(dataset),
        rows=counts,
        bits=bits,
        seed=seed,
        on_step=lambda step: err.print(f"Measuring {step} ..."),
    )
    print_facts(
        [
            ("data", f"{record['dataset']}, {record['new_classes']} new classes, {bits} bits, seed {seed}"),
            ("machine", describe(record["machine"])),
        ]
    )
    lines = [["", "", *_maps(record["before"]), "", ""]]
    for each in record["measured"]:
        part = each["part_of_gain"]
        shown = "" if part is None else f"{part:.2f}"
        lines.append(
            [str(each["rows"]), "extend", *_maps(each["extended"]), shown, f"{each['extend_seconds']:.2f}"]
        )
        lines.append(["", "fit anew", *_maps(each["fitted_anew"]), "", f"{each['fit_seconds']:.1f}"])
    print_table(
        ["rows a class", "by", "known", "new", "harmonic", "part of the gain", "s"],
        lines,
        title="MAP among known and new classes, items without labels",
    )
    write_figures(json, record)


def _maps(quality: dict[str, float]) -> list[str]:
    return [f"{quality[name]:.4f}" for name in ("known", "new", "harmonic")]
