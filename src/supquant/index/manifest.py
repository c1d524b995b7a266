"""The manifest of an index: which files its folder holds, what they are, and who saved them."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import xxhash

from supquant.errors import FileFormatError
from supquant.index.change_keys import ChangeKeys, are_packed_keys, pack_keys, unpack_keys
from supquant.index.snapshot import MAX_ROWS
from supquant.index.vectors import VECTOR_KINDS
from supquant.storage import read_regular_file, shorten

__all__ = [
    "FILE_NAME",
    "FORMAT",
    "MANIFEST",
    "VERSION",
    "content_digest",
    "describe_save",
    "keys_in_manifest",
    "manifest_bytes",
    "names_in_manifest",
    "new_save_record",
    "read_manifest",
]

MANIFEST = "manifest.json"
"""The name of the manifest's file."""

FORMAT = "supquant index"
"""The format that a manifest states."""

VERSION = 1
"""The version of the format that is written and read."""

FILE_NAME = re.compile(r"(codec|codes|columns|ids|live|vectors)-[0-9a-f]{16}\.safetensors")
"""The names of the files that a manifest lists."""

_FIELDS = {"format", "version", "codec", "id_kind", "next_number", "segments", "saved"}
"""The fields of a manifest, without its digest and ``vectors``, which only an index with vectors has."""

_SEGMENT_FIELDS = {"rows", "codes", "updates", "ids", "first_id", "live", "live_rows", "columns"}
"""The fields of each segment in a manifest, without ``vectors``."""

_ID_KINDS = (None, "automatic", "int64", "str")
"""The values that the field `id_kind` may have."""

_MAX_NUMBER = 2**62
"""The greatest value of the field `next_number`. No index lives long enough to reach it, and no id below it overflows."""

_MAX_INT64 = 2**63 - 1
"""The greatest revision and process id."""

_MAX_TEXT = 255
"""The greatest length in characters of a time or a host's name."""


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the content of a manifest's file, with a digest."""
    digest = xxhash.xxh3_128_hexdigest(json.dumps(manifest).encode())
    return json.dumps({**manifest, "digest": digest}, indent=2).encode() + b"\n"


