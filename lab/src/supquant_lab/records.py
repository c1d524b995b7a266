"""Report: the files of measurements. Cells have one file each while a grid runs, one line each afterwards.

A process writes each cell that it finishes to a file of its own, ``<name>.json``. `fold_cells` moves these files into
``<data set>.jsonl.xz``, one line per cell, sorted by name. Readers accept both forms.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import os
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CELL_FIELDS = frozenset({"dataset", "method", "bits", "protocol", "ranking", "seed", "map", "parameters"})
"""A JSON object with these fields is a cell."""

CELL_FOLDERS = ("cells", "curves")
"""The folders of a results folder that hold cells."""

LINES = ".jsonl.xz"
"""The suffix of a compressed file with one record per line."""


@dataclass(frozen=True)
class Record:
    """One JSON object that was read from a file or from a line of a file.

    Attributes
    ----------
    name : str
        The path of its own file in the folder, without the suffix. A line keeps the name that its file had.
    content : object
        What JSON holds, without the name.
    path : Path
        The file that it was read from.
    """

    name: str
    content: Any
    path: Path

    @property
    def is_cell(self) -> bool:
        """Whether it is a measured cell."""
        return _is_cell(self.content)


def cell_name(
    dataset: str, protocol: str, method: str, variant: str, ranking: str, bits: int, seed: int
) -> str:
    """Return the name of a cell; `variant` distinguishes cells of one method with different parameters.

    Examples
    --------
    >>> cell_name("data/photos.npz", "paper", "sq", "alternating", "euclidean", 16, 0)
    'photos-paper-sq-alternating-euclidean-16bits-seed0'
    >>> cell_name("digits", "paper", "mine:Halves", "", "own", 16, 0)
    'digits-paper-mine.Halves-own-16bits-seed0'
    """
    parts = (
        Path(dataset).stem,
        protocol,
        method.replace(":", "."),
        variant,
        ranking,
        f"{bits}bits",
        f"seed{seed}",
    )
    return "-".join(part for part in parts if part)


def read_records(folder: Path, *, subfolders: bool = False) -> list[Record]:
    """Return the records of all .json and .jsonl.xz files of a folder, sorted by name.

    Parameters
    ----------
    folder : Path
    subfolders : bool, default=False
        Whether to read the folders in it as well.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "one.json").write_text('{"map": 0.5}')
    ...     _ = Path(folder, "digits.jsonl.xz").write_bytes(lzma.compress(b'{"name":"two","map":0.25}'))
    ...     [(record.name, record.content) for record in read_records(Path(folder))]
    [('one', {'map': 0.5}), ('two', {'map': 0.25})]
    """
    find = folder.rglob if subfolders else folder.glob
    # Files go first: a file that another process folds meanwhile is then found among the lines.
    files = [record for path in sorted(find("*.json")) for record in _read_file(path, folder)]
    lines = [record for path in sorted(find(f"*{LINES}")) for record in _read_lines(path, folder)]
    newest = {record.name: record for record in (*lines, *files)}
    return [newest[name] for name in sorted(newest)]


def is_recorded(path: Path) -> bool:
    """Whether the record of a file is there: as this file, or as a line of a .jsonl.xz file in its folder."""
    return path.is_file() or any(
        path.stem in _names_of_lines(folded, _version_of(folded)) for folded in path.parent.glob(f"*{LINES}")
    )


def fold_cells(folder: Path) -> dict[str, int]:
    """Move the cells that have files of their own, in a folder and below it, into its .jsonl.xz files.

    One process folds at a time; others wait. A .jsonl.xz file is replaced as a whole before the files that went into it
    are removed, so a stop at any moment loses nothing. A file replaces the line of the same name. The same cells always
    give the same bytes.

    Returns
    -------
    dict
        The number of cells moved, by the name of the .jsonl.xz file.

    Examples
    --------
    >>> import tempfile
    >>> cell = dict.fromkeys(CELL_FIELDS, 0) | {"dataset": "digits"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "one.json").write_text(json.dumps(cell))
    ...     fold_cells(Path(folder)), [path.name for path in Path(folder).iterdir()]
    ({'digits.jsonl.xz': 1}, ['digits.jsonl.xz'])
    """
    with _locked(folder):
        files = [record for path in sorted(folder.rglob("*.json")) for record in _read_file(path, folder)]
        cells = [record for record in files if record.is_cell]
        by_file: dict[str, dict[str, Any]] = defaultdict(dict)
        for record in cells:
            by_file[Path(record.content["dataset"]).stem][record.name] = record.content
        for dataset, contents in by_file.items():
            path = folder / f"{dataset}{LINES}"
            before = {line.name: line.content for line in _read_lines(path, folder)} if path.is_file() else {}
            _write_lines(path, before | contents)
        for path in {record.path for record in cells}:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # the folder itself, and folders that hold something else, stay
                path.parent.rmdir()
    return {f"{dataset}{LINES}": len(contents) for dataset, contents in by_file.items()}


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    r"""Write one JSON object: a line for each field, and one for each entry of a list.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_record(Path(folder, "bench.json"), {"rows": 10, "cells": [{"k": 1}, {"k": 2}]})
    ...     Path(folder, "bench.json").read_text()
    '{\n"rows":10,\n"cells":[\n{"k":1},\n{"k":2}\n]\n}\n'
    """

    def text(value: Any) -> str:
        if isinstance(value, list) and value:
            return "[\n" + ",\n".join(map(_compact, value)) + "\n]"
        return _compact(value)

    fields = ",\n".join(f"{_compact(name)}:{text(value)}" for name, value in record.items())
    _replace(path, f"{{\n{fields}\n}}\n".encode())


def _read_file(path: Path, folder: Path) -> list[Record]:
    """Return the record of a .json file, or those of its list of cells; none if the file has just been removed."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InputError(f"{path} is not a JSON file: {error}; remove it and measure it again") from error
    name = path.relative_to(folder).with_suffix("").as_posix()
    if isinstance(content, list) and content and all(map(_is_cell, content)):
        return [Record(f"{name}/{_name_of(cell)}", cell, path) for cell in content]
    return [Record(name, content, path)]


