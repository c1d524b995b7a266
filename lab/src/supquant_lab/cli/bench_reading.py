"""`supquant bench reading`: vectors from Parquet files to codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import print_facts, print_line
from supquant_lab.bench.encode import bench_reading
from supquant_lab.cli.options import JsonFile, check_figures, describe, write_figures

app = typer.Typer()


@app.command("reading")
def reading(
    *,
    rows: Annotated[int, typer.Option(help="Number of vectors.", min=100)] = 2_000_000,
    columns: Annotated[int, typer.Option(help="Number of dimensions.", min=2)] = 384,
    rounds: Annotated[int, typer.Option(help="How often each side is measured.", min=1)] = 2,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the files: four bytes a number, 3 GB by default.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Stream float16 vectors from Parquet files to codes, and compare with the same vectors in an .npy file."""
    check_figures(json)
    record = bench_reading(
        rows,
        columns,
        rounds=rounds,
        folder=None if folder is None else str(folder),
        on_side=lambda name: print_line(f"Reading {name} ..."),
    )
    sides, speed = record["sides"], record["vectors_per_second"]
    print_facts(
        [
            ("vectors", f"{rows:,} x {columns} float16 in {record['files']} Parquet files, or one .npy file"),
            ("machine", describe(record["machine"])),
            *(
                (
                    f"from {name}",
                    f"{side['seconds']:.1f} s, {speed[name]:,.0f} vectors a second, {side['memory_mb']:.0f} MB above the model",
                )
                for name, side in sides.items()
            ),
            ("speed from Parquet over .npy", f"{record['ratio']:.2f}, asked {record['speed_limit']}"),
            ("memory limit", f"{record['memory_limit_mb']:.0f} MB"),
        ]
    )
    write_figures(json, record)
