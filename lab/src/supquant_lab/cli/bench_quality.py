"""`supquant bench quality`: the default model on many data sets, cell by cell, compared with an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer

from supquant.cli.console import err, out, print_table
from supquant.errors import InputError
from supquant_lab.bench.quality.comparison import Values, compare, figures_by_line
from supquant_lab.bench.quality.plan import PARTS, plan_cases
from supquant_lab.bench.quality.run import read_folder, run_cases
from supquant_lab.cli.bench import benchmark, read_numbers

app = typer.Typer()


@benchmark(app)
def quality(
    part: Annotated[
        str | None, typer.Option(help=f"Only these, with commas between: {', '.join(PARTS)}.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Only these data sets, with commas between.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Of splits and fits: 0,1,2 by default.")] = None,
    bits: Annotated[str | None, typer.Option(help="Of codes, in place of the planned ones: 16,64.")] = None,
    rows: Annotated[int | None, typer.Option(help="Draw this many rows of a larger data set.", min=1)] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two seeds, fewer rows and lengths: half an hour on two cores.")
    ] = False,
    results: Annotated[
        Path, typer.Option(help="Folder of the records. Those of the same sources are not measured again.")
    ] = Path("results/quality"),
    against: Annotated[
        Path | None, typer.Option(help="Folder of an earlier run: show what moved by more than its noise.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads, all cores by default. Timed fits have two.", min=1)
    ] = None,
) -> dict[str, Any]:
    """Measure the default model: known and new classes, calibration, lengths, extending, finding classes, and time."""
    cases = plan_cases(
        part.split(",") if part else None,
        data.split(",") if data else None,
        seeds=read_numbers(seeds, "seeds") if seeds else None,
        bits=read_numbers(bits, "bits") if bits else None,
        rows=rows,
        quick=quick,
    )
    earlier = None if against is None else read_folder(against)
    if earlier == []:
        raise InputError(f"{against} holds no record of quality; write some with --results {against}")
    records = run_cases(
        cases,
        results,
        n_jobs=jobs,
        on_case=lambda number, name: err.print(
            f"Measuring {name} ({number} of {len(cases)}) ...", soft_wrap=True
        ),
    )
    _print_means(records)
    moves = [] if earlier is None else _print_moves(earlier, records)
    return {"benchmark": "quality", "records": records, "moves": moves}


def _print_means(records: Sequence[dict[str, Any]]) -> None:
    """Print a table for each kind: the means over seeds, and the standard deviations."""
    found = figures_by_line(records)
    by_line = {
        line: found[line] for line in sorted(found, key=lambda line: (line.data, line.rows or 0, *line[3:]))
    }
    for kind in dict.fromkeys(line.kind for line in found):
        lines = {line.label: figures for line, figures in by_line.items() if line.kind == kind}
        names = list(dict.fromkeys(name for figures in lines.values() for name in figures))
        rows = [
            [label, *(_mean_text(figures.get(name)) for name in names)] for label, figures in lines.items()
        ]
        print_table([kind, *(name.replace("_", " ") for name in names)], rows)


def _mean_text(values: Values | None) -> str:
    if values is None:
        return ""
    found = list(values.values())
    spread = f" ±{_number(stdev(found), 3)}" if len(found) > 1 else ""
    return f"{_number(mean(found), 3)}{spread}"


def _number(value: float, decimals: int = 4, sign: str = "") -> str:
    """Return a number with these decimals if it is a fraction, otherwise with four digits."""
    return f"{value:{sign}.{decimals}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{sign}.4g}"


def _print_moves(
    earlier: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Print and return the figures that moved by more than their noise, the worse ones first."""
    for field, what in (
        ("protocol", "the lab measures in another way"),
        ("machine", "machine or packages are others"),
    ):
        if {str(record[field]) for record in earlier} != {str(record[field]) for record in records}:
            out.print(f"Compare with care: {what} than in the earlier run.")
    moves = compare(earlier, records)
    moved = sorted((move for move in moves if move.is_real), key=lambda move: move.is_better)
    out.print(f"{len(moved)} of {len(moves)} figures moved by more than their noise.")
    if moved:
        print_table(
            ["", "figure", "before", "after", "difference", "noise", ""],
            [
                [
                    f"{move.line.kind}, {move.line.label}",
                    move.figure,
                    *map(_number, (move.before, move.after)),
                    _number(move.difference, sign="+"),
                    _number(move.noise),
                    "better" if move.is_better else "worse",
                ]
                for move in moved
            ],
        )
    return [
        {
            "cell": f"{move.line.kind}, {move.line.label}",
            "figure": move.figure,
            "before": move.before,
            "after": move.after,
            "noise": move.noise,
            "moved": move.is_real,
        }
        for move in moves
    ]
