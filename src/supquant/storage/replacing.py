"""Files that are written whole or not at all: under another name first, and then renamed.

An object of Python's `io` owns every open file. So a file is closed even if Ctrl-C comes right after opening it.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import xxhash

from supquant.errors import InputError
from supquant.system import delete_open, delete_unused, mark_used, rename_open, sync_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "before_replacing",
    "replace_file",
    "replaceable",
    "write_file_atomically",
    "write_json",
]


def write_file_atomically(path: str | os.PathLike[str], *pieces: bytes | memoryview) -> None:
    """Write one file, whole or not at all, as `replace_file` does.

    Parameters
    ----------
    path : str or path-like
        The file. An existing file is replaced. If `path` is a link, it stays a link, and its target is replaced.
    *pieces : bytes or memoryview
        The content. The pieces are written one after the other.

    Raises
    ------
    InputError
        If `path` is a device, a pipe, a socket or a folder.
    OSError
        If the file cannot be written. An existing file is unchanged, unless the error says that only the sync failed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file_atomically(f"{folder}/note", b"all ", b"or nothing")
    ...     (Path(folder) / "note").read_bytes()
    b'all or nothing'
    """
    with replace_file(path) as file:
        file.writelines(pieces)


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of another when the block ends without an error.

    The temporary file lies in the same folder. It is synced to the disk and renamed, and the renaming is synced too. So a
    failure, such as a full disk or a crash, leaves the old file. A killed process leaves its temporary file. The next call for
    the same path deletes it.

    Parameters
    ----------
    path : str or path-like
        As in `write_file_atomically`.

    Yields
    ------
    binary file
        The temporary file, open for writing.

    Raises
    ------
    InputError
        If `path` is a device, a pipe, a socket or a folder.
    OSError
        As in `write_file_atomically`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_file(f"{folder}/note") as file:
    ...         _ = file.write(b"all or nothing")
    ...     (Path(folder) / "note").read_bytes()
    b'all or nothing'
    """
    target = replaceable(path)
    try:
        _delete_abandoned(target)
        with _open_temporary(target) as file:
            try:
                yield file
                file.flush()
                sync_file(file)
                _tell.get()(target)
                rename_open(file, target)
            except BaseException:  # also after Ctrl-C, no half-written file stays
                delete_open(file)
                raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"could not save, nothing was changed: {reason}", str(path)) from error
    try:
        sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"saved, but the sync failed, and a crash may undo it: {reason}", str(path)
        ) from error


_tell: ContextVar[Callable[[Path], object]] = ContextVar("_tell", default=lambda _: None)
"""What is called right before a file takes its place."""


@contextmanager
def before_replacing(call: Callable[[Path], object]) -> Iterator[None]:
    """Call a function in a block whenever a file is about to take its place.

    Parameters
    ----------
    call : callable
        Gets the path of the file, behind all links. If it raises, nothing is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, before_replacing(lambda path: print(path.name)):
    ...     write_file_atomically(f"{folder}/note", b"all or nothing")
    note
    """
    token = _tell.set(call)
    try:
        yield
    finally:
        _tell.reset(token)


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, behind all links; raise an `InputError` if it is something other than a file."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # a device would be replaced by a file, for all programs
        kind = "a folder" if target.is_dir() else "a device, a pipe or a socket"
        raise InputError(f"{os.fspath(path)} is {kind}; expected a file or a new name: save to another path")
    return target


def write_json(path: Path, content: Any) -> None:
    r"""Write an indented JSON file. An existing file is replaced at once or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : JSON value
        What to write. Values that JSON does not know are written as strings.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "cell.json", {"map": 0.5})
    ...     (Path(folder) / "cell.json").read_text()
    '{\n  "map": 0.5\n}\n'
    """
    write_file_atomically(path, json.dumps(content, indent=2, default=str).encode() + b"\n")


def _open_temporary(target: Path) -> BinaryIO:
    """Create a temporary file next to a file, and lock it for as long as it is open."""
    while True:
        path = target.with_name(f"{_temporary_prefix(target)}{secrets.token_hex(8)}.tmp")
        file = cast("BinaryIO", path.open("xb"))
        mark_used(file)
        if path.exists():
            return file
        file.close()  # another process found it before it was locked, and deleted it


def _delete_abandoned(target: Path) -> None:
    """Delete temporary files for this target whose writer is gone: nobody locks them.

    A child that was forked during the writing inherits the lock. The file then stays until a save after the child's end.
    """
    for path in target.parent.glob(f"{_temporary_prefix(target)}*.tmp"):
        with suppress(OSError):  # an error: its writer is at work, or it is gone
            delete_unused(path)


def _temporary_prefix(target: Path) -> str:
    """Return the beginning of the names of temporary files for a target. It has a fixed length, as names are limited."""
    return f".supquant-{xxhash.xxh3_64_hexdigest(os.fsencode(target.name))}-"
