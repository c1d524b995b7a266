"""The manifest of an index: which files its folder holds, and what they are."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import xxhash

from supquant.errors import FileFormatError
from supquant.index.revisions import is_save_record
from supquant.index.snapshot import MOST_ROWS
from supquant.storage import read_regular_file, shorten

__all__ = [
    "COLUMNS_VERSION",
    "COMPACT_VERSION",
    "FILE_NAME",
    "FORMAT",
    "MANIFEST",
    "UPDATES_VERSION",
    "VERSION",
    "manifest_bytes",
    "names_in_manifest",
    "read_manifest",
]

MANIFEST = "manifest.json"
"""The name of the manifest's file."""

FORMAT = "supquant index"
"""What a manifest states as its format."""

VERSION = 1
"""The version of the format that is written if no segment has updates, so that older versions of this library read it."""

UPDATES_VERSION = 2
"""The version that is written if some segment has updates."""

COLUMNS_VERSION = 3
"""The version that is written if some segment has columns."""

COMPACT_VERSION = 4
"""The version that is written if some codes are sorted, or if ids are strings with hashes of 4 bytes. All versions are read."""

FILE_NAME = re.compile(r"(codec|codes|columns|ids|live)-[0-9a-f]{16}\.safetensors")
"""The names of the files that a manifest names."""

_FIELDS = {"format", "version", "codec", "id_kind", "next_number", "segments"}
"""The fields of a manifest, without its digest, and without ``saved``, which the first folders lack."""

_SEGMENT_FIELDS = {"rows", "codes", "ids", "first_id", "live", "live_rows"}
"""The fields of each segment in a manifest."""

_ID_KINDS = (None, "automatic", "int64", "str")
"""The values that the field `id_kind` may have."""

_LARGEST_NUMBER = 2**62
"""The greatest value of the field `next_number`. No index lives long enough to reach it, and below it no id overflows."""


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the content of a manifest's file, with a digest."""
    digest = xxhash.xxh3_128_hexdigest(json.dumps(manifest).encode())
    return json.dumps({**manifest, "digest": digest}, indent=2).encode() + b"\n"


def names_in_manifest(folder: Path) -> set[str]:
    """Return the names of all files in the manifest of a folder. Without a manifest there are none."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = read_manifest(folder)
    fields = ("codes", "ids", "live", "columns")
    segments = [entry.get(field) for entry in manifest["segments"] for field in fields]
    updates = [update["codes"] for entry in manifest["segments"] for update in entry.get("updates", [])]
    return {manifest["codec"], *filter(None, segments), *updates}


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
        If the folder holds no manifest, or one that is damaged or makes no sense.
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
    if not _is_integer(version := manifest.get("version"), VERSION, COMPACT_VERSION):
        raise FileFormatError(
            f"{path}: format version {shorten(version)}, this supquant reads versions {VERSION} to {COMPACT_VERSION}"
        )
    manifest.pop("digest", None)
    if manifest_bytes(manifest) != text:
        raise FileFormatError(f"{path}: was altered: the digest differs")
    if (flaw := _find_flaw(manifest)) is not None:
        raise FileFormatError(f"{path}: {flaw}")
    return manifest


def _find_flaw(manifest: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a manifest, or None."""
    if set(manifest) - {"saved"} != _FIELDS:
        return f"has the fields {shorten(list(manifest))}"
    if "saved" in manifest and not is_save_record(manifest["saved"]):
        return f"'saved' is {shorten(manifest['saved'])}"
    segments, id_kind, next_number = manifest["segments"], manifest["id_kind"], manifest["next_number"]
    if not isinstance(segments, list):
        return f"'segments' is {shorten(segments)}"
    for entry in segments:
        if not _is_segment(entry):
            return f"a segment is {shorten(entry)}"
    if id_kind not in _ID_KINDS or (segments and id_kind is None):
        return f"'id_kind' is {shorten(id_kind)}"
    if manifest["version"] == VERSION and any("updates" in entry for entry in segments):
        return f"a segment has updates, but the version is {VERSION}"
    if manifest["version"] < COLUMNS_VERSION and any("columns" in entry for entry in segments):
        return f"a segment has columns, but the version is {manifest['version']}"
    if not _is_file_name(manifest["codec"], "codec"):
        return f"'codec' is {shorten(manifest['codec'])}"
    if not _is_integer(next_number, 0, _LARGEST_NUMBER if id_kind == "automatic" else 0):
        return f"'next_number' is {shorten(next_number)}"
    if (rows := sum(entry["rows"] for entry in segments)) > MOST_ROWS:
        return f"it has {rows} rows, at most {MOST_ROWS} are possible"
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


def _is_segment(entry: object) -> bool:
    if not isinstance(entry, dict) or set(entry) - {"updates", "columns"} != _SEGMENT_FIELDS:
        return False
    if "columns" in entry and not _is_file_name(entry["columns"], "columns"):
        return False
    rows, ids, first, live = entry["rows"], entry["ids"], entry["first_id"], entry["live"]
    if not _is_integer(rows, 1, MOST_ROWS) or not _is_file_name(entry["codes"], "codes"):
        return False
    if ids is None:
        if not _is_integer(first, -(2**63), 2**63 - rows):
            return False
    elif first is not None or not _is_file_name(ids, "ids"):
        return False
    updates = entry.get("updates", [])
    if not isinstance(updates, list) or not all(_is_update(update, rows) for update in updates):
        return False
    if live is None:
        return _is_integer(entry["live_rows"], rows, rows)
    return _is_file_name(live, "live") and _is_integer(entry["live_rows"], 1, rows)


def _is_update(update: object, n_rows: int) -> bool:
    if not isinstance(update, dict) or set(update) != {"rows", "codes"}:
        return False
    return _is_integer(update["rows"], 1, n_rows) and _is_file_name(update["codes"], "codes")


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_file_name(value: object, kind: str) -> bool:
    return isinstance(value, str) and FILE_NAME.fullmatch(value) is not None and value.startswith(f"{kind}-")
