"""An index as a folder: immutable files named by their content, and a manifest that names them.

    manifest.json                   the segments and their files, with a digest of itself. To replace it is the only commit
    codec-<digest>.safetensors
    codes-<digest>.safetensors      codes of one segment
    codes-<digest>.safetensors      new codes of some of its rows, if there were updates
    ids-<digest>.safetensors        its ids, unless they are consecutive numbers
    live-<digest>.safetensors       which of its rows are left, if some were removed

A save writes the files that the folder lacks, replaces the manifest, and deletes the files that the manifest does not name. So a
crash leaves the old index or the new one, a reader sees one of the two, and the same content gives the same bytes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import xxhash

from supquant.codec import AnyCodec, load_codec
from supquant.errors import FileFormatError, InputError
from supquant.index.bitmaps import LiveRows
from supquant.index.integer_ids import ListedIntegers, NumberRange
from supquant.index.parts import Part
from supquant.index.row_ids import Ids
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.snapshot import MOST_ROWS, Snapshot, Source
from supquant.index.stored import Stored, StoredArrays, open_stored
from supquant.index.string_ids import StringIds
from supquant.storage import ArrayFile, PackedArrays, write_file_atomically

__all__ = ["MANIFEST", "StoredCodec", "load_index", "save_index"]

MANIFEST = "manifest.json"
"""The name of the manifest's file."""

_FORMAT = "supquant index"
"""What a manifest states as its format."""

_VERSION = 1
"""The version of the format that is written if no segment has updates, so that older versions of this library read it."""

_UPDATES_VERSION = 2
"""The version that is written if some segment has updates. Both versions are read."""

_FIELDS = {"format", "version", "codec", "id_kind", "next_number", "segments"}
"""The fields of a manifest, without its digest."""

_SEGMENT_FIELDS = {"rows", "codes", "ids", "first_id", "live", "live_rows"}
"""The fields of each segment in a manifest."""

_ID_KINDS = (None, "automatic", "int64", "str")
"""The values that the field `id_kind` may have."""

_FILE_NAME = re.compile(r"(codec|codes|ids|live)-[0-9a-f]{16}\.safetensors")
"""The names of the files that a manifest names."""

_UNFINISHED_NAME = re.compile(r"\.supquant-[0-9a-f]+\.tmp")
"""The names of files that `write_file_atomically` did not finish."""


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
            write_file_atomically(folder / MANIFEST, _manifest_bytes(manifest))
        finally:  # also after a failure or Ctrl-C: then the old manifest may still be there
            _delete_unnamed_files(folder)


def load_index(folder: Path) -> tuple[StoredCodec, Snapshot]:
    """Map the index in a folder. Codes, ids and removals are checked at their first use.

    Parameters
    ----------
    folder : Path
        The folder.

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
    manifest = _read_manifest(folder)
    while True:
        try:
            return _open_parts(folder, manifest)
        except FileNotFoundError as error:
            newer = _read_manifest(folder)
            if newer == manifest:
                raise FileFormatError(
                    f"{error.filename}: the manifest names it, but it is not there"
                ) from error
            manifest = newer  # another process saved meanwhile


def open_again(folder: Path, digest: str) -> Snapshot:
    """Map the rows of an index that was loaded before. Raise a `FileFormatError` if its manifest has another digest now."""
    with suppress(FileNotFoundError):
        manifest = _read_manifest(folder)
        if _manifest_digest(manifest) == digest:
            return _open_parts(folder, manifest)[1]
    raise FileFormatError(
        f"{folder}: an index of this folder was pickled, and the folder holds another index or none now: "
        "load the folder, or keep it as it is until the pickle is read"
    )


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
def _lock_folder(folder: Path) -> Iterator[None]:
    """Wait for other saves to this folder, by this process or another, and keep them out. A crash opens the lock."""
    with _open_folder(folder) as descriptor:
        _locked_descriptors.add(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
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
            _read_manifest(folder)
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
    segments: list[dict[str, Any]] = []
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
        if part.updates:
            updates = [{"rows": update.n_rows, "codes": update.write(folder)} for update in part.updates]
            segments[-1]["updates"] = updates
    return {
        "format": _FORMAT,
        "version": _UPDATES_VERSION if any(part.updates for part in snapshot.parts) else _VERSION,
        "codec": codec.write(folder),
        "id_kind": snapshot.id_kind,
        "next_number": snapshot.next_number,
        "segments": segments,
    }


def _manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the content of a manifest's file, with a digest."""
    return json.dumps({**manifest, "digest": _manifest_digest(manifest)}, indent=2).encode() + b"\n"


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(manifest).encode())


def _delete_unnamed_files(folder: Path) -> None:
    """Delete files of ours that the manifest does not name."""
    named = _names_in_manifest(folder)
    for path in folder.iterdir():
        if _is_ours(path.name) and path.name not in named:
            path.unlink(missing_ok=True)


def _is_ours(name: str) -> bool:
    return _FILE_NAME.fullmatch(name) is not None or _UNFINISHED_NAME.fullmatch(name) is not None


