"""`supquant bench gpu`."""

from __future__ import annotations

from typing import Any

import typer

from supquant.cli.console import print_table
from supquant_lab.bench.gpu.run import bench_gpu
from supquant_lab.cli.bench import Quick, benchmark, describe, print_records

app = typer.Typer()


@benchmark(app)
def gpu(*, quick: Quick = False) -> dict[str, Any]:
    """Measure fits, encoding and searching on an NVIDIA GPU, against all cores, one core and torch."""
    record = bench_gpu(quick=quick)
    encoding, searching = record["encoding"], record["searching"]
    rows = [
        ("one core", encoding["one_core_rows_per_second"]),
        ("GPU, rows in its memory", encoding["gpu_memory_rows_per_second"]),
        ("GPU, float16 rows of the CPU", encoding["host_float16_rows_per_second"]),
        ("GPU, the same with labels", encoding["host_float16_labelled_rows_per_second"]),
    ]
    print_table(
        [f"{encoding['dataset']} to {encoding['bytes']} bytes", "rows per second"],
        [[name, f"{value:,.0f}"] for name, value in rows],
        title=f"{record['gpu']}; {describe(record['machine'])}",
    )
    print_records(
        {
            "fit of": "{dataset}",
            "rows": "{rows}",
            "CPU, s": "{cpu_seconds:.2f}",
            "GPU, s": "{gpu_seconds:.2f}",
            "first": "{first_gpu_seconds:.2f}",
            "MAP, CPU": "{map_cpu:.4f}",
            "MAP, GPU": "{map_gpu:.4f}",
        },
        record["fitting"],
        title=f"default fits to 8 bytes on {record['machine']['cores']} cores and on the GPU",
    )
    print_records(
        {
            "": "{name}",
            "queries": "{queries}",
            "seconds": "{seconds:.4f}",
            "TB/s of codes": "{terabytes:.2f}",
            "10^9 pairs/s": "{pairs:.0f}",
        },
        [
            {
                **side,
                "terabytes": side["code_bytes_per_second"] / 1e12,
                "pairs": side["pairs_per_second"] / 1e9,
            }
            for side in searching["sides"]
        ],
        title=f"{searching['rows']:,} codes of {searching['bytes']} bytes, k = {searching['k']}",
    )
    print_records(
        {"": "{name}", "asked": "{asked}", "measured": "{measured:.6g}", "reached": "{reached}"},
        record["figures"],
    )
    return record
