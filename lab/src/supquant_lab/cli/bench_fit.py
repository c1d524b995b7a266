"""`supquant bench fit` and `supquant bench encode`: speed as ratios in one run, with quality beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, out, print_facts, print_table, progress_bars
from supquant_lab.bench.encode import bench_encode
from supquant_lab.bench.fit import LABELS_COMMAND, bench_fit
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

app = typer.Typer()


@app.command("fit")
def fit(
    json: JsonFile = None,
    quick: Quick = False,
    default_fits: Annotated[bool, typer.Option(help="Time default fits beside other libraries too.")] = True,
    memory: Annotated[bool, typer.Option(help="Measure the memory of fitting mapped files too.")] = True,
    folder: Annotated[Path | None, typer.Option(help="Where those files (1.6 GB) are made.")] = None,
) -> None:
    """Time a fit against one matrix product over the same rows, and watch the memory of large fits."""
    check_figures(json)
    with progress_bars() as callback:
        record = bench_fit(
            quick=quick,
            default_fits=default_fits,
            memory=memory,
            memory_folder=None if folder is None else str(folder),
            callback=callback,
            on_memory=lambda rows: err.print(f"Fitting a memory-mapped file of {rows:,} rows ..."),
        )
    _print_setting(record, f"{record['rows']:,} rows, {record['features']} features, {record['bits']} bits")
    print_facts(
        [
            ("fit", f"{record['fit_seconds']:.2f} s, {record['n_iter']} iterations, MAP {record['map']:.4f}"),
            ("one X'X in float32", f"{record['product_seconds']:.3f} s"),
            ("ratio", f"{record['ratio']:.1f} (limit {record['ratio_limit']:.0f})"),
        ]
    )
    for name, default in record["default_fits"].items():
        print_facts(_default_facts(name, default))
    out.print(f"A fit of a thousand labels: {LABELS_COMMAND}")
    if record["memory"]:
        print_table(
            ["rows", "peak anonymous MB", "limit MB", "seconds", "iterations"],
            [
                [
                    f"{use['rows']:,}",
                    f"{use['peak_anonymous_mb']:.0f}",
                    f"{use['limit_mb']:.0f}",
                    f"{use['fit_seconds']:.0f}",
                    str(use["max_iter"]),
                ]
                for use in record["memory"]
            ],
            title="Fitting memory-mapped float32 files of 1,000 columns to 64 bits",
        )
    write_figures(json, record)


@app.command("encode")
def encode(json: JsonFile = None, quick: Quick = False) -> None:
    """Compare encoding speed with the LocalSearchQuantizer of FAISS, one thread each."""
    check_figures(json)
    with progress_bars() as callback:
        record = bench_encode(quick=quick, callback=callback)
    _print_setting(record, f"{record['dimensions']} dimensions to {record['bits']} bits, one thread")
    print_table(
        ["", "vectors a second", "relative error", "vectors timed"],
        [
            [
                side["name"],
                f"{side['vectors_per_second']:,.0f}",
                f"{side['relative_error']:.4f}",
                f"{side['vectors']:,}",
            ]
            for side in record["sides"]
        ],
    )
    out.print(f"ratio {record['ratio']:.1f} (at least {record['ratio_limit']:.0f} wanted)")
    write_figures(json, record)


def _default_facts(name: str, record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about one default fit."""
    qualities = [
        f"{record[key]:.3f}" for key in ("map_labelled", "map_unlabelled") if record[key] is not None
    ]
    size = f"{record['rows']:,} rows to {record['bits']} bits, one thread"
    facts = [
        (f"default fit of {name}", f"{size}: {record['fit_seconds']:.1f} s of processor time"),
        ("expected MAP", f"{', '.join(qualities)} (items with labels, without labels)"),
    ]
    for each in record.get("regressions", ()):
        beside = f"{each['seconds']:.1f} s, {each['iterations']} iterations, ratio {each['ratio']:.1f}"
        facts.append((f"LogisticRegression(C=10, tol={each['tolerance']:g})", beside))
    if "product_seconds" in record:
        rows, columns = record["product_shape"]
        facts.append((f"one X'X of ({rows}, {columns})", f"{record['product_seconds']:.1f} s"))
    return [*facts, ("ratio", f"{record['ratio']:.2f} (limit {record['ratio_limit']:g})")]


def _print_setting(record: dict[str, Any], what: str) -> None:
    print_facts([("data", f"{record['dataset']}, {what}"), ("machine", describe(record["machine"]))])