def _read_lines(path: Path, folder: Path) -> list[Record]:
    parent = path.parent.relative_to(folder)
    found: dict[str, Record] = {}
    try:
        lines = lzma.decompress(path.read_bytes()).splitlines()
    except (lzma.LZMAError, EOFError) as error:
        raise InputError(f"{path} is not a whole .xz file: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            name = (parent / content.pop("name")).as_posix()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}, line {number}, is not a JSON object with a name: {error!r}") from error
        if name in found:
            raise InputError(f"{path}, line {number}: {name} occurs twice; keep one of the lines")
        found[name] = Record(name, content, path)
    return list(found.values())


@lru_cache(maxsize=64)
def _names_of_lines(path: Path, version: tuple[int, int]) -> frozenset[str]:
    """Return the names in a file of lines, which is read once for each version."""
    del version
    return frozenset(record.name for record in _read_lines(path, path.parent))


def _version_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _write_lines(path: Path, contents: Mapping[str, Any]) -> None:
    """Replace a .jsonl.xz file at once by one line for each name."""
    lines = (_compact({"name": name, **contents[name]}) for name in sorted(contents))
    _replace(
        path, lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=lzma.PRESET_EXTREME | 9)
    )


def _replace(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; it is on the disk before any file that it replaces is removed."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, default=str)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into a `with` block; the system frees the lock when the process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_cell(content: Any) -> bool:
    return isinstance(content, dict) and content.keys() >= CELL_FIELDS


def _name_of(cell: Mapping[str, Any]) -> str:
    solver = cell["parameters"].get("solver", "joint")
    identity = (cell[field] for field in ("ranking", "bits", "seed"))
    variant = "" if solver == "joint" else solver
    return cell_name(cell["dataset"], cell["protocol"], cell["method"], variant, *identity)