def _names_in_manifest(folder: Path) -> set[str]:
    """Return the names of all files in the manifest of a folder. Without a manifest there are none."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = _read_manifest(folder)
    segments = [entry[field] for entry in manifest["segments"] for field in ("codes", "ids", "live")]
    updates = [update["codes"] for entry in manifest["segments"] for update in entry.get("updates", [])]
    return {manifest["codec"], *filter(None, segments), *updates}


# reading -----------------------------------------------------------------------------------------------------------------


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read a manifest, and check its digest and its form, which is that of `_write_parts`."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no index", str(folder))
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
        manifest = json.loads(text)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileFormatError(f"{folder}: holds no index, it has no {MANIFEST}") from error
    except (IsADirectoryError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: is not JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise FileFormatError(f"{path}: is not the manifest of an index")
    if manifest.get("version") not in (_VERSION, _UPDATES_VERSION):
        raise FileFormatError(
            f"{path}: format version {manifest.get('version')!r}, "
            f"this supquant reads versions {_VERSION} and {_UPDATES_VERSION}"
        )
    manifest.pop("digest", None)
    if _manifest_bytes(manifest) != text:
        raise FileFormatError(f"{path}: was altered: the digest differs")
    if (flaw := _find_flaw(manifest)) is not None:
        raise FileFormatError(f"{path}: {flaw}")
    return manifest


def _find_flaw(manifest: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a manifest, or None."""
    if set(manifest) != _FIELDS:
        return f"has the fields {', '.join(manifest)}"
    segments, id_kind = manifest["segments"], manifest["id_kind"]
    if not isinstance(segments, list) or not all(map(_is_segment, segments)):
        return f"'segments' is {segments!r}"
    if id_kind not in _ID_KINDS or (segments and id_kind is None):
        return f"'id_kind' is {id_kind!r}"
    if manifest["version"] == _VERSION and any("updates" in entry for entry in segments):
        return f"a segment has updates, but the version is {_VERSION}"
    if id_kind == "str" and any(entry["ids"] is None for entry in segments):
        return "'id_kind' is 'str', but a segment has no ids"
    if not _is_file_name(manifest["codec"], "codec"):
        return f"'codec' is {manifest['codec']!r}"
    if not _is_integer(manifest["next_number"], 0, 2**63):
        return f"'next_number' is {manifest['next_number']!r}"
    return None


def _is_segment(entry: object) -> bool:
    if not isinstance(entry, dict) or set(entry) - {"updates"} != _SEGMENT_FIELDS:
        return False
    rows, ids, first, live = entry["rows"], entry["ids"], entry["first_id"], entry["live"]
    if not _is_integer(rows, 1, MOST_ROWS) or not _is_file_name(entry["codes"], "codes"):
        return False
    if not (_is_integer(first, -(2**63), 2**63 - rows) if ids is None else _is_file_name(ids, "ids")):
        return False
    updates = entry.get("updates", [])
    if not isinstance(updates, list) or not all(_is_update(update, rows) for update in updates):
        return False
    if live is None:
        return entry["live_rows"] == rows
    return _is_file_name(live, "live") and _is_integer(entry["live_rows"], 1, rows)


def _is_update(update: object, n_rows: int) -> bool:
    if not isinstance(update, dict) or set(update) != {"rows", "codes"}:
        return False
    return _is_integer(update["rows"], 1, n_rows) and _is_file_name(update["codes"], "codes")


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_file_name(value: object, kind: str) -> bool:
    return isinstance(value, str) and _FILE_NAME.fullmatch(value) is not None and value.startswith(f"{kind}-")


def _open_parts(folder: Path, manifest: Mapping[str, Any]) -> tuple[StoredCodec, Snapshot]:
    """Map the files that a manifest names."""
    path = folder / manifest["codec"]
    file = open_stored(path, StoredCodec.KIND)
    codec = load_codec(path)

    def open_codes(entry: Mapping[str, Any], n_part_rows: int | None = None) -> Segment:
        codes = open_stored(folder / entry["codes"], Segment.KIND)
        return Segment.from_file(codes, entry["rows"], codec.n_codebooks, codec.n_codewords, n_part_rows)

    parts = []
    next_serial = 0
    for entry in manifest["segments"]:
        rows = entry["rows"]
        updates = tuple(open_codes(update, rows) for update in entry.get("updates", []))
        live = None
        if entry["live"] is not None:
            live = LiveRows.from_file(
                open_stored(folder / entry["live"], LiveRows.KIND), rows, entry["live_rows"]
            )
        ids = _open_ids(folder, entry, manifest["id_kind"])
        parts.append(Part(open_codes(entry), ids, Serials.consecutive(next_serial, rows), live, updates))
        next_serial += rows
    id_kind, next_number = manifest["id_kind"], manifest["next_number"]
    source = Source(folder, _manifest_digest(manifest), open_again)
    snapshot = Snapshot(tuple(parts), id_kind, next_number, next_serial, source=source)
    return StoredCodec(codec, file), snapshot


def _open_ids(folder: Path, entry: Mapping[str, Any], id_kind: str) -> Ids:
    if entry["ids"] is None:
        return NumberRange(entry["first_id"], entry["rows"])
    kind = StringIds if id_kind == "str" else ListedIntegers
    return kind.from_file(open_stored(folder / entry["ids"], kind.KIND), entry["rows"])
