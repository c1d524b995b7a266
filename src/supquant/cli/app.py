"""The `supquant` command itself: which commands there are, and how errors and Ctrl-C end them.

A command's module is imported when the command is called, so that ``supquant --version`` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

import supquant
from supquant.cli.console import err, out
from supquant.errors import InputError, SupquantError

WRONG_INPUT = 2
INTERRUPTED = 130


class CommandSource(NamedTuple):
    """Where a command is, and what it does."""

    module: str  # whose `app` has the command
    help: str


OWN_COMMANDS = {
    "demo": CommandSource("supquant.cli.demo", "Train on handwritten digits and write a page of pictures."),
    "fit": CommandSource("supquant.cli.model", "Learn codes from labelled vectors and write a model file."),
    "encode": CommandSource("supquant.cli.model", "Turn vectors into codes, a byte a codebook."),
    "index": CommandSource("supquant.cli.index", "Encode items and write an index of them, or add to one."),
    "search": CommandSource("supquant.cli.index", "Find the items of an index that are nearest to queries."),
    "evaluate": CommandSource("supquant.cli.model", "Measure how well codes answer queries."),
    "info": CommandSource("supquant.cli.model", "Say what a model file or an index folder holds."),
}

LAB_COMMANDS = ("experiment", "results", "paper", "bench")
"""The commands of `supquant_experiments`, which it adds by the entry point group `PLUGINS`."""

PLUGINS = "supquant.commands"


class Commands(TyperGroup):
    """Commands whose expected errors are said in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except SupquantError as error:
            _end(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            named = error.filename and error.strerror
            _end(f"{error.filename}: {error.strerror}" if named else str(error))
        except ModuleNotFoundError as error:
            _end(
                f"this command needs the package {error.name}, which is not installed; "
                "pip install 'supquant[lab]' brings all packages that any command needs"
            )
        except KeyboardInterrupt:
            err.print("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


class LazyCommands(Commands):
    """Commands that are known by name and imported when they are called."""

    sources: ClassVar[dict[str, CommandSource]] = OWN_COMMANDS
    plugins: ClassVar[str | None] = PLUGINS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(self._sources())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the list of commands says of one, without importing it."""
        del ctx
        source = self._sources().get(cmd_name)
        if source is None:
            return None
        return typer.core.TyperCommand(cmd_name, help=source.help, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that was called."""
        if args[0] in LAB_COMMANDS and args[0] not in self._sources():
            raise InputError(
                f"`supquant {args[0]}` is a command of supquant_experiments, which is not installed: "
                "pip install 'supquant[lab]'"
            )
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else self._imported(str(name)), rest

    def _imported(self, name: str) -> Any:
        module = import_module(self._sources()[name].module)
        return typer.main.get_group(module.app).commands[name]

    def _sources(self) -> dict[str, CommandSource]:
        found = dict(self.sources)
        for plugin in entry_points(group=self.plugins) if self.plugins else ():
            found |= plugin.load()
        return found


app = typer.Typer(
    name="supquant",
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn 2- to 16-byte codes from labelled vectors, and search them by meaning.",
)


def _say_version(asked: bool) -> None:
    if asked:
        out.print(f"supquant {supquant.__version__}", highlight=False)
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
