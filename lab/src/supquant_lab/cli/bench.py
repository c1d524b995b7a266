"""`supquant bench`: the commands that measure speed and memory, each in its own module."""

from __future__ import annotations

from typing import ClassVar

import typer

from supquant.cli.app import CommandSource, LazyCommands

_HERE = "supquant_lab.cli"


class BenchCommands(LazyCommands):
    """The benchmarks, by name."""

    sources: ClassVar[dict[str, CommandSource]] = {
        "fit": CommandSource(
            f"{_HERE}.bench_fit", "Time a fit against one matrix product over the same rows."
        ),
        "encode": CommandSource(f"{_HERE}.bench_fit", "Compare encoding speed with that of FAISS."),
        "reading": CommandSource(
            f"{_HERE}.bench_reading", "Compare reading Parquet files with reading an .npy file."
        ),
        "query": CommandSource(f"{_HERE}.bench_query", "Time a query from a raw vector to its answer."),
        "search": CommandSource(
            f"{_HERE}.bench_search", "Compare the speed of searching with that of FAISS."
        ),
        "cells": CommandSource(
            f"{_HERE}.bench_cells", "Compare a search that skips cells with a scan of all codes."
        ),
        "evaluate": CommandSource(f"{_HERE}.bench_evaluate", "Time the judging of rankings."),
        "labels": CommandSource(
            f"{_HERE}.bench_labels", "Measure what many labels cost, and what codes keep."
        ),
        "extend": CommandSource(f"{_HERE}.bench_extend", "Measure what a few rows of new classes gain."),
        "audit": CommandSource(
            f"{_HERE}.bench_audit", "Measure what an audit finds of planted faults, and what it costs."
        ),
        "soak": CommandSource(
            f"{_HERE}.bench_soak", "Disturb indexes in every way for a while, and check every answer."
        ),
        "serve": CommandSource(
            f"{_HERE}.bench_serve", "Compare a service with direct searches, load it, kill it or fuzz it."
        ),
        "cluster": CommandSource(
            f"{_HERE}.bench_cluster", "Fit, encode and search with workers, also when some are lost."
        ),
        "gist": CommandSource(f"{_HERE}.bench_gist", "Time GIST descriptors."),
    }
    plugins = None


bench = typer.Typer(
    cls=BenchCommands, no_args_is_help=True, help="Measure speed and memory, as ratios in one run."
)


@bench.callback()
def _options() -> None:
    """Take no options of its own."""


app = typer.Typer()
app.add_typer(bench, name="bench")
