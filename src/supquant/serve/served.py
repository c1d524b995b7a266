"""Requests to answers: one index that is searched, changed, saved and reloaded while it is served.

An index that requests read never changes. A change is made to a copy, which shares all arrays with it. The copy is saved, and
only then replaces the old one. So no request sees what is not yet in the folder.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import platform
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.errors import InputError, SaveConflictError, SupquantError
from supquant.index import CodeIndex, Filter
from supquant.index.change_keys import MAX_KEYS, ChangeKeys
from supquant.index.manifest import MANIFEST, keys_in_manifest, read_manifest
from supquant.serve.batching import Batcher, Found, settle
from supquant.serve.conditions import check_condition
from supquant.serve.encoding import Encode, Encoder
from supquant.serve.limits import Limits, RefusalError
from supquant.serve.metrics import Metrics

__all__ = ["Change", "SearchKey", "ServedIndex", "Version", "check_name"]

_MAX_FILTERS = 32
"""The maximum number of conditions whose filters are kept with a version."""

Signature = tuple[int, ...]

_UNKNOWN: Signature = (-1,)
"""The signature of no folder: the next check reloads the index."""

_log = logging.getLogger("supquant.serve")


class Version:
    """An index that does not change, and the filters of the conditions that requests have used.

    Parameters
    ----------
    index : CodeIndex
        The index.

    Attributes
    ----------
    name : str
        Tells it from all other versions, also of other services of the folder.
    """

    def __init__(self, index: CodeIndex) -> None:
        self.index = index
        self.name = secrets.token_hex(8)
        self.width: int = index.codec.n_inputs  # of vectors
        self.options: dict[bytes, Any] = {}  # the options of searches by their text in the address
        self._filters: OrderedDict[str, Filter] = OrderedDict()
        self._lock = Lock()

    @cached_property
    def _descending(self) -> dict[str, bool]:
        codec = self.index.codec
        nothing = np.empty((0, codec.n_inputs), dtype=np.float32)
        return {each: codec.query_tables(nothing, each).descending for each in codec.rankings}

    def descends(self, ranking: str | None) -> bool:
        """Return whether greater scores are better."""
        return self._descending[self.index.codec.rankings[0] if ranking is None else ranking]

    def column_types(self) -> dict[str, str]:
        """Return the type of every column, as pyarrow names it."""
        if not self.index.columns:
            return {}
        schema = self.index.get([]).schema
        return {name: str(schema.field(name).type) for name in self.index.columns}

    def filter(self, where: Any) -> Filter:
        """Return the filter of ids or of a condition. The filter of a condition is kept for later requests."""
        if not isinstance(where, str):
            return self.index.filter(where)
        with self._lock:
            if where in self._filters:
                self._filters.move_to_end(where)
                return self._filters[where]
        check_condition(where)
        made = self.index.filter(where)
        with self._lock:
            self._filters[where] = made
            while len(self._filters) > _MAX_FILTERS:
                self._filters.popitem(last=False)
        return made

    def select(self, where: Any, state: str | None) -> NDArray[Any]:
        """Return the ids of the rows that ids, a mask or a condition select."""
        if isinstance(where, str):
            check_condition(where)
        return self.index.select(where, state=state)


@dataclass(frozen=True)
class SearchKey:
    """What searches must have in common to share a scan."""

    version: Version
    k: int
    ranking: str | None
    novelty: float | tuple[float, ...] | None
    among: Filter | None
    alone: object = None  # tells a search with one novelty per query from all others
    refine: int | None = None


@dataclass(frozen=True, eq=False)
class Change:
    """What a request changes.

    Parameters
    ----------
    make : callable
        Changes an index. If it raises, the index is unchanged.
    answer : callable
        Returns the answer to the request, given the changed index.
    key : tuple of str, default=None
        The digests of its key and of its content, as `key_of_change` returns them. A change whose key the folder has is not made
        again.
    """

    make: Callable[[CodeIndex], object]
    answer: Callable[[CodeIndex], Any] = lambda index: {"rows": len(index)}
    key: tuple[str, str] | None = None


class ServedIndex:
    """One index by name, with the threads that search and change it.

    Parameters
    ----------
    name : str
        The name of the index in addresses.
    folder : Path
        The folder of the index.
    limits : Limits
    metrics : Metrics
    n_jobs : int, default=None
        The number of threads of a scan. None means all cores.
    encoders : mapping of str to callable, default=None
        Functions that encode queries, by kind.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        limits: Limits,
        metrics: Metrics,
        n_jobs: int | None = None,
        encoders: Mapping[str, Encode] | None = None,
    ) -> None:
        self.name = name
        self.folder = folder.resolve()
        self.version = Version(CodeIndex.load(self.folder))
        self._keys = keys_in_manifest(read_manifest(self.folder))
        self._confirmed = True  # whether the last save was synced
        self._signature = self._read_signature()
        self._metrics = metrics
        self._limits = limits
        self._n_jobs = n_jobs
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix=f"search-{name}")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"write-{name}")
        self._batcher = Batcher(self._scan, limits, self._searcher, metrics.scans.labels(name).observe)
        self.encoders = {kind: Encoder(kind, encode, limits) for kind, encode in (encoders or {}).items()}
        self._changes: list[tuple[Change, asyncio.Future[Any]]] = []
        self._writing = False
        metrics.rows.labels(name).set(len(self.version.index))

    def close(self) -> None:
        """Wait until the threads have done what they began."""
        for encoder in self.encoders.values():
            encoder.close()
        self._searcher.shutdown()
        self._writer.shutdown()

    # searches ------------------------------------------------------------------------------------------------------------

    def search(self, key: SearchKey, queries: NDArray[Any]) -> Awaitable[Found]:
        """Return the scores and ids (q, k') of the best rows for queries (q, p). Several searches share one scan."""
        return self._batcher.search(key, queries)

    def _scan(self, key: SearchKey, queries: NDArray[Any]) -> Found:
        return key.version.index.search(
            queries,
            key.k,
            ranking=key.ranking,
            novelty=key.novelty,
            where=key.among,
            n_jobs=self._n_jobs,
            refine=key.refine,
        )

    # changes -------------------------------------------------------------------------------------------------------------

    async def change(self, change: Change) -> Any:
        """Change the index, save it, and return the answer.

        Changes that arrive while others are being saved are made and saved together.

        Raises
        ------
        RefusalError
            If too many changes are waiting, or the folder cannot be written.
        InputError
            If the change is refused. The index is unchanged then.
        """
        if len(self._changes) >= self._limits.max_queue:
            raise RefusalError(429, "too many changes are waiting: try again later", {"retry-after": "1"})
        answer = asyncio.get_running_loop().create_future()
        self._changes.append((change, answer))
        self._start_writing()
        return await answer

    def _start_writing(self) -> None:
        if self._writing or not self._changes:
            return
        self._writing = True
        taken, self._changes = self._changes, []
        wanted = [(change, answer) for change, answer in taken if not answer.done()]
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._writer, self._commit, [change for change, _ in wanted])
        done.add_done_callback(lambda future: self._finish([answer for _, answer in wanted], future))

    def _finish(self, answers: Sequence[asyncio.Future[Any]], done: asyncio.Future[list[Any]]) -> None:
        self._writing = False
        settle(
            answers, done
        )  # the request of an answer may have been given up; the change is made nevertheless
        self._start_writing()

    def _commit(self, changes: Sequence[Change]) -> list[Any]:
        """Make changes and save them; return an answer or an error for each."""
        try:
            return self._commit_together(changes)
        except RefusalError as refusal:  # of the folder
            return [refusal] * len(changes)
        except Exception as error:  # noqa: BLE001  # what one of them brings cannot be saved
            if len(changes) == 1:
                return [error]
            return [self._commit([each])[0] for each in changes]

    def _commit_together(self, changes: Sequence[Change]) -> list[Any]:
        """Make changes and save them. If another process saves in the meantime, its changes come first."""
        while True:
            self.reload()
            index = self.version.index
            results, keys = [], self._keys.copy()
            for change in changes:
                index, result = _attempt(change, index, keys)
                results.append(result)
            if index is self.version.index and self._confirmed:
                return results
            failure = None
            new = dict(list(keys.items())[len(self._keys) :])
            try:
                try:
                    index._save(self.folder, keys=new)
                except OSError:  # the second attempt only syncs, if that is what failed
                    index._save(self.folder, keys=new)
            except SaveConflictError:
                self._signature = _UNKNOWN
                continue
            except OSError as error:
                _log.exception("index %s cannot be saved", self.name)
                made, said = self._outcome_of_failed_save(error, repeated=index is self.version.index)
                failure = RefusalError(507, said)
                if not made:
                    raise failure from error
            self._signature = self._signature_of_own_save()
            self._keys, self._confirmed = dict(list(keys.items())[-MAX_KEYS:]), failure is None
            if index is not self.version.index:
                self._replace(index)
            self._metrics.saves.labels(self.name).inc()
            return [each if failure is None or isinstance(each, Exception) else failure for each in results]

    def _outcome_of_failed_save(self, error: OSError, repeated: bool) -> tuple[bool, str]:
        """Return whether a change was made although its save failed, and what is known of it. A repeated one was made before."""
        reason = getattr(error.__cause__, "strerror", None) or error.strerror
        present = self._read_signature()
        if present == self._signature and not repeated:
            return False, f"the change was not made: {reason}"
        if present and present == self._signature_of_own_save():
            return True, (
                f"the change was made and is seen, but a crash may undo it, as the disk did not confirm it: {reason}; "
                "do not send it again"
            )
        return False, f"it is not known whether the change was made: {reason}; look before you send it again"

    def _replace(self, index: CodeIndex) -> None:
        self.version = Version(index)
        self._metrics.rows.labels(self.name).set(len(index))

    # other processes -----------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Load what another process saved, in the thread of the changes."""
        await asyncio.get_running_loop().run_in_executor(self._writer, self.reload)

    def reload(self) -> None:
        """Reload the index if its folder has changed since it was last loaded or saved.

        Raises
        ------
        RefusalError
            If the folder is gone or damaged. The index that was loaded before stays in use then.
        """
        signature = self._read_signature()
        if signature == self._signature:
            return
        try:
            index = CodeIndex.load(self.folder)
            keys = keys_in_manifest(read_manifest(self.folder))  # of this index or of a later one
        except (OSError, SupquantError) as error:
            _log.warning("index %s cannot be reloaded: %s", self.name, error)
            raise RefusalError(503, "the folder of the index cannot be read") from error
        # If the folder has changed again in the meantime, the next check sees it.
        self._signature, self._keys = signature, keys
        self._replace(index)
        self._metrics.reloads.labels(self.name).inc()

    def _signature_of_own_save(self) -> Signature:
        """Return the signature of the folder if no other process has saved since this one did."""
        signature = self._read_signature()
        try:
            saved = read_manifest(self.folder)["saved"]
        except (OSError, SupquantError):
            return _UNKNOWN
        own = (saved["pid"], saved["host"]) == (os.getpid(), platform.node())
        return signature if own and signature == self._read_signature() else _UNKNOWN

    def _read_signature(self) -> Signature:
        """Return what distinguishes one manifest from another; an empty tuple if there is none."""
        try:
            found = (self.folder / MANIFEST).stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size


def _attempt(change: Change, index: CodeIndex, keys: ChangeKeys) -> tuple[CodeIndex, Any]:
    """Return an index after a change and the answer; or else the same index and the error. A new key is added to the keys."""
    key, content = change.key or (None, "")
    if key in keys and keys[key] != content:
        return index, RefusalError(422, "another change was made with this Idempotency-Key: draw a new key")
    changed = index if key in keys else copy.copy(index)
    try:
        if key not in keys:
            change.make(changed)
        answer = change.answer(changed)
    except Exception as error:  # noqa: BLE001  # it belongs to this request, whatever it is
        return index, error
    if key is not None:
        keys.setdefault(key, content)
    return changed, answer


def check_name(name: str) -> str:
    """Return the name of an index if it can be part of an address; raise an `InputError` otherwise.

    Examples
    --------
    >>> check_name("shoes-2024")
    'shoes-2024'
    """
    if not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InputError(
            f"an index name consists of letters, digits, '-', '_' and '.', got {name!r}: give another name as NAME=FOLDER"
        )
    return name
