"""The `supquant` command: the one place that prints."""

from __future__ import annotations

from supquant.cli import (
    bench,
    bench_evaluate,
    bench_extend,
    bench_gist,
    bench_labels,
    bench_query,
    bench_search,
    demo,
    experiment,
    index,
    model,
    paper,
)
from supquant.cli.app import app

__all__ = ["app", "main"]

# Importing them adds their commands.
_ = (
    bench,
    bench_evaluate,
    bench_extend,
    bench_gist,
    bench_labels,
    bench_query,
    bench_search,
    demo,
    experiment,
    index,
    model,
    paper,
)


def main() -> None:
    """Run the command."""
    app()


def __dir__() -> list[str]:
    return __all__
