"""The `supquant` command: the list of its commands, and how errors and Ctrl-C end them.

The module of a command is imported when the command is called, so that ``supquant --version`` is fast.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, requires
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

import supquant
from supquant.cli.console import err, out
from supquant.cli.ending import INTERRUPTED
from supquant.errors import SupquantError

WRONG_INPUT = 2
"""Exit code after an error that the user can correct."""

UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for unknown commands, options and values. Its own module depends on the version of typer."""


class CommandSource(NamedTuple):
    """The module of a command, and what the command does."""

    module: str  # its `app` has the command
    help: str


OWN_COMMANDS = {
    "fit": CommandSource("supquant.cli.fit", "Learn codes from labelled vectors and write a model file."),
    "index": CommandSource("supquant.cli.index", "Encode items and write an index of them, or add to one."),
    "search": CommandSource("supquant.cli.index", "Find the items of an index that are nearest to queries."),
    "add": CommandSource("supquant.cli.index", "Encode items and add them to an index."),
    "update": CommandSource("supquant.cli.index", "Encode items of an index again."),
    "remove": CommandSource("supquant.cli.index", "Remove items from an index, by their ids."),
    "extend": CommandSource(
        "supquant.cli.extend", "Add classes to a model or an index, from a few labelled rows."
    ),
    "serve": CommandSource("supquant.cli.serve", "Answer searches and changes of indexes over HTTP."),
    "encode": CommandSource("supquant.cli.model", "Turn vectors into codes, one byte per codebook."),
    "evaluate": CommandSource("supquant.cli.model", "Measure how well codes answer queries."),
    "info": CommandSource("supquant.cli.model", "Describe a model file or an index folder."),
    "audit": CommandSource(
        "supquant.cli.audit", "Find labels that look wrong, duplicates and confused classes."
    ),
    "discover": CommandSource(
        "supquant.cli.discover", "Find the classes that nobody has labelled, to be named."
    ),
    "demo": CommandSource("supquant.cli.demo", "Train on handwritten digits and write a page of pictures."),
}
"""The commands of the library."""

PLUGINS = "supquant.commands"
"""The entry point group of packages that add commands."""


class LazyCommands(TyperGroup):
    """Commands that are imported when they are called. Their expected errors are printed in one line, without a traceback."""

    sources: ClassVar[dict[str, CommandSource]] = OWN_COMMANDS
    plugins: ClassVar[str | None] = PLUGINS

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options before the command."""
        try:
            return super().make_context(*arguments, **options)
        except UsageError as error:
            _end_misused(error)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            _end_misused(error)
        except SupquantError as error:
            _end(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            named = error.filename and error.strerror
            _end(f"{error.filename}: {error.strerror}" if named else str(error))
        except ModuleNotFoundError as error:
            extra = _extra_with(str(error.name))
            installed = f"; pip install 'supquant[{extra}]' installs what it needs" if extra else ""
            _end(f"this command needs the package {error.name}, which is not installed{installed}")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(self._sources())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its name and help alone, without importing its module."""
        del ctx
        source = self._sources().get(cmd_name)
        if source is None:
            return None
        return typer.core.TyperCommand(cmd_name, help=source.help, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was called, imported from its module."""
        name, found, rest = super().resolve_command(ctx, args)
        if found is not None:
            module = import_module(self._sources()[str(name)].module)
            found = typer.main.get_group(module.app).commands[str(name)]
        return name, found, rest

    def _sources(self) -> dict[str, CommandSource]:
        return self.sources | (_plugged(self.plugins) if self.plugins else {})


@cache  # to find them, the metadata of every installed package is read
def _plugged(group: str) -> dict[str, CommandSource]:
    """Return the commands that packages add by an entry point group."""
    return {name: source for plugin in entry_points(group=group) for name, source in plugin.load().items()}


app = typer.Typer(
    name="supquant",
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn 2- to 16-byte codes from labelled vectors, and search them by meaning.",
)


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"supquant {supquant.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Read the options of `supquant` itself."""


def _extra_with(module: str) -> str | None:
    """Return the first extra of supquant that brings a module, by the requirements in its metadata."""
    try:
        needed = requires("supquant") or []
    except PackageNotFoundError:  # the sources run in place
        return None
    for each in needed:
        found = re.fullmatch(r"""([\w-]+).*extra == ["'](\w+)["'].*""", each)
        if found and found[1].replace("-", "_") == module.partition(".")[0]:
            return found[2]
    return None


def _end_misused(error: Any) -> NoReturn:
    """Print in one line what is wrong with a command line, and where to read what is right. No arguments print the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    wrong = error.format_message().removesuffix(".")
    _end(f"{wrong}; '{error.ctx.command_path} --help' lists what there is" if error.ctx else wrong)


def _end(message: str) -> NoReturn:
    """Print an error in one line and exit."""
    err.print(f"Error: {' '.join(message.split())}", markup=False, soft_wrap=True)
    raise typer.Exit(WRONG_INPUT) from None
