"""An index as a folder: immutable files named by their content, and a manifest that names them.

    manifest.json                   the segments and their files, with a digest of itself. To replace it is the only commit
    codec-<digest>.safetensors
    codes-<digest>.safetensors      codes of one segment
    ids-<digest>.safetensors        its ids, unless they are consecutive numbers
    live-<digest>.safetensors       which of its rows are left, if some were removed

A save writes the files that the folder lacks, replaces the manifest, and deletes the files that the manifest does not name. So a
crash leaves the old index or the new one, a reader sees one of the two, and the same content gives the same bytes.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from supquant.codec import AnyCodec, codec_of_file
from supquant.errors import FileFormatError, InputError
from supquant.index.bitmaps import LiveRows
from supquant.index.integer_ids import ListedIntegers, NumberRange
from supquant.index.manifest import (
    FILE_NAME,
    FORMAT,
    MANIFEST,
    VERSION,
    manifest_bytes,
    names_in_manifest,
    read_manifest,
)
from supquant.index.parts import Part
from supquant.index.row_ids import Ids
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.stored import Stored, StoredArrays, open_stored
from supquant.index.string_ids import StringIds
from supquant.storage import ArrayFile, PackedArrays, write_file_atomically

__all__ = ["MANIFEST", "StoredCodec", "load_index", "save_index"]

_UNFINISHED_NAME = re.compile(r"\.supquant-[0-9a-f]+\.tmp")
"""The names of files that `write_file_atomically` did not finish."""

_FREE_TRIES = 3
"""A reader tries this number of times before it keeps out those who save."""


class StoredCodec(Stored):
    """A codec that can be written to a file of the folder.

    Parameters
    ----------
    codec : AnyCodec
        The codec.
    file : ArrayFile, default=None
        The file that the codec was read from.
    """

    KIND: ClassVar[str] = "codec"

    def __init__(self, codec: AnyCodec, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self.codec = codec

    def _pack(self) -> PackedArrays:
        return self.codec.pack()


def save_index(folder: Path, codec: StoredCodec, snapshot: Snapshot) -> None:
    """Write an index to a folder. An index in the folder is replaced.

    Parameters
    ----------
    folder : Path
        A new folder, an empty one, or one that holds an index.
    codec : StoredCodec
        The codec of the index.
    snapshot : Snapshot
        The rows of the index.

    Raises
    ------
    InputError
        If `folder` is a file or holds something else.
    OSError
        If a file cannot be written.
    """
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; an index is saved as a folder")
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        with _open_folder(folder.parent) as parent:
            os.fsync(parent)
    with _lock_folder(folder):
        _check_replaceable(folder)
        try:
            manifest = _write_parts(folder, codec, snapshot)
            write_file_atomically(folder / MANIFEST, manifest_bytes(manifest))
        finally:  # also after a failure or Ctrl-C: then the old manifest may still be there
            _delete_unnamed_files(folder)


def load_index(folder: Path, *, mapped: bool) -> tuple[StoredCodec, Snapshot]:
    """Open the index in a folder. Codes, ids and removals are checked at their first use.

    Other processes may save to the folder meanwhile. A save deletes the files that its manifest does not name. So if a file is
    missing, the manifest is read again, at last while saves are kept out.

    Parameters
    ----------
    folder : Path
        The folder.
    mapped : bool
        Whether large files are mapped. Otherwise all files are read into memory.

    Returns
    -------
    codec : StoredCodec
    snapshot : Snapshot

    Raises
    ------
    FileFormatError
        If the folder holds no index, or a file is missing, damaged or foreign.
    FileNotFoundError
        If the folder does not exist.
    """
    folder = folder.resolve()
    for _ in range(_FREE_TRIES):
        manifest = read_manifest(folder)
        with suppress(FileNotFoundError):  # a save deleted the file after the manifest was read
            return _open_parts(folder, manifest, mapped)
    with _lock_folder(folder, fcntl.LOCK_SH):  # keeps saves out
        manifest = read_manifest(folder)
        try:
            return _open_parts(folder, manifest, mapped)
        except FileNotFoundError as error:
            raise FileFormatError(f"{error.filename}: the manifest names it, but it is not there") from error


# writing -----------------------------------------------------------------------------------------------------------------


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_locked_descriptors: set[int] = set()


@contextmanager
def _lock_folder(folder: Path, operation: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Wait for other saves to this folder, by this process or another, and keep them out. A crash opens the lock.

    With ``fcntl.LOCK_SH``, other readers are not kept out.
    """
    with _open_folder(folder) as descriptor:
        _locked_descriptors.add(descriptor)
        try:
            fcntl.flock(descriptor, operation)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a forked child has it open too
            _locked_descriptors.discard(descriptor)


