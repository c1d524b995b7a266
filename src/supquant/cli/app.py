"""The `supquant` command itself: how errors and Ctrl-C end it."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer
from sklearn.exceptions import NotFittedError
from typer.core import TyperGroup

from supquant.cli.console import err, out
from supquant.errors import SupquantError
from supquant.experiments.machine import package_version

WRONG_INPUT = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """Commands whose expected errors are said in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except (SupquantError, NotFittedError) as error:
            _end(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            named = error.filename and error.strerror
            _end(f"{error.filename}: {error.strerror}" if named else str(error))
        except ModuleNotFoundError as error:
            _end(f"this command needs the package {error.name}, which is not installed")
        except KeyboardInterrupt:
            err.print("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="supquant",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn 2- to 16-byte codes from labelled vectors, and search them by meaning.",
)


def _say_version(asked: bool) -> None:
    if asked:
        out.print(f"supquant {package_version()}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Take what is asked of the command itself."""


def _end(message: str) -> NoReturn:
    """Say in one line what is wrong; something the user can put right."""
    err.print(f"Error: {' '.join(message.split())}", markup=False, soft_wrap=True)
    raise typer.Exit(WRONG_INPUT) from None
