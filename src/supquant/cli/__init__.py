"""The `supquant` command: the one place that prints."""

from __future__ import annotations

from supquant.cli import bench, demo, experiment, model
from supquant.cli.app import app

__all__ = ["app", "main"]

_ = (bench, demo, experiment, model)  # importing them adds their commands


def main() -> None:
    """Run the command."""
    app()


def __dir__() -> list[str]:
    return __all__
