"""The `supquant` command. No other part of the library prints."""

from __future__ import annotations

from supquant.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    app()


def __dir__() -> list[str]:
    return __all__
