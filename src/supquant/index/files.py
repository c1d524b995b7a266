"""An index as a folder: immutable files named by their content, and a manifest that names them.

    manifest.json                   the segments and their files, with a digest of itself. To replace it is the only commit
    codec-<digest>.safetensors
    codes-<digest>.safetensors      codes of one segment
    ids-<digest>.safetensors        its ids, unless they are consecutive numbers
    live-<digest>.safetensors       which of its rows are left, if some were removed

A save writes the files that the folder lacks, replaces the manifest, and deletes the files that the manifest does not name. So a
crash leaves the old index or the new one, a reader sees one of the two, and the same content gives the same files. Only the
manifest also says who saved it and when.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, ClassVar

import xxhash

from supquant.codec import AnyCodec, load_codec
from supquant.errors import FileFormatError, InputError, SaveConflictError
from supquant.index.bitmaps import LiveRows
from supquant.index.integer_ids import ListedIntegers, NumberRange
from supquant.index.parts import Part
from supquant.index.revisions import content_digest, describe_save, is_save_record, new_save_record
from supquant.index.row_ids import Ids
from supquant.index.segments import Segment
from supquant.index.snapshot import MOST_ROWS, Snapshot
from supquant.index.stored import Stored, StoredArrays, open_stored
from supquant.index.string_ids import StringIds
from supquant.storage import ArrayFile, PackedArrays, sync_folder, write_file_atomically
from supquant.storage.locking import LOCK_NAME, run_locked

__all__ = ["MANIFEST", "KnownFolders", "StoredCodec", "load_index", "save_index"]

KnownFolders = dict[Path, frozenset[str]]
"""What an index knows of folders: by path, the digests of the content that it was loaded from or saved as."""

MANIFEST = "manifest.json"
"""The name of the manifest's file."""

_FORMAT = "supquant index"
"""What a manifest states as its format."""

_VERSION = 1
"""The version of the format that is written and read."""

_FIELDS = {"format", "version", "codec", "id_kind", "next_number", "segments"}
"""The fields of a manifest, without its digest, and without ``saved``, which the first folders lack."""

_SEGMENT_FIELDS = {"rows", "codes", "ids", "first_id", "live", "live_rows"}
"""The fields of each segment in a manifest."""

_ID_KINDS = (None, "automatic", "int64", "str")
"""The values that the field `id_kind` may have."""

_FILE_NAME = re.compile(r"(codec|codes|ids|live)-[0-9a-f]{16}\.safetensors")
"""The names of the files that a manifest names."""

_UNFINISHED_NAME = re.compile(r"\.supquant-[0-9a-f-]+\.tmp")
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


def save_index(
    folder: Path, codec: StoredCodec, snapshot: Snapshot, known: KnownFolders, *, overwrite: bool = False
) -> None:
    """Write an index to a folder.

    Parameters
    ----------
    folder : Path
        A new folder, an empty one, or one that holds an index.
    codec : StoredCodec
        The codec of the index.
    snapshot : Snapshot
        The rows of the index.
    known : KnownFolders
        What the index knows of folders. It is changed.
    overwrite : bool, default=False
        Whether an index that is not `known` is replaced.

    Raises
    ------
    SaveConflictError
        If the folder holds an index that is not `known`.
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
        sync_folder(folder.parent)
    run_locked(folder, lambda: _save_locked(folder, codec, snapshot, known, overwrite))


def load_index(folder: Path) -> tuple[StoredCodec, Snapshot, str]:
    """Map the index in a folder. Codes, ids and removals are checked at their first use.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    codec : StoredCodec
    snapshot : Snapshot
    digest : str
        The digest of the content, as in `KnownFolders`.

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
            return *_open_parts(folder, manifest), content_digest(manifest)
        except FileNotFoundError as error:
            newer = _read_manifest(folder)
            if newer == manifest:
                raise FileFormatError(
                    f"{error.filename}: the manifest names it, but it is not there"
                ) from error
            manifest = newer  # another process saved meanwhile


# writing -----------------------------------------------------------------------------------------------------------------


def _save_locked(
    folder: Path, codec: StoredCodec, snapshot: Snapshot, known: KnownFolders, overwrite: bool
) -> None:
    """Do what `save_index` does, in a folder that no other process changes meanwhile."""
    found = _read_replaceable(folder)
    if found is not None and not overwrite:
        _check_known(folder, found, known)
    names = {path.name for path in folder.iterdir()}
    try:
        content = _write_parts(folder, codec, snapshot)
        digest = content_digest(content)
        if found is not None and content_digest(found) == digest:
            sync_folder(folder)  # the sync of an earlier save may have failed
        else:
            # From here on, a failure may leave the old manifest or the new one. The index knows both.
            known[folder] = known.get(folder, frozenset()) | {digest}
            saved = {**content, "saved": new_save_record(found)}
            write_file_atomically(folder / MANIFEST, _manifest_bytes(saved))
        known[folder] = frozenset({digest})
    except (
        BaseException
    ):  # also Ctrl-C. The manifest on the disk may be an old one: all that it may name stays
        _delete_unnamed_files(folder, keep=names)
        raise
    _delete_unnamed_files(folder)