def names_in_manifest(folder: Path) -> set[str]:
    """Return the names of all files in the manifest of a folder, or an empty set if there is no manifest."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = read_manifest(folder)
    names = {manifest["codec"]}
    for entry in manifest["segments"]:
        names |= {entry["codes"], entry["ids"], entry["live"], entry["columns"]}
        names |= {update["codes"] for update in entry["updates"]}
        names |= {each.get("vectors") for each in (entry, *entry["updates"])}
    return names - {None}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a manifest, and check its digest and its fields.

    Parameters
    ----------
    folder : Path
        The folder of an index.

    Returns
    -------
    dict
        The fields, without the digest.

    Raises
    ------
    FileFormatError
        If the folder holds no manifest, or one that is damaged, inconsistent, or of another version.
    FileNotFoundError
        If the folder does not exist.
    """
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no index", str(folder))
    path = folder / MANIFEST
    try:
        text = read_regular_file(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileFormatError(f"{folder}: holds no index, it has no {MANIFEST}") from error
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: is not JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileFormatError(f"{path}: is not the manifest of an index")
    if not _is_integer(version := manifest.get("version"), VERSION, VERSION):
        raise FileFormatError(
            f"{path}: format version {shorten(version)}, this supquant reads version {VERSION}"
        )
    manifest.pop("digest", None)
    if manifest_bytes(manifest) != text:
        raise FileFormatError(f"{path}: was altered: the digest differs")
    if (flaw := _find_flaw(manifest)) is not None:
        raise FileFormatError(f"{path}: {flaw}")
    return manifest


def _find_flaw(manifest: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a manifest, or None."""
    if set(manifest) - {"vectors"} != _FIELDS:
        return f"has the fields {shorten(list(manifest))}"
    if (kept := manifest.get("vectors", VECTOR_KINDS[0])) not in VECTOR_KINDS:
        return f"'vectors' is {shorten(kept)}"
    if not _is_save_record(manifest["saved"]):
        return f"'saved' is {shorten(manifest['saved'])}"
    segments, id_kind, next_number = manifest["segments"], manifest["id_kind"], manifest["next_number"]
    if not isinstance(segments, list):
        return f"'segments' is {shorten(segments)}"
    for entry in segments:
        if not _is_segment(entry, with_vectors="vectors" in manifest):
            return f"a segment is {shorten(entry)}"
    if id_kind not in _ID_KINDS or (segments and id_kind is None):
        return f"'id_kind' is {shorten(id_kind)}"
    if not _is_file_name(manifest["codec"], "codec"):
        return f"'codec' is {shorten(manifest['codec'])}"
    if not _is_integer(next_number, 0, _MAX_NUMBER if id_kind == "automatic" else 0):
        return f"'next_number' is {shorten(next_number)}"
    if (rows := sum(entry["rows"] for entry in segments)) > MAX_ROWS:
        return f"it has {rows} rows, at most {MAX_ROWS} are possible"
    return _find_flaw_of_ids(segments, id_kind, next_number)


def _find_flaw_of_ids(segments: list[dict[str, Any]], id_kind: str | None, next_number: int) -> str | None:
    """Return why the ids of segments cannot be distinct ids of a kind, or None. Only the manifest is read, not the ids."""
    ranges = [
        (entry["first_id"], entry["first_id"] + entry["rows"]) for entry in segments if entry["ids"] is None
    ]
    if id_kind == "str" and ranges:
        return "'id_kind' is 'str', but a segment has no ids"
    if id_kind == "automatic" and any(first < 0 or end > next_number for first, end in ranges):
        return f"'next_number' is {next_number}, but a segment has other numbers than those below it"
    # Removed rows may have the ids of later rows. But then some rows of the segment are left, and have other ids.
    files = [entry["ids"] for entry in segments if entry["ids"] is not None]
    if len(set(files)) < len(files) or len(set(ranges)) < len(ranges):
        return "two segments have the same ids"
    whole = sorted(
        (entry["first_id"], entry["first_id"] + entry["rows"])
        for entry in segments
        if entry["ids"] is None and entry["live"] is None
    )
    if any(one[1] > other[0] for one, other in pairwise(whole)):
        return "two segments have ids in common"
    return None


def _is_segment(entry: object, *, with_vectors: bool) -> bool:
    if not isinstance(entry, dict) or not _has_fields(entry, _SEGMENT_FIELDS, with_vectors=with_vectors):
        return False
    if entry["columns"] is not None and not _is_file_name(entry["columns"], "columns"):
        return False
    rows, ids, first, live = entry["rows"], entry["ids"], entry["first_id"], entry["live"]
    if not _is_integer(rows, 1, MAX_ROWS) or not _is_file_name(entry["codes"], "codes"):
        return False
    if ids is None:
        if not _is_integer(first, -(2**63), 2**63 - rows):
            return False
    elif first is not None or not _is_file_name(ids, "ids"):
        return False
    updates = entry["updates"]
    if not isinstance(updates, list) or not all(
        _is_update(update, rows, with_vectors=with_vectors) for update in updates
    ):
        return False
    if live is None:
        return _is_integer(entry["live_rows"], rows, rows)
    return _is_file_name(live, "live") and _is_integer(entry["live_rows"], 1, rows)


def _has_fields(entry: dict[str, Any], fields: set[str], *, with_vectors: bool) -> bool:
    """Return whether an entry has these fields, and names a file of vectors if it should."""
    if not with_vectors:
        return set(entry) == fields
    return set(entry) == fields | {"vectors"} and _is_file_name(entry["vectors"], "vectors")


def _is_update(update: object, n_rows: int, *, with_vectors: bool) -> bool:
    if not isinstance(update, dict) or not _has_fields(update, {"rows", "codes"}, with_vectors=with_vectors):
        return False
    return _is_integer(update["rows"], 1, n_rows) and _is_file_name(update["codes"], "codes")


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_file_name(value: object, kind: str) -> bool:
    return isinstance(value, str) and FILE_NAME.fullmatch(value) is not None and value.startswith(f"{kind}-")


# who saved ------------------------------------------------------------------------------------------------------------


def content_digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest (32 hexadecimal digits) of a manifest without its record of the save.

    It stands for the rows and the codec. So a folder that was saved again without a change, or copied, counts as unchanged.
    """
    content = {name: value for name, value in manifest.items() if name != "saved"}
    return xxhash.xxh3_128_hexdigest(json.dumps(content).encode())


def new_save_record(replaced: Mapping[str, Any] | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the field ``saved`` of a manifest that this process writes now.

    Parameters
    ----------
    replaced : mapping or None
        The manifest that is replaced. None if there is none.
    keys : mapping of str to str
        The keys of the changes that are saved.
    """
    before = 0 if replaced is None else replaced["saved"]["revision"]
    all_keys = {**keys_in_manifest(replaced), **keys}
    return {
        "revision": min(before + 1, _MAX_INT64),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node()[:_MAX_TEXT],
        "pid": os.getpid(),
        **({"keys": pack_keys(all_keys)} if all_keys else {}),
    }


def keys_in_manifest(manifest: Mapping[str, Any] | None) -> ChangeKeys:
    """Return the keys of the last changes of an index."""
    return {} if manifest is None else unpack_keys(manifest["saved"].get("keys", ""))


def _is_save_record(value: object) -> bool:
    """Return whether a value has the form of the field ``saved`` of a manifest."""
    if not isinstance(value, dict) or set(value) - {"keys"} != {"revision", "time", "host", "pid"}:
        return False
    if not are_packed_keys(value.get("keys", "")):
        return False
    numbers = all(type(value[name]) is int and 0 <= value[name] <= _MAX_INT64 for name in ("revision", "pid"))
    return numbers and all(
        isinstance(value[name], str) and len(value[name]) <= _MAX_TEXT for name in ("time", "host")
    )


def describe_save(manifest: Mapping[str, Any]) -> str:
    """Return who saved a folder and when, for an error."""
    saved = manifest["saved"]
    return f"process {saved['pid']} on {saved['host']} saved it at {saved['time']}, as revision {saved['revision']}"
