"""The commands of the experiments: added to those of `supquant`, and on their own in `supquant-lab`."""

from __future__ import annotations

import typer

from supquant.cli.commands import CommandSource, LazyCommands
from supquant.cli.ending import run_command

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = {
    "experiment": CommandSource(
        "supquant_lab.cli.experiment", "Measure a method on a data set, with a file for each code length."
    ),
    "results": CommandSource(
        "supquant_lab.cli.experiment", "Make one table from the files that experiments wrote."
    ),
    "paper": CommandSource(
        "supquant_lab.cli.paper", "Measure what the paper measured, and more, and write a report."
    ),
    "bench": CommandSource("supquant_lab.cli.bench", "Measure speed and memory, as ratios in one run."),
}
"""The commands that `supquant` takes from the entry point."""


class LabCommands(LazyCommands):
    """The commands of the experiments alone."""

    sources = COMMANDS
    plugins = None


app = typer.Typer(
    name="supquant-lab",
    cls=LabCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Compare methods on data sets, repeat the paper, and measure speed.",
)


@app.callback()
def _options() -> None:
    """Take no options of its own."""


def main() -> None:
    """Run the command."""
    run_command(app)


def __dir__() -> list[str]:
    return __all__
