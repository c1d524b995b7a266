"""An index as a folder: immutable files named by their content, and a manifest that names them.

    manifest.json                   the segments and their files, with a digest of itself. To replace it is the only commit
    codec-<digest>.safetensors
    codes-<digest>.safetensors      codes of one segment
    codes-<digest>.safetensors      new codes of some of its rows, if there were updates
    ids-<digest>.safetensors        its ids, unless they are consecutive numbers
    live-<digest>.safetensors       which of its rows are left, if some were removed
    columns-<digest>.safetensors    other columns of its rows, as an Arrow stream, if there are any
    vectors-<digest>.safetensors    vectors of the rows of one file of codes, if the index keeps vectors

A save writes the files that the folder lacks, replaces the manifest, and deletes the files that the manifest does not name. So a
crash leaves the old index or the new one, a reader sees one of the two, and the same content gives the same files. Only the
manifest also says who saved it and when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from supquant.codec.interface import AnyCodec
from supquant.codec.registry import codec_of_file
from supquant.errors import FileFormatError, InputError, SaveConflictError
from supquant.index.bitmaps import LiveRows
from supquant.index.columns import Columns
from supquant.index.ids import Ids, ListedIntegers, NumberRange, StringIds
from supquant.index.manifest import (
    FILE_NAME,
    FORMAT,
    MANIFEST,
    VERSION,
    content_digest,
    describe_save,
    keys_in_manifest,
    manifest_bytes,
    names_in_manifest,
    new_save_record,
    read_manifest,
)
from supquant.index.ordering import CodeOrder
from supquant.index.parts import Part
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.snapshot import Snapshot, Source
from supquant.index.stored import Stored, StoredArrays, open_stored
from supquant.index.vectors import Vectors
from supquant.model.codec import SupervisedCodec
from supquant.model.exact import width_of_meaning
from supquant.storage import ArrayFile, PackedArrays, write_file_atomically
from supquant.storage.locking import LOCK_NAME, run_locked
from supquant.system import delete, sync_folder

__all__ = ["MANIFEST", "KnownFolders", "StoredCodec", "load_index", "read_replaceable", "save_index"]

KnownFolders = dict[Path, frozenset[str]]
"""What an index knows of folders: by path, the digests of the content that it was loaded from or saved as."""

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
    folder: Path,
    codec: StoredCodec,
    snapshot: Snapshot,
    known: KnownFolders,
    *,
    overwrite: bool = False,
    keys: Mapping[str, str] | None = None,
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
    keys : mapping of str to str, default=None
        The keys of the changes that are saved, as `ChangeKeys`.

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
    is_new = not folder.exists()
    try:
        if is_new:
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        run_locked(folder, lambda: _save_locked(folder, codec, snapshot, known, overwrite, keys or {}))
    except BaseException:  # also Ctrl-C: no empty folder stays
        if is_new:
            with suppress(OSError):  # it holds the index, or what another process has written
                folder.rmdir()
        raise


def load_index(folder: Path, *, mapped: bool) -> tuple[StoredCodec, Snapshot, str]:
    """Open the index in a folder. Codes, ids and removals are checked at their first use.

    Other processes may save to the folder meanwhile. A save deletes the files that its manifest does not name. So if a file is
    missing, the manifest is read again. It differs after every save, because it says which save it is from.

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
    manifest = read_manifest(folder)
    while True:
        try:
            return *_open_parts(folder, manifest, mapped), content_digest(manifest)
        except FileNotFoundError as error:
            newer = read_manifest(folder)
            if newer == manifest:
                raise FileFormatError(
                    f"{error.filename}: the manifest names it, but it is not there"
                ) from error
            manifest = newer


def open_again(folder: Path, digest: str) -> Snapshot:
    """Map the rows of an index that was loaded before. Raise a `FileFormatError` if its manifest has another digest now."""
    with suppress(FileNotFoundError):
        manifest = read_manifest(folder)
        if content_digest(manifest) == digest:
            return _open_parts(folder, manifest, mapped=True)[1]
    raise FileFormatError(
        f"{folder}: an index of this folder was pickled, and the folder holds another index or none now: "
        "load the folder, or keep it as it is until the pickle is read"
    )


# writing -----------------------------------------------------------------------------------------------------------------


