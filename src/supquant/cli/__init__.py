"""The `supquant` command: the one place that prints."""

from __future__ import annotations

from supquant.cli import bench, bench_search, demo, experiment, index, model
from supquant.cli.app import app

__all__ = ["app", "main"]

_ = (bench, bench_search, demo, experiment, index, model)  # importing them adds their commands


def main() -> None:
    """Run the command."""
    app()


def __dir__() -> list[str]:
    return __all__
