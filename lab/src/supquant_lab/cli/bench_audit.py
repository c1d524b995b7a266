"""`supquant bench audit`: what an audit finds of planted faults, and what it costs."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant_lab.bench.audit import bench_audit
from supquant_lab.cli.options import JsonFile, check_figures, describe, read_numbers, write_figures
from supquant_lab.datasets import load

app = typer.Typer()


@app.command("audit")
def audit(
    datasets: Annotated[
        str, typer.Option(help="Data sets of one label a row, with commas between.")
    ] = "mnist,banking77",
    seeds: Annotated[str, typer.Option(help="Seeds of the planted faults, with commas between.")] = "0,1,2",
    rows: Annotated[int | None, typer.Option(help="Take only this many random rows.", min=1000)] = None,
    json: JsonFile = None,
) -> None:
    """Change 3 % of the labels, copy rows and join two classes; measure what an audit and cleanlab find."""
    check_figures(json)
    records = [
        bench_audit(
            load(name),
            seeds=read_numbers(seeds, "seeds"),
            n_rows=rows,
            on_step=lambda step: err.print(f"Measuring {step} ..."),
        )
        for name in datasets.split(",")
    ]
    print_facts([("machine", describe(records[0]["machine"]))])
    lines = []
    for record in records:
        for each in record["measured"]:
            theirs = each["cleanlab"]
            ours = each["labels"]
            lines.append(
                [
                    f"{record['dataset']}, seed {each['seed']}",
                    f"{ours['average_precision']:.3f}",
                    *(f"{theirs[name]['average_precision']:.3f}" for name in theirs),
                    f"{ours['precision_of_first']:.2f}",
                    f"{each['duplicates_found']} of {each['duplicates_planted']}",
                    f"{each['seconds']:.0f}",
                    f"{each['processor_seconds']:.0f}",
                ]
            )
    print_table(
        [
            "3 % of labels changed",
            "AP",
            *(f"cleanlab: {name}" for name in records[0]["measured"][0]["cleanlab"]),
            "precision of 100",
            "copies found",
            "s",
            "processor s",
        ],
        lines,
    )
    write_figures(json, {"benchmark": "audit", "records": records})
