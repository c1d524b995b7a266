"""Parameters of any estimator, as the command takes them: --set name=value."""

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
    """Read name=value, the values as JSON where they are JSON.

    Examples
    --------
    >>> read_parameters(["ridge=0.1", "solver=joint"])
    {'ridge': 0.1, 'solver': 'joint'}
    """
    return dict(map(_parameter, texts or ()))


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"a parameter is given as name=value, such as ridge=0.1; got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
