"""The keys of the last changes of an index, kept in its manifest: a change that is sent again with its key is made once.

A key is in the folder exactly if its change is, since the same manifest brings both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import islice

__all__ = ["MAX_KEYS", "ChangeKeys", "are_packed_keys", "key_of_change", "pack_keys", "unpack_keys"]

MAX_KEYS = 1024
"""The number of changes whose keys are kept. A manifest grows by 32 bytes for each."""

ChangeKeys = dict[str, str]
"""Digests of keys, each with a digest of the change that it stands for, oldest first."""

_KEY_DIGITS, _CHANGE_DIGITS = 24, 8
"""The hexadecimal digits of the two digests."""

_PACKED = re.compile(rf"([0-9a-f]{{{_KEY_DIGITS + _CHANGE_DIGITS}}}){{0,{MAX_KEYS}}}")


def key_of_change(key: bytes, change: bytes) -> tuple[str, str]:
    """Return the digests of a key and of what was sent with it.

    Examples
    --------
    >>> key_of_change(b"my key", b"add 3")
    ('61f8cb2f806c27e0ad64c1b3', '12661eb6')
    """
    return (
        hashlib.blake2b(key, digest_size=_KEY_DIGITS // 2).hexdigest(),
        hashlib.blake2b(change, digest_size=_CHANGE_DIGITS // 2).hexdigest(),
    )


def pack_keys(keys: Mapping[str, str]) -> str:
    """Return the last keys as one text, which JSON holds in little time."""
    last = islice(keys.items(), max(0, len(keys) - MAX_KEYS), None)
    return "".join(key + change for key, change in last)


def unpack_keys(text: str) -> ChangeKeys:
    """Return what `pack_keys` packed.

    Examples
    --------
    >>> unpack_keys(pack_keys(dict([key_of_change(b"my key", b"add 3")])))
    {'61f8cb2f806c27e0ad64c1b3': '12661eb6'}
    """
    size = _KEY_DIGITS + _CHANGE_DIGITS
    parts = (text[start : start + size] for start in range(0, len(text), size))
    return {part[:_KEY_DIGITS]: part[_KEY_DIGITS:] for part in parts}


def are_packed_keys(value: object) -> bool:
    """Return whether a value may be what `pack_keys` packed."""
    return isinstance(value, str) and _PACKED.fullmatch(value) is not None
