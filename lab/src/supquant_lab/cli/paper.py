"""`supquant paper`: every table and figure of the paper, and of questions beyond it, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import duration, err, out, progress_bars, time_left
from supquant.cli.files import make_folder
from supquant.errors import InputError
from supquant_lab.cli.experiment import Download, FitsFolder
from supquant_lab.datasets import load
from supquant_lab.grid import Outcome, Task, Workplace, run_grid
from supquant_lab.paper import render_report
from supquant_lab.paper.plan import ITEMS, paper_tasks, quick_tasks

app = typer.Typer()

RESULTS = Path("results/paper")
"""The folder of the results by default."""


@app.command()
def paper(
    results: Annotated[
        Path, typer.Option(help="Folder of the result files; what is there already is not run again.")
    ] = RESULTS,
    report: Annotated[
        Path | None, typer.Option(help="Folder of the report; that of the results by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version on handwritten digits, in a few minutes.")
    ] = False,
    only: Annotated[
        str | None, typer.Option(help=f"Some of: {', '.join(ITEMS)}; with commas between them.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Data sets, with commas between them: those of the plan by default, any that `experiment` takes, "
            "or the path of an .npz file with X and y."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Methods, with commas between them: those of the plan by default, any that `experiment` takes, "
            "or a class of your own as package.module:Class."
        ),
    ] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Run nothing: make the report from the results that are there.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Run nothing: list what would be run.")] = False,
    keep: FitsFolder = None,
    download: Download = False,
    time_limit: Annotated[float, typer.Option(help="Seconds that one fit may take.", min=1)] = 600,
    workers: Annotated[int, typer.Option(help="Processes that run at once.", min=1)] = 1,
    jobs: Annotated[int | None, typer.Option(help="Threads of each; all cores by default.")] = None,
) -> None:
    """Measure what the paper measured, and more, and write a report; a stopped run continues where it was."""
    if quick and (only, dataset, method) != (None, None, None):
        raise InputError(
            "--quick is one small version of everything; leave out --only, --dataset and --method"
        )
    tasks = quick_tasks() if quick else paper_tasks(_names(only), _names(dataset), _names(method))
    if not tasks:
        raise InputError("nothing in the plan has these data sets, parts and methods together")
    if quick and results == RESULTS:
        results = results.with_name("paper-quick")
    workplace = Workplace(results, keep, time_limit, jobs)
    if plan:
        _print_plan(tasks, workplace)
        return
    failed = 0
    if render and not results.is_dir():
        raise InputError(f"there are no results to render: no such folder: {results}")
    if not render:
        for folder in (results, report, keep):
            if folder is not None:
                make_folder(folder)
        _check_data([task for task in tasks if not workplace.has(task)], download=download)
        failed = _run(tasks, workplace, workers=0 if quick else workers)
    made = render_report(results, report or results)
    out.print(f"report: {made.page}", soft_wrap=True, markup=False)
    if failed:
        err.print(f"{failed} of {len(tasks)} tasks failed; {results / 'failed'} says why", markup=False)
        raise typer.Exit(1)


def _check_data(tasks: list[Task], *, download: bool) -> None:
    """Load every data set once, so that a missing one is an error before hours of work."""
    for name in sorted({task.dataset for task in tasks}):
        try:
            with progress_bars() as callback:
                load(name, download=download, callback=callback)
        except InputError as error:
            raise InputError(f"{error} Or leave {name} out: --dataset names those to run.") from error


def _run(tasks: list[Task], workplace: Workplace, workers: int) -> int:
    """Run tasks, print the outcome of each, and return the number of those that failed."""
    left = [task for task in tasks if not workplace.has(task)]
    expected = sum(task.expected_seconds for task in left) / max(1, workers)
    out.print(
        f"{len(tasks)} tasks, {len(tasks) - len(left)} already done; about {duration(expected)} to go "
        "(on two cores like those of the plan)"
    )
    failed = 0
    for number, outcome in enumerate(run_grid(left, workplace, workers=workers), 1):
        failed += outcome.status == "failed"
        out.print(_line(outcome, number, len(left)), soft_wrap=True, markup=False)
    return failed


def _line(outcome: Outcome, number: int, total: int) -> str:
    name = f"[{number}/{total}] {outcome.task.name}"
    if outcome.status == "failed":
        return f"{name}: FAILED: {outcome.error.strip().splitlines()[-1]}"
    return f"{name}: {duration(outcome.seconds)}, {time_left(outcome.seconds_left)}"


def _print_plan(tasks: list[Task], workplace: Workplace) -> None:
    for task in sorted(tasks, key=lambda task: task.expected_seconds):
        state = "there" if workplace.has(task) else duration(task.expected_seconds)
        out.print(f"{state:>12}  {task.name}", soft_wrap=True, markup=False)
    left = sum(task.expected_seconds for task in tasks if not workplace.has(task))
    out.print(f"{duration(left):>12}  in all")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]
