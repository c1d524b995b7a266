"""The output of the command: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
import time
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
"""Width of the output in columns if it does not go to a terminal."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, highlight=False)


LINE_SECONDS = 10.0
"""Without a terminal, a stage prints a line after at least this many seconds."""


@contextmanager
def progress_bars() -> Iterator[Callable[[Progress], None]]:
    """Yield a callback that shows each stage and its time: as a bar in a terminal, as lines elsewhere."""
    if not err.is_terminal:
        yield _stage_lines()
        return
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[values]}"),
    )
    with Bars(*columns, console=err, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        steps: dict[str, int] = {}

        def show(event: Progress) -> None:
            if event.step < steps.get(event.stage, 0):  # the stage runs again
                bars.remove_task(tasks.pop(event.stage))
            total = event.total if event.step else None  # a bar without a total moves to and fro
            if event.stage not in tasks:
                tasks[event.stage] = bars.add_task(event.stage, total=total, done="", left="", values="")
            steps[event.stage] = event.step
            bars.update(
                tasks[event.stage],
                completed=event.step,
                total=total,
                done=_done(event),
                left=time_left(event.remaining),
                values="  ".join(f"{name} {value:.4g}" for name, value in event.values.items()),
            )

        yield show


def _stage_lines() -> Callable[[Progress], None]:
    """Return a callback that prints a line when a stage begins and every few seconds: what is done, the time so far and left."""
    began = time.monotonic()
    stage, printed = "", began

    def show(event: Progress) -> None:
        nonlocal stage, printed
        now = time.monotonic()
        is_new = event.stage != stage
        if event.step == event.total or not (is_new or now - printed >= LINE_SECONDS):
            return
        stage, printed = event.stage, now
        told = (event.stage, _done(event), f"{duration(now - began)} so far", time_left(event.remaining))
        print_line(", ".join(filter(None, told)), err)

    return show


def _done(event: Progress) -> str:
    """Return what is done of a stage: a percentage if the time left is known, and otherwise the number of steps."""
    if not event.step or event.total == 1:
        return ""
    if event.total is None:
        return f"{event.step:,}"
    if event.remaining is None:
        return f"{event.step:,}/{event.total:,}"
    return f"{100 * event.step / event.total:.0f}%"


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
    """Print names and values, one pair per line, without line breaks inside."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print_line(f"{name:<{width}}  {value}")


def print_line(text: str, console: Console = out) -> None:
    """Print text on one line, as it is: without markup and without line breaks."""
    console.print(text, soft_wrap=True, markup=False)
