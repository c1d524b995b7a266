"""Parameters of estimators on the command line: --set name=value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the method's estimator, as name=value; may be repeated."),
]


def read_parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the parameters in texts name=value; a value that is no JSON is a string.

    Examples
    --------
    >>> read_parameters(["ridge=0.1", "solver=joint"])
    {'ridge': 0.1, 'solver': 'joint'}
    """
    return dict(map(_parameter, texts or ()))


def read_numbers(text: str, name: str) -> list[int]:
    """Return the whole numbers in a text, in which commas stand between them; `name` is for the error message.

    Examples
    --------
    >>> read_numbers("16,32", "bits")
    [16, 32]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{name} must be whole numbers with commas between them, such as 16,32; got {text!r}"
        ) from None


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"a parameter is given as name=value, such as ridge=0.1; got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
