"""Requests to answers: who may read and who may write."""

from __future__ import annotations

import hmac
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from supquant.errors import InputError
from supquant.serve.limits import RefusalError

__all__ = ["MIN_TOKEN_LENGTH", "Access", "Tokens", "read_tokens"]

Access = Literal["open", "read", "write"]
"""What an operation needs: nothing, the token for reading, or the one for writing."""

_log = logging.getLogger("supquant.serve")

MIN_TOKEN_LENGTH = 16
"""The minimum length of a token, in characters."""


@dataclass(frozen=True, repr=False)
class Tokens:
    """The tokens of a service. The token for writing also allows reading.

    Parameters
    ----------
    read : str
        The token for reading.
    write : str, default=None
        The token for writing. None means that nobody may write.

    Examples
    --------
    >>> tokens = Tokens("read-0123456789abcdef", "write-0123456789abcdef")
    >>> tokens.check(b"Bearer write-0123456789abcdef", "write")
    """

    read: str
    write: str | None = None

    def __post_init__(self) -> None:
        for name, token in (("read", self.read), ("write", self.write)):
            if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or " " in token):
                raise InputError(
                    f"the {name} token must have at least {MIN_TOKEN_LENGTH} ASCII characters and no space"
                )
        if self.read == self.write:
            raise InputError("the tokens for reading and for writing are the same: give two different ones")

    def check(self, authorization: bytes | None, access: Access) -> None:
        """Raise a `RefusalError` unless a header ``Authorization`` allows the access.

        The time of a comparison does not depend on where two tokens differ.
        """
        if access == "open":
            return
        scheme, _, given = (authorization or b"").partition(b" ")
        writes = self.write is not None and hmac.compare_digest(given, self.write.encode())
        reads = hmac.compare_digest(given, self.read.encode())
        if scheme.lower() != b"bearer" or not (reads or writes):
            raise RefusalError(
                401,
                "a token is needed, as header 'Authorization: Bearer TOKEN'",
                {"www-authenticate": "Bearer"},
            )
        if access == "write" and not writes:
            raise RefusalError(403, "this token may read, but not write")


def read_tokens(path: Path) -> Tokens:
    """Read a token file: a line ``read: TOKEN`` and, if writing is allowed, a line ``write: TOKEN``.

    Parameters
    ----------
    path : Path
        The file. Empty lines and lines that start with ``#`` are skipped.

    Returns
    -------
    Tokens

    Raises
    ------
    InputError
        If the file has other lines, or no token for reading, or if every user of the machine may write to it.
    """
    with path.open(encoding="utf-8") as file:  # opened once: what is checked is what is read
        mode = os.fstat(file.fileno()).st_mode
        lines = file.read().splitlines()
    if mode & stat.S_IWOTH:
        raise InputError(f"every user of this machine may write to {path}: run `chmod o-rw` on it first")
    if mode & stat.S_IROTH:  # as a secret of a container is, where there are no other users
        _log.warning("every user of this machine may read the tokens in %s: `chmod o-r` changes that", path)
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, token = line.partition(":")
        if not colon or name.strip() not in ("read", "write") or name.strip() in found:
            raise InputError(  # the line itself may hold a token
                f"line {number} of {path} must be 'read: TOKEN' or 'write: TOKEN', each once"
            )
        found[name.strip()] = token.strip()
    if "read" not in found:
        raise InputError(f"{path} has no line 'read: TOKEN'")
    return Tokens(found["read"], found.get("write"))
