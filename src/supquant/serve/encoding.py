"""Requests to answers: texts and pictures to vectors, by the encoder of an index."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.errors import InputError, SupquantError
from supquant.serve.batching import Batcher
from supquant.serve.limits import Limits, RefusalError

__all__ = ["KINDS", "Encode", "Encoder", "load_encoders"]

KINDS = ("text", "picture")
"""What an encoder takes: texts, or pictures as the bytes of their files."""

Encode = Callable[[list[Any]], Any]
"""Returns vectors (n, p) of n texts or pictures. It raises a ValueError for one that it cannot encode."""

_log = logging.getLogger("supquant.serve")


class Encoder:
    """Encodes the queries of several requests at once, in a thread of its own.

    Parameters
    ----------
    kind : {"text", "picture"}
    encode : callable
        Gets a list of str or of bytes, and returns their vectors (n, p).
    limits : Limits
    """

    def __init__(self, kind: str, encode: Encode, limits: Limits) -> None:
        self._kind = kind
        self._encode = encode
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"encode-{kind}")
        self._batcher = Batcher(self._vectors, limits, self._thread, lambda _: None)

    async def __call__(self, query: str | bytes, width: int) -> Float32:
        """Return the vector (1, width) of a text or a picture.

        Raises
        ------
        RefusalError
            If the encoder cannot take it (422), or fails (500).
        """
        one = np.empty(1, dtype=object)
        one[0] = query
        (vectors,) = await self._batcher.search(width, one)
        return vectors

    def _vectors(self, width: Any, queries: NDArray[Any]) -> tuple[Float32]:
        try:
            found = np.asarray(self._encode(queries.tolist()), dtype=np.float32)
        except (ValueError, SupquantError) as error:
            raise RefusalError(422, f"this {self._kind} cannot be encoded: {str(error)[:200]}") from error
        except Exception as error:
            _log.exception("the encoder of each %s failed", self._kind)
            raise RefusalError(500, "the encoder failed: the log of the service has the reason") from error
        if found.shape != (len(queries), width) or not np.isfinite(found).all():
            _log.error(
                "the encoder returned %s, expected finite numbers of shape %s",
                found.shape,
                (len(queries), width),
            )
            raise RefusalError(500, f"the encoder returned no finite vectors of {width} numbers")
        return (found,)

    def close(self) -> None:
        """Wait until the thread has finished its work."""
        self._thread.shutdown()


def load_encoders(texts: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Encode]]:
    """Return the functions of encoders, by the name of an index and by kind.

    Parameters
    ----------
    texts : sequence of str
        Each is ``[INDEX=]KIND:MODULE:FUNCTION``. Modules are also looked for in the current folder. Without INDEX, it is for
        all indexes.
    names : sequence of str
        The names of the indexes.

    Raises
    ------
    InputError
        If a text has another form, or the function does not exist.
    """
    found: dict[str, dict[str, Encode]] = {name: {} for name in names}
    for text in texts:
        index, equals, rest = text.rpartition("=")
        kind, _, place = rest.partition(":")
        module, colon, function = place.partition(":")
        if kind not in KINDS or not colon or (equals and index not in found):
            raise InputError(
                f"an encoder is given as [INDEX=]KIND:MODULE:FUNCTION, KIND one of {', '.join(KINDS)}, "
                f"INDEX one of {', '.join(names)}, got {text!r}"
            )
        encode = _load(module, function)
        for name in [index] if equals else names:
            found[name][kind] = encode
    return found


def _load(module: str, function: str) -> Encode:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), function)
    except (ImportError, ValueError, AttributeError) as error:
        raise InputError(f"there is no encoder {module}:{function}: {error}") from error
    if not callable(found):
        raise InputError(f"the encoder {module}:{function} is not a function")
    encode: Encode = found
    return encode
