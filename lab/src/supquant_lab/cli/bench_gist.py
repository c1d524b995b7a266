"""`supquant bench gist`: the speed of GIST descriptors, and their agreement with the reference."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import print_facts, progress_bars
from supquant_lab.bench.gist import bench_gist
from supquant_lab.cli.options import JsonFile, check_figures, describe, write_figures

app = typer.Typer()


@app.command("gist")
def gist(
    json: JsonFile = None,
    images: Annotated[int, typer.Option(min=1, help="How many pictures of 32 x 32 pixels.")] = 60_000,
) -> None:
    """Time the GIST descriptors of small pictures on all cores, and compare them with the reference."""
    check_figures(json)
    with progress_bars() as callback:
        record = bench_gist(n_images=images, callback=callback)
    agreement = record["agreement"]
    print_facts(
        [
            ("pictures", f"{record['images']:,} of 32 x 32 pixels ({record['pictures']})"),
            ("machine", f"{describe(record['machine'])}, {record['threads']} threads"),
            ("time", f"{record['seconds']:.1f} s, {record['images_per_second']:,.0f} pictures a second"),
            ("work", f"{record['processor_seconds']:.1f} s of processor time"),
            ("load before", f"{record['load_average_before']:.1f}"),
            ("peak memory", f"{record['peak_memory_mb']:.0f} MB, {record['images_mb']:.0f} of them pictures"),
            (
                "agreement",
                "not measured: cifar10_sample.npz is not in the data folder"
                if agreement is None
                else f"lowest correlation of a dimension {agreement['lowest_correlation']:.9f}, largest "
                f"difference {agreement['largest_difference']:.1e} of {agreement['largest_value']:.2f}",
            ),
        ]
    )
    write_figures(json, record)
