"""`supquant bench progress`: whether a fit tells the truth about the time left."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import duration, print_facts
from supquant.errors import InputError
from supquant_lab.bench.progress import JUDGED_FROM, bench_progress
from supquant_lab.cli.options import Download, JsonFile, check_figures, describe, write_figures
from supquant_lab.datasets import NAMES, load

app = typer.Typer()


@app.command("progress")
def progress(
    *,
    dataset: Annotated[
        str, typer.Option(help=f"{', '.join(NAMES)}, or the path of an .npz file with X and y.")
    ] = "digits",
    bits: Annotated[int, typer.Option(help="Length of a code, a multiple of 8.", min=8)] = 64,
    rows: Annotated[int | None, typer.Option(help="Number of random rows; all by default.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of the fit.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option(help="Number of threads; all cores by default.")] = None,
    download: Download = False,
    json: JsonFile = None,
) -> None:
    """Fit the default method, and compare the time left that it told with the one that was true."""
    check_figures(json)
    if bits % 8:
        raise InputError(f"bits must be a multiple of 8, one byte a codebook; got {bits}")
    data = load(dataset, download=download)
    record = bench_progress(data if rows is None else data.sample(rows), bits=bits, seed=seed, n_jobs=jobs)
    print_facts(
        [
            (
                "fit",
                f"{record['rows']:,} x {record['dimensions']}, {bits} bits, {duration(record['seconds'])}",
            ),
            ("machine", f"{describe(record['machine'])}, {record['threads']} threads"),
            ("load before", f"{record['load_average_before']:.1f}"),
            ("first words", f"after {record['first_seconds']:.2f} s"),
            ("longest silence", f"{record['longest_silence']:.1f} s"),
            (
                "time left",
                f"wrong by a factor of {record['worst_ratio']:.2f} from {JUDGED_FROM:.0%} of the time on",
            ),
            ("the same of work", f"{record['worst_ratio_of_work']:.2f}, in processor time"),
            *((stage, f"{seconds:.1f} s of processor time") for stage, seconds in record["stages"].items()),
        ]
    )
    write_figures(json, record)
