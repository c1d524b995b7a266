"""Which format a file has, and which files a folder has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from supquant.errors import InputError
from supquant.sources.matrices import BINARY_FILES

__all__ = ["FORMATS", "KNOWN_ENDINGS", "ending_of", "files_of", "format_of"]

FORMATS = {
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "csv": (".csv", ".tsv", ".txt"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "npy": (".npy",),
    "npz": (".npz",),
    "hdf5": (".h5", ".hdf5"),
    "binary": BINARY_FILES,
}
"""Endings of the files of each format. CSV and JSON lines may be compressed (.gz, .bz2, .zst)."""

_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"\x89HDF\r\n\x1a\n": "hdf5",
}
"""The first bytes of formats that have a signature, which counts more than the ending of the name."""

_COMPRESSED = (".gz", ".bz2", ".zst")
"""Endings of compressed files."""

KNOWN_ENDINGS = tuple(ending for endings in FORMATS.values() for ending in endings)
"""All endings of files that can be read."""


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a folder in the order of their names."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path} is not a regular file" if path.exists() else f"no such file: {path}")
    hidden = ("_", ".")
    found = [
        file
        for file in sorted(path.rglob("*"), key=_natural)
        if file.is_file() and not any(part.startswith(hidden) for part in file.relative_to(path).parts)
    ]
    if not found:
        raise InputError(f"{path} is a folder without files")
    return found


def _natural(path: Path) -> list[Any]:
    """Return a sort key that puts part-10 after part-9."""
    return [
        [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", part)]
        for part in path.parts
    ]


def format_of(path: Path) -> str:
    """Return the format of a file, by its signature if it has one, and otherwise by its ending."""
    with path.open("rb") as file:
        start = file.read(8)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    ending = ending_of(path)
    found = [kind for kind, endings in FORMATS.items() if ending in endings]
    if not found:
        raise InputError(f"cannot read {path}: known formats end in {', '.join(KNOWN_ENDINGS)}")
    if not start:
        raise InputError(f"{path} is empty")
    if found[0] in _MAGIC.values():
        raise InputError(f"{path} is not a {found[0]} file: it begins with {start!r}")
    return found[0]


def ending_of(path: Path) -> str:
    """Return the ending of a name in lower case, ignoring one for compression."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _COMPRESSED:
        endings.pop()
    return endings[-1] if endings else ""