def _save_locked(
    folder: Path,
    codec: StoredCodec,
    snapshot: Snapshot,
    known: KnownFolders,
    overwrite: bool,
    keys: Mapping[str, str],
) -> None:
    """Do what `save_index` does, in a folder that no other process changes meanwhile."""
    found = read_replaceable(folder)
    if found is not None and not overwrite:
        _check_known(folder, found, known)
    names = {path.name for path in folder.iterdir()}
    try:
        content = _write_parts(folder, codec, snapshot)
        digest = content_digest(content)
        unchanged = found is not None and content_digest(found) == digest
        if unchanged and keys.keys() <= keys_in_manifest(found).keys():
            sync_folder(folder)  # the sync of an earlier save may have failed
        else:
            # From here on, a failure may leave the old manifest or the new one. The index knows both.
            known[folder] = known.get(folder, frozenset()) | {digest}
            saved = {**content, "saved": new_save_record(found, keys)}
            write_file_atomically(folder / MANIFEST, manifest_bytes(saved))
        known[folder] = frozenset({digest})
    except (
        BaseException
    ):  # also Ctrl-C. The manifest on the disk may be an old one: all that it may name stays
        _delete_unnamed_files(folder, keep=names)
        raise
    _delete_unnamed_files(folder)


def read_replaceable(folder: Path) -> dict[str, Any] | None:
    """Return the manifest in a folder, or None. Raise an `InputError` if the folder holds something else than an index."""
    if (folder / MANIFEST).exists():
        try:
            return read_manifest(folder)
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
    segments: list[dict[str, Any]] = []
    for part in snapshot.parts:
        ids, live = part.ids, part.live
        segments.append(
            {
                **_written(part.segment, folder),
                "updates": [_written(update, folder) for update in part.updates],
                "ids": ids.write(folder) if isinstance(ids, StoredArrays) else None,
                "first_id": ids.first if isinstance(ids, NumberRange) else None,
                "live": None if live is None else live.write(folder),
                "live_rows": part.n_live,
                "columns": None if part.columns is None else part.columns.write(folder),
            }
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "codec": codec.write(folder),
        "id_kind": snapshot.id_kind,
        "next_number": snapshot.next_number,
        "segments": segments,
        **({} if snapshot.vectors is None else {"vectors": snapshot.vectors}),
    }


def _written(segment: Segment, folder: Path) -> dict[str, Any]:
    """Write the codes of a segment and its vectors, if it has any; return its entry in the manifest."""
    vectors = {} if segment.vectors is None else {"vectors": segment.vectors.write(folder)}
    return {"rows": segment.n_rows, "codes": segment.write(folder), **vectors}


def _delete_unnamed_files(folder: Path, keep: AbstractSet[str] = frozenset()) -> None:
    """Delete files of ours that the manifest does not name, except those to keep, by their names."""
    named = names_in_manifest(folder) | keep | {LOCK_NAME}
    for path in folder.iterdir():
        if _is_ours(path.name) and path.name not in named:
            delete(path)


def _is_ours(name: str) -> bool:
    return name == LOCK_NAME or any(kind.fullmatch(name) for kind in (FILE_NAME, _UNFINISHED_NAME))


# reading -----------------------------------------------------------------------------------------------------------------


def _open_parts(folder: Path, manifest: Mapping[str, Any], mapped: bool) -> tuple[StoredCodec, Snapshot]:
    """Open the files that a manifest names. The codec is read into memory."""
    file = open_stored(folder / manifest["codec"], StoredCodec.KIND, mapped=False)
    codec, _ = codec_of_file(file)
    source = Source(folder, content_digest(manifest), open_again) if mapped else None
    if (kept := manifest.get("vectors")) is not None:
        if not isinstance(codec, SupervisedCodec):
            raise FileFormatError(f"{folder / MANIFEST}: names vectors, and its codec has no exact scores")
        widths = codec.n_inputs, width_of_meaning(codec)

    def opened(entry: Mapping[str, Any], field: str, kind: str) -> ArrayFile:
        return open_stored(folder / entry[field], kind, mapped=mapped)

    def open_codes(entry: Mapping[str, Any], n_part_rows: int | None = None) -> Segment:
        vectors, rows = None, entry["rows"]
        if kept is not None:
            file = opened(entry, "vectors", Vectors.KIND)
            vectors = Vectors.from_file(file, rows, kept, *widths)
        codes = opened(entry, "codes", Segment.KIND)
        return Segment.from_file(codes, rows, codec.n_codebooks, codec.n_codewords, n_part_rows, vectors)

    parts = []
    next_serial = 0
    for entry in manifest["segments"]:
        rows = entry["rows"]
        updates = tuple(open_codes(update, rows) for update in entry["updates"])
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
        columns = None
        if entry["columns"] is not None:
            columns = Columns.from_file(opened(entry, "columns", Columns.KIND), rows)
        serials = Serials.consecutive(next_serial, rows)
        parts.append(Part(open_codes(entry), ids, serials, live, updates, columns))
        next_serial += rows
    id_kind, next_number = manifest["id_kind"], manifest["next_number"]
    snapshot = Snapshot(
        tuple(parts),
        id_kind,
        next_number,
        next_serial,
        source=source,
        order=CodeOrder(codec),
        vectors=kept,
    )
    return StoredCodec(codec, file), snapshot
