"""The output of the command: tables on standard output, progress on standard error, as bars or as one line a stage."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from supquant.progress import Progress

PIPED_WIDTH = 160
"""Columns of the output where it is no terminal."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, highlight=False)


@contextmanager
def progress_bars() -> Iterator[Callable[[Progress], None]]:
    """Yield a callback that shows one progress bar for each stage; without a terminal it prints one line for each stage."""
    if not err.is_terminal:
        yield _stage_lines()
        return
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[values]}"),
    )
    with Bars(*columns, console=err, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        steps: dict[str, int] = {}

        def show(event: Progress) -> None:
            if event.step < steps.get(event.stage, 0):  # the stage runs once more
                bars.remove_task(tasks.pop(event.stage))
            if event.stage not in tasks:
                tasks[event.stage] = bars.add_task(
                    event.stage, total=event.total, count="", left="", values=""
                )
            steps[event.stage] = event.step
            bars.update(
                tasks[event.stage],
                completed=event.step,
                total=event.total,
                count=f"{event.step}/{event.total}" if event.share is None else f"{100 * event.share:.0f} %",
                left=time_left(event.remaining),
                values="  ".join(f"{name} {value:.4g}" for name, value in event.values.items()),
            )

        yield show


def _stage_lines() -> Callable[[Progress], None]:
    """Return a callback that prints a line when a stage begins: its share of all work, its name, the time left."""
    last: list[str] = [""]

    def show(event: Progress) -> None:
        if event.stage == last[0] or event.step == event.total:  # a stage that is over needs no line
            return
        last[0] = event.stage
        share = "" if event.share is None else f"{100 * event.share:3.0f} %  "
        left = "" if event.remaining is None else f", {time_left(event.remaining)}"
        print_line(f"{share}{event.stage}{left}", err)

    return show


def time_left(seconds: float | None) -> str:
    """Return the time left as text; None is unknown.

    Examples
    --------
    >>> time_left(None), time_left(5.2)
    ('', '5 s left')
    """
    return "" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """Return a number of seconds as text.

    Examples
    --------
    >>> duration(5.2), duration(200), duration(7300)
    ('5 s', '3 min 20 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table; columns after the first are aligned on the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))  # no markup: names that users chose may look like it
    out.print(table)


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print pairs of names and values, one pair a line, without line breaks inside."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print_line(f"{name:<{width}}  {value}")


def print_line(text: str, console: Console = out) -> None:
    """Print text on one line, as it is: without markup and without line breaks."""
    console.print(text, soft_wrap=True, markup=False)