def _close_locked_descriptors() -> None:
    """Close the lock files of the parent in a forked child: if the parent crashed, the child would keep folders locked."""
    for descriptor in _locked_descriptors:
        os.close(descriptor)
    _locked_descriptors.clear()


os.register_at_fork(after_in_child=_close_locked_descriptors)


def _check_replaceable(folder: Path) -> None:
    """Raise an `InputError` if a folder holds something else than an index."""
    if (folder / MANIFEST).exists():
        try:
            read_manifest(folder)
        except FileFormatError as error:
            raise InputError(f"cannot replace what is there, save elsewhere or remove it: {error}") from error
        return
    for path in folder.iterdir():
        if not _is_ours(path.name):  # a crashed save leaves files of ours without a manifest
            raise InputError(
                f"{folder} holds {path.name!r} and no index: save into a new or an empty folder, or over an index"
            )


def _write_parts(folder: Path, codec: StoredCodec, snapshot: Snapshot) -> dict[str, Any]:
    """Write the files that a folder lacks, and return the manifest that names all files."""
    segments = []
    for part in snapshot.parts:
        ids, live = part.ids, part.live
        segments.append(
            {
                "rows": part.n_rows,
                "codes": part.segment.write(folder),
                "ids": ids.write(folder) if isinstance(ids, StoredArrays) else None,
                "first_id": ids.first if isinstance(ids, NumberRange) else None,
                "live": None if live is None else live.write(folder),
                "live_rows": part.n_live,
            }
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "codec": codec.write(folder),
        "id_kind": snapshot.id_kind,
        "next_number": snapshot.next_number,
        "segments": segments,
    }


def _delete_unnamed_files(folder: Path) -> None:
    """Delete files of ours that the manifest does not name."""
    named = names_in_manifest(folder)
    for path in folder.iterdir():
        if _is_ours(path.name) and path.name not in named:
            path.unlink(missing_ok=True)


def _is_ours(name: str) -> bool:
    return FILE_NAME.fullmatch(name) is not None or _UNFINISHED_NAME.fullmatch(name) is not None


# reading -----------------------------------------------------------------------------------------------------------------


def _open_parts(folder: Path, manifest: Mapping[str, Any], mapped: bool) -> tuple[StoredCodec, Snapshot]:
    """Open the files that a manifest names. The codec is read into memory."""
    file = open_stored(folder / manifest["codec"], StoredCodec.KIND, mapped=False)
    codec, _ = codec_of_file(file)

    def opened(entry: Mapping[str, Any], field: str, kind: str) -> ArrayFile:
        return open_stored(folder / entry[field], kind, mapped=mapped)

    parts = []
    for entry in manifest["segments"]:
        rows = entry["rows"]
        codes = opened(entry, "codes", Segment.KIND)
        segment = Segment.from_file(codes, rows, codec.n_codebooks, codec.n_codewords)
        ids: Ids
        if entry["ids"] is None:
            ids = NumberRange(entry["first_id"], rows)
        elif manifest["id_kind"] == "str":
            ids = StringIds.from_file(opened(entry, "ids", StringIds.KIND), rows)
        else:
            bounds = (0, manifest["next_number"]) if manifest["id_kind"] == "automatic" else None
            ids = ListedIntegers.from_file(opened(entry, "ids", ListedIntegers.KIND), rows, bounds)
        live = None
        if entry["live"] is not None:
            live = LiveRows.from_file(opened(entry, "live", LiveRows.KIND), rows, entry["live_rows"])
        parts.append(Part(segment, ids, live))
    return StoredCodec(codec, file), Snapshot(tuple(parts), manifest["id_kind"], manifest["next_number"])
