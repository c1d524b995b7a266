"""`supquant bench`: the list of benchmarks. The module of a benchmark is imported when it is called."""

from __future__ import annotations

from typing import ClassVar

import typer

from supquant.cli.app import CommandSource, LazyCommands

FITS, SEARCHES, SERVICES = (f"supquant_lab.cli.bench_{name}" for name in ("fits", "searches", "services"))


class BenchCommands(LazyCommands):
    """The benchmarks, by name."""

    sources: ClassVar[dict[str, CommandSource]] = {
        "fit": CommandSource(
            FITS, "Compare the time of a fit with that of a matrix product over the same rows."
        ),
        "encode": CommandSource(FITS, "Compare encoding speed with that of FAISS."),
        "reading": CommandSource(FITS, "Compare reading Parquet files with reading an .npy file."),
        "query": CommandSource(SEARCHES, "Time a query from a raw vector to its answer."),
        "search": CommandSource(SEARCHES, "Compare the speed of searching with that of FAISS."),
        "cells": CommandSource(SEARCHES, "Compare a search that skips cells with a scan of all codes."),
        "evaluate": CommandSource(SEARCHES, "Time the judging of rankings."),
        "labels": CommandSource(FITS, "Measure what many labels cost, and what codes keep."),
        "extend": CommandSource(FITS, "Measure what a few rows of new classes gain."),
        "audit": CommandSource(FITS, "Measure what an audit finds of planted faults, and what it costs."),
        "soak": CommandSource(SERVICES, "Disturb indexes in every way for a while, and check every answer."),
        "serve": CommandSource(
            SERVICES, "Compare a service with direct searches, load it, kill it or fuzz it."
        ),
        "cluster": CommandSource(SERVICES, "Fit, encode and search with workers, also when some are lost."),
        "gist": CommandSource(FITS, "Time GIST descriptors."),
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
