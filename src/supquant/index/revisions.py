"""Who saved an index and when, and whether a folder still holds what an index knows of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import xxhash

__all__ = ["content_digest", "describe_save", "is_save_record", "new_save_record"]

_LONGEST_TEXT = 255
"""The greatest number of characters of a time or of a host's name."""

_MOST = 2**63 - 1
"""The greatest revision and process id."""


def content_digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest (32 hexadecimal digits) of a manifest without its record of the save.

    It stands for the rows and the codec. So a folder that was saved again without a change, or copied, counts as unchanged.
    """
    content = {name: value for name, value in manifest.items() if name != "saved"}
    return xxhash.xxh3_128_hexdigest(json.dumps(content).encode())


def new_save_record(replaced: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the field ``saved`` of a manifest that this process writes now.

    Parameters
    ----------
    replaced : mapping or None
        The manifest that is replaced. None if there is none.
    """
    before = (replaced or {}).get("saved", {"revision": 0})
    return {
        "revision": min(before["revision"] + 1, _MOST),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": os.uname().nodename[:_LONGEST_TEXT],
        "pid": os.getpid(),
    }


def is_save_record(value: object) -> bool:
    """Return whether a value has the form of the field ``saved`` of a manifest."""
    if not isinstance(value, dict) or set(value) != {"revision", "time", "host", "pid"}:
        return False
    numbers = all(type(value[name]) is int and 0 <= value[name] <= _MOST for name in ("revision", "pid"))
    return numbers and all(
        isinstance(value[name], str) and len(value[name]) <= _LONGEST_TEXT for name in ("time", "host")
    )


def describe_save(manifest: Mapping[str, Any]) -> str:
    """Return who saved a folder and when, for an error."""
    saved = manifest.get("saved")
    if saved is None:
        return "it was saved by a supquant that did not record who it was"
    return f"process {saved['pid']} on {saved['host']} saved it at {saved['time']}, as revision {saved['revision']}"
