"""Arrays of one part of a codec within the arrays of the whole: their names have a prefix."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["add_prefix", "split_prefix"]


def add_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays under names that begin with a prefix."""
    return {prefix + name: array for name, array in arrays.items()}


def split_prefix(
    prefix: str, arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the arrays whose names begin with a prefix, under names without it, and all other arrays.

    Examples
    --------
    >>> split_prefix("kernel.", {"kernel.anchors": [1], "weights": [2]})
    ({'anchors': [1]}, {'weights': [2]})
    """
    inner = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
    return inner, {name: arrays[name] for name in arrays if not name.startswith(prefix)}