def _read_replaceable(folder: Path) -> dict[str, Any] | None:
    """Return the manifest in a folder, or None. Raise an `InputError` if the folder holds something else than an index."""
    if (folder / MANIFEST).exists():
        try:
            return _read_manifest(folder)
        except FileFormatError as error:
            raise InputError(f"cannot replace what is there, save elsewhere or remove it: {error}") from error
    for path in folder.iterdir():
        if not _is_ours(path.name):  # a crashed save leaves files of ours without a manifest
            raise InputError(
                f"{folder} holds {path.name!r} and no index: save into a new or an empty folder, or over an index"
            )
    return None


def _check_known(folder: Path, manifest: Mapping[str, Any], known: KnownFolders) -> None:
    """Raise a `SaveConflictError` if a manifest is not one that the index knows."""
    if content_digest(manifest) in known.get(folder, ()):
        return
    if folder in known:
        what = "has changed since this index was loaded from it or saved to it"
        advice = "bring this index to its state with reload()"
    else:
        what = "holds another index already"
        advice = "add to that one after CodeIndex.load()"
    raise SaveConflictError(
        f"{folder} {what}: {describe_save(manifest)}; {advice}, or replace it with save(..., overwrite=True)"
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
        "format": _FORMAT,
        "version": _VERSION,
        "codec": codec.write(folder),
        "id_kind": snapshot.id_kind,
        "next_number": snapshot.next_number,
        "segments": segments,
    }


def _manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the content of a manifest's file, with a digest."""
    digest = xxhash.xxh3_128_hexdigest(json.dumps(manifest).encode())
    return json.dumps({**manifest, "digest": digest}, indent=2).encode() + b"\n"


def _delete_unnamed_files(folder: Path, keep: AbstractSet[str] = frozenset()) -> None:
    """Delete files of ours that the manifest does not name, except those to keep, by their names."""
    named = _names_in_manifest(folder) | keep | {LOCK_NAME}
    for path in folder.iterdir():
        if _is_ours(path.name) and path.name not in named:
            path.unlink(missing_ok=True)


def _is_ours(name: str) -> bool:
    return name == LOCK_NAME or any(kind.fullmatch(name) for kind in (_FILE_NAME, _UNFINISHED_NAME))


def _names_in_manifest(folder: Path) -> set[str]:
    """Return the names of all files in the manifest of a folder. Without a manifest there are none."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = _read_manifest(folder)
    segments = [entry[field] for entry in manifest["segments"] for field in ("codes", "ids", "live")]
    return {manifest["codec"], *filter(None, segments)}


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
    if manifest.get("version") != _VERSION:
        raise FileFormatError(
            f"{path}: format version {manifest.get('version')!r}, this supquant reads version {_VERSION}"
        )
    manifest.pop("digest", None)
    if _manifest_bytes(manifest) != text:
        raise FileFormatError(f"{path}: was altered: the digest differs")
    if (flaw := _find_flaw(manifest)) is not None:
        raise FileFormatError(f"{path}: {flaw}")
    return manifest


def _find_flaw(manifest: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a manifest, or None."""
    if set(manifest) - {"saved"} != _FIELDS:
        return f"has the fields {', '.join(manifest)}"
    if "saved" in manifest and not is_save_record(manifest["saved"]):
        return f"'saved' is {manifest['saved']!r}"
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
    return isinstance(value, str) and _FILE_NAME.fullmatch(value) is not None and value.startswith(f"{kind}-")


def _open_parts(folder: Path, manifest: Mapping[str, Any]) -> tuple[StoredCodec, Snapshot]:
    """Map the files that a manifest names."""
    path = folder / manifest["codec"]
    file = open_stored(path, StoredCodec.KIND)
    codec = load_codec(path)
    parts = []
    for entry in manifest["segments"]:
        rows = entry["rows"]
        codes = open_stored(folder / entry["codes"], Segment.KIND)
        segment = Segment.from_file(codes, rows, codec.n_codebooks, codec.n_codewords)
        live = None
        if entry["live"] is not None:
            live = LiveRows.from_file(
                open_stored(folder / entry["live"], LiveRows.KIND), rows, entry["live_rows"]
            )
        parts.append(Part(segment, _open_ids(folder, entry, manifest["id_kind"]), live))
    return StoredCodec(codec, file), Snapshot(tuple(parts), manifest["id_kind"], manifest["next_number"])


def _open_ids(folder: Path, entry: Mapping[str, Any], id_kind: str) -> Ids:
    if entry["ids"] is None:
        return NumberRange(entry["first_id"], entry["rows"])
    kind = StringIds if id_kind == "str" else ListedIntegers
    return kind.from_file(open_stored(folder / entry["ids"], kind.KIND), entry["rows"])
