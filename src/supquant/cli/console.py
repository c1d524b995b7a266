"""What the command shows: tables on the output, progress with the time left on the error stream."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from supquant.progress import Progress

PIPED_WIDTH = 160  # where the output is no terminal, tables need not fit one

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, highlight=False)


@contextmanager
def progress_bars() -> Iterator[Callable[[Progress], None]]:
    """Give a callback that keeps one bar for each stage; nothing is shown where there is no terminal."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[values]}"),
    )
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def show(event: Progress) -> None:
            if event.stage not in tasks or event.step == 1:
                if event.stage in tasks:
                    bars.remove_task(tasks[event.stage])
                tasks[event.stage] = bars.add_task(event.stage, total=event.total, left="", values="")
            bars.update(
                tasks[event.stage],
                completed=event.step,
                total=event.total,
                left=time_left(event.remaining),
                values="  ".join(f"{name} {value:.4g}" for name, value in event.values.items()),
            )

        yield show


def time_left(seconds: float | None) -> str:
    """Say how much longer it takes.

    Examples
    --------
    >>> time_left(None), time_left(5.2)
    ('', '5 s left')
    """
    return "" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """Say how long something takes.

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
    """Print a table; columns after the first stand on the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))  # as it is: what users call their things may look like markup
    out.print(table)


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair a line, never folded."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        out.print(f"{name:<{width}}  {value}", soft_wrap=True, markup=False)
