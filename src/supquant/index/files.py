"""An index as a folder: immutable files named by their content, and a manifest that names them.

    manifest.json                   the segments and their files, with a digest of itself; replacing it is the only commit
    codec-<digest>.safetensors
    codes-<digest>.safetensors      codes of one segment
    ids-<digest>.safetensors        its ids, unless they are consecutive numbers
    live-<digest>.safetensors       which of its rows are left, where some were removed

A save writes what the folder lacks, replaces the manifest, then deletes what is no longer named. So a crash leaves the old
index whole, a reader sees the old one or the new one, and the same content gives the same bytes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import xxhash

from supquant.codec import AnyCodec, load_codec
from supquant.errors import FileFormatError, InputError
from supquant.index.bitmaps import LiveRows
from supquant.index.ids import Ids, ListedIntegers, NumberRange, StringIds
from supquant.index.parts import Part
from supquant.index.segments import Segment
from supquant.index.snapshot import MOST_ROWS, Snapshot
from supquant.index.stored import Stored, StoredArrays, open_named
from supquant.storage import ArrayFile, PackedArrays, write_file_atomically

__all__ = ["MANIFEST", "StoredCodec", "load_index", "save_index"]

MANIFEST = "manifest.json"

_FORMAT = "supquant index"
_VERSION = 1
_FIELDS = {"format", "version", "codec", "id_kind", "next_number", "segments"}
_SEGMENT_FIELDS = {"rows", "codes", "ids", "first_id", "live", "live_rows"}
_ID_KINDS = (None, "automatic", "int64", "str")
_FILE = re.compile(r"(codec|codes|ids|live)-[0-9a-f]{16}\.safetensors")
_UNFINISHED = re.compile(r"\.supquant-[0-9a-f]+\.tmp")


class StoredCodec(Stored):
    """A codec, and the files that hold it."""

    KIND: ClassVar[str] = "codec"

    def __init__(self, codec: AnyCodec, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self.codec = codec

    def _pack(self) -> PackedArrays:
        return self.codec.pack()


def save_index(folder: Path, codec: StoredCodec, snapshot: Snapshot) -> None:
    """Make a folder hold this index, whatever index it held before."""
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; an index is saved as a folder")
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        with _opened(folder.parent) as parent:
            os.fsync(parent)
    with _locked(folder):
        _refuse_foreign(folder)
        try:
            manifest = _write_parts(folder, codec, snapshot)
            write_file_atomically(folder / MANIFEST, _text(manifest))
        finally:  # also after a failure or Ctrl-C: whichever manifest is there then decides
            _sweep(folder)


def load_index(folder: Path) -> tuple[StoredCodec, Snapshot]:
    """Map the index that a folder holds; codes, ids and removals are checked when they are first used."""
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
            manifest = newer  # a save came between


# writing -----------------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep out other saves, of this process or another; a crash lifts it."""
    with _opened(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(
                descriptor, fcntl.LOCK_UN
            )  # closing is not enough: a forked child may have it open too


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else than an index."""
    if (folder / MANIFEST).exists():
        try:
            _read_manifest(folder)
        except FileFormatError as error:
            raise InputError(f"cannot replace what is there, save elsewhere or remove it: {error}") from error
        return
    for path in folder.iterdir():
        if not _is_ours(path.name):  # a save that crashed leaves files of ours without a manifest
            raise InputError(
                f"{folder} holds {path.name!r} and no index: save into a new or an empty folder, or over an index"
            )


def _write_parts(folder: Path, codec: StoredCodec, snapshot: Snapshot) -> dict[str, Any]:
    """Write the files that a folder lacks; return the manifest that names all of them."""
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
        "format": _FORMAT,
        "version": _VERSION,
        "codec": codec.write(folder),
        "id_kind": snapshot.id_kind,
        "next_number": snapshot.next_number,
        "segments": segments,
    }


def _text(manifest: Mapping[str, Any]) -> bytes:
    """Give the bytes of a manifest, with a digest of themselves."""
    digest = xxhash.xxh3_128_hexdigest(json.dumps(manifest).encode())
    return json.dumps({**manifest, "digest": digest}, indent=2).encode() + b"\n"


def _sweep(folder: Path) -> None:
    """Delete files of ours that the manifest does not name."""
    named = _named(folder)
    for path in folder.iterdir():
        if _is_ours(path.name) and path.name not in named:
            path.unlink(missing_ok=True)


def _is_ours(name: str) -> bool:
    return _FILE.fullmatch(name) is not None or _UNFINISHED.fullmatch(name) is not None


def _named(folder: Path) -> set[str]:
    """Give the names in the manifest of a folder, none if it has no manifest."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = _read_manifest(folder)
    segments = [entry[field] for entry in manifest["segments"] for field in ("codes", "ids", "live")]
    return {manifest["codec"], *filter(None, segments)}


# reading -----------------------------------------------------------------------------------------------------------------


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read a manifest and check that it is whole, and of the form that `_write_parts` gives it."""
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
    if manifest.get("version") != _VERSION:
        raise FileFormatError(
            f"{path}: format version {manifest.get('version')!r}, this supquant reads version {_VERSION}"
        )
    manifest.pop("digest", None)
    if _text(manifest) != text:
        raise FileFormatError(f"{path}: was altered: the digest differs")
    if (flaw := _flaw(manifest)) is not None:
        raise FileFormatError(f"{path}: {flaw}")
    return manifest


def _flaw(manifest: Mapping[str, Any]) -> str | None:
    """Say what in a manifest makes no sense."""
    if set(manifest) != _FIELDS:
        return f"has the fields {', '.join(manifest)}"
    segments, id_kind = manifest["segments"], manifest["id_kind"]
    if not isinstance(segments, list) or not all(map(_is_segment, segments)):
        return f"'segments' is {segments!r}"
    if id_kind not in _ID_KINDS or (segments and id_kind is None):
        return f"'id_kind' is {id_kind!r}"
    if id_kind == "str" and any(entry["ids"] is None for entry in segments):
        return "'id_kind' is 'str', but a segment has no ids"
    if not _is_file_name(manifest["codec"], "codec"):
        return f"'codec' is {manifest['codec']!r}"
    if not _is_integer(manifest["next_number"], 0, 2**63):
        return f"'next_number' is {manifest['next_number']!r}"
    return None


def _is_segment(entry: object) -> bool:
    if not isinstance(entry, dict) or set(entry) != _SEGMENT_FIELDS:
        return False
    rows, ids, first, live = entry["rows"], entry["ids"], entry["first_id"], entry["live"]
    if not _is_integer(rows, 1, MOST_ROWS) or not _is_file_name(entry["codes"], "codes"):
        return False
    if not (_is_integer(first, -(2**63), 2**63 - rows) if ids is None else _is_file_name(ids, "ids")):
        return False
    if live is None:
        return entry["live_rows"] == rows
    return _is_file_name(live, "live") and _is_integer(entry["live_rows"], 1, rows)


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_file_name(value: object, kind: str) -> bool:
    return isinstance(value, str) and _FILE.fullmatch(value) is not None and value.startswith(f"{kind}-")


def _open_parts(folder: Path, manifest: Mapping[str, Any]) -> tuple[StoredCodec, Snapshot]:
    """Map the files that a manifest names."""
    path = folder / manifest["codec"]
    file = open_named(path, StoredCodec.KIND)
    codec = load_codec(path)
    parts = []
    for entry in manifest["segments"]:
        rows = entry["rows"]
        codes = open_named(folder / entry["codes"], Segment.KIND)
        segment = Segment.mapped(codes, rows, codec.n_codebooks, codec.n_codewords)
        live = None
        if entry["live"] is not None:
            live = LiveRows.mapped(
                open_named(folder / entry["live"], LiveRows.KIND), rows, entry["live_rows"]
            )
        parts.append(Part(segment, _open_ids(folder, entry, manifest["id_kind"]), live))
    return StoredCodec(codec, file), Snapshot(tuple(parts), manifest["id_kind"], manifest["next_number"])


def _open_ids(folder: Path, entry: Mapping[str, Any], id_kind: str) -> Ids:
    if entry["ids"] is None:
        return NumberRange(entry["first_id"], entry["rows"])
    kind = StringIds if id_kind == "str" else ListedIntegers
    return kind.mapped(open_named(folder / entry["ids"], kind.KIND), entry["rows"])
