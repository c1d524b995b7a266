"""The `supquant` command. No other part of the library prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.cli.commands import app

__all__ = ["app", "main"]

__getattr__ = lazy_names(__name__, {"commands": ("app",)})


def main() -> None:
    """Run the command. Ctrl-C ends it in one line from here on, so what takes long to import is imported later."""
    from supquant.cli.ending import run_command  # noqa: PLC0415

    def run() -> None:
        from supquant.cli.commands import app  # noqa: PLC0415

        app()

    run_command(run)


def __dir__() -> list[str]:
    return __all__
