"""The columns of a table that hold vectors, labels, ids and metadata: named by the caller, or the only ones that fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

import pyarrow as pa
import pyarrow.types as kinds

from supquant.errors import InputError
from supquant.sources.source import Wish
from supquant.sources.values import holds_vectors, is_text

__all__ = ["ID_NAMES", "LABEL_NAMES", "Fields", "choose_fields", "choose_labels_and_ids"]

LABEL_NAMES = ("label", "labels", "y", "class", "category", "target")
"""Names of a column that is taken for the labels if it is the only such column."""

ID_NAMES = ("id", "ids", "_id", "item_id")
"""Names of a column that is taken for the ids if it is the only such column."""

INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
"""Names that pandas gives to a column of row numbers. Such a column is never read as part of a vector."""

_SHOWN_NAMES = 12
"""Maximum number of column names that an error lists."""


@dataclass(frozen=True)
class Fields:
    """Names of columns. `vectors` names one column of lists, or several of numbers if `stacked`."""

    vectors: tuple[str, ...]
    stacked: bool
    labels: str | None
    ids: str | None
    metadata: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all these columns, each once."""
        single = (name for name in (self.labels, self.ids) if name is not None)
        return tuple(dict.fromkeys((*self.vectors, *single, *self.metadata)))


def choose_fields(sample: pa.Table, wish: Wish, source: str, *, named: bool = True) -> Fields:
    """Choose the columns of a table.

    Parameters
    ----------
    sample : pyarrow.Table
        The first rows.
    wish : Wish
        What the caller asked for.
    source : str
        The name of the source in errors.
    named : bool, default=True
        Whether the file names its columns. If not, they are called "0", "1", ..., and all columns not asked for are the vector.

    Returns
    -------
    Fields

    Raises
    ------
    InputError
        If a column does not exist, or if a column that was not named cannot be guessed.
    """
    names = sample.column_names
    twice = [name for name, same in groupby(sorted(names)) if len(list(same)) > 1]
    if twice:
        raise InputError(f"{source} has two columns called {twice[0]!r}")
    notes: list[str] = []
    labels, ids = choose_labels_and_ids(sample, wish, source, notes)
    kept = [] if isinstance(wish.metadata, bool) or wish.metadata is None else list(wish.metadata)
    for name in kept:
        _check_column(sample, name, source)
    rest = [name for name in names if name not in {labels, ids, *kept, *INDEX_NAMES}]
    vectors, stacked = _choose_vectors(sample, wish.vectors, rest, source, named, notes)
    if wish.metadata is True:
        kept = [name for name in names if name not in {labels, ids, *vectors, *INDEX_NAMES}]
    return Fields(vectors, stacked, labels, ids, tuple(kept), tuple(notes))


def choose_labels_and_ids(
    sample: pa.Table, wish: Wish, source: str, notes: list[str]
) -> tuple[str | None, str | None]:
    """Return the columns of labels and ids; None for what is not wanted. What was guessed is added to the notes."""
    labels = _choose_one(sample, wish.labels or False, LABEL_NAMES, "labels", source, notes)
    return labels, _choose_one(sample, wish.ids, ID_NAMES, "ids", source, notes)


def _choose_one(
    sample: pa.Table,
    wish: str | bool | None,
    usual: tuple[str, ...],
    what: str,
    source: str,
    notes: list[str],
) -> str | None:
    """Return the column of the labels or of the ids."""
    if isinstance(wish, str):
        return _check_column(sample, wish, source)
    found = [] if wish is False else [name for name in sample.column_names if name.lower() in usual]
    if not wish and len(found) != 1:
        return None
    if len(found) == 1:
        notes.append(f"{source}: the {what} are read from column {found[0]!r}")
        return found[0]
    problem = f"both {found[0]!r} and {found[1]!r} could be" if found else "no column is known to be"
    raise InputError(
        f"{source}: {problem} the {what}; name their column with {what}= (--{what}): {_listed(sample.column_names)}"
    )


def _choose_vectors(
    sample: pa.Table,
    wish: str | Sequence[str] | None,
    rest: list[str],
    source: str,
    named: bool,
    notes: list[str],
) -> tuple[tuple[str, ...], bool]:
    """Return the columns of the vectors, and whether they are several columns of numbers."""
    if isinstance(wish, str):
        if wish in sample.column_names:
            return (wish,), _is_number_column(sample, wish)
        matched = tuple(name for name in rest if fnmatchcase(name, wish) and _is_number_column(sample, name))
        if not matched or not set(wish) & set("*?["):
            _check_column(sample, wish, source)
        return matched, True
    if wish is not None:
        chosen = tuple(_check_column(sample, name, source) for name in wish)
        return chosen, len(chosen) > 1 or _is_number_column(sample, chosen[0])
    lists = [name for name in rest if holds_vectors(sample[name])]
    if len(lists) == 1:
        notes.append(f"{source}: the vectors are read from column {lists[0]!r}")
        return (lists[0],), False
    if not lists and not named:
        return tuple(rest), True
    families = _numbered(name for name in rest if _is_number_column(sample, name))
    if not lists and len(families) == 1:
        columns = families[0]
        notes.append(
            f"{source}: the vectors are read from {len(columns)} columns, {columns[0]!r} to {columns[-1]!r}"
        )
        return columns, True
    problem = (
        f"both {lists[0]!r} and {lists[1]!r} hold vectors"
        if lists
        else "no column is known to hold the vectors"
    )
    raise InputError(
        f"{source}: {problem}; name the column with vectors= (--vectors), or several with a pattern such as 'x*': "
        f"{_listed(sample.column_names)}"
    )


def _numbered(names: object) -> list[tuple[str, ...]]:
    """Return the families of names that end in consecutive numbers from 0 or 1, such as x0, x1, x2."""
    families: dict[str, dict[int, str]] = {}
    for name in names:  # type: ignore[attr-defined]
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]*)", name)
        if match:
            families.setdefault(match[1], {})[int(match[2])] = name
    whole = []
    for members in families.values():
        first = min(members)
        if len(members) > 1 and first in (0, 1) and max(members) - first == len(members) - 1:
            whole.append(tuple(members[number] for number in sorted(members)))
    return whole


def _is_number_column(sample: pa.Table, name: str) -> bool:
    """Return whether a column holds numbers, or texts the first of which (ignoring blanks) is a number."""
    kind = sample.schema.field(name).type
    if not is_text(kind):
        return bool(kinds.is_integer(kind) or kinds.is_floating(kind))
    first = next(
        (cell for cell in sample[name].slice(0, 1000).to_pylist() if cell and cell.strip()), "not a number"
    )
    try:
        float(first)
    except ValueError:
        return False
    return True


def _check_column(sample: pa.Table, name: str, source: str) -> str:
    if name not in sample.column_names:
        raise InputError(f"{source} has no column {name!r}: {_listed(sample.column_names)}")
    return name


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES])
    return f"its columns are {shown}" + (
        f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    )
