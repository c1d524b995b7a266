"""Report: a service under load or killed, by clients that change and search rows of their own and check every answer.

After a kill, what was answered is there, and of what was not answered only whole changes.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from supquant import AdditiveCodec, CodeIndex
from supquant.cli.index import change_saved
from supquant.client import Client
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.bench.serving.process import ServiceProcess, failures_at_end, growth_of
from supquant_lab.machine import describe_machine

M, K, R = 3, 16, 4
"""Bytes of a code, number of codewords, and width of vectors."""

MAX_ROWS = 300
"""A client that has more rows than this removes some."""

LOAD_CLIENTS, KILL_CLIENTS = 6, 4
"""Numbers of clients that load a service, and of those whose service is killed."""

STRANGER = 99
"""The owner whose rows another process changes, without the service."""

SAVE_SECONDS = 2.0
"""Seconds between two saves by the other process."""

MEMORY_SECONDS = 2.0
"""Seconds between two looks at the memory of the service."""

KILL_SECONDS = 1.0
"""Maximum seconds from the first answer of a service to its kill."""

FOREVER = 600.0
"""More seconds than any service lives here."""


def make_codec() -> AdditiveCodec:
    """Return a codec of small whole numbers: scores are exact, and many are equal."""
    codebooks = np.random.default_rng(0).integers(-2, 3, size=(M, K, R)).astype(np.float32)
    return AdditiveCodec(codebooks)


class CheckedClient:
    """Changes rows of one owner, and knows what the index must answer about them.

    Parameters
    ----------
    owner : int
        The owner. Its rows have this number in the column ``owner``, and ids that no other owner has.
    seed : int
        Seed of all choices.
    """

    def __init__(self, owner: int, seed: int) -> None:
        self.owner = owner
        self.rows: dict[int, tuple[int, ...]] = {}  # codes by id, in order of insertion
        self.pending: dict[int, tuple[int, ...] | None] = {}  # a change without an answer; None removes
        self.counts: Counter[str] = Counter()
        self._rng = np.random.default_rng([seed, owner])
        self._numbers = itertools.count(owner * 10**9)
        self._codec = make_codec()

    def save_new(self, folder: Path) -> None:
        """Save an index with the first rows of this owner, so that it has its kind of ids and its column."""
        index = CodeIndex(self._codec)
        self.change(index)
        index.save(folder)

    def change(self, index: Client | CodeIndex) -> None:
        """Add, update or remove a few rows."""
        rng, live = self._rng, list(self.rows)
        kind = rng.choice(["remove"] if len(live) > MAX_ROWS else ["add", "add", "update", "remove"])
        if kind == "add" or len(live) < 10:
            ids = [next(self._numbers) for _ in range(int(rng.integers(1, 9)))]
            codes = rng.integers(0, K, size=(len(ids), M))
            self.pending = {each: tuple(code) for each, code in zip(ids, codes.tolist(), strict=True)}
            index.add_codes(codes, ids, metadata=self.columns(len(ids)))
        else:
            ids = [int(each) for each in rng.choice(live, size=int(rng.integers(1, 9)), replace=False)]
            if kind == "update":
                codes = rng.integers(0, K, size=(len(ids), M))
                self.pending = {each: tuple(code) for each, code in zip(ids, codes.tolist(), strict=True)}
                index.update_codes(ids, codes)
            else:
                self.pending = dict.fromkeys(ids)
                index.remove(ids)
        self.accept()
        self.counts[str(kind)] += 1

    def columns(self, n: int) -> dict[str, list[int]]:
        """Return the columns of n new rows."""
        return {"owner": [self.owner] * n}

    def accept(self) -> None:
        """Note that the pending change was made."""
        self.rows |= {each: code for each, code in self.pending.items() if code is not None}
        for each, code in self.pending.items():
            if code is None:
                del self.rows[each]
        self.pending = {}

    def search(self, index: Client | CodeIndex) -> None:
        """Search the rows of this owner, and compare the answers with a full sort."""
        queries = self._rng.integers(-3, 4, size=(int(self._rng.integers(1, 4)), R)).astype(np.float32)
        k = int(self._rng.integers(1, 20))
        scores, found = index.search(queries, k, where=f"owner = {self.owner}")
        ids = np.array(list(self.rows), dtype=np.int64)
        codes = np.array(list(self.rows.values()), dtype=np.intp).reshape(-1, M)
        made = self._codec.query_tables(queries)
        sums = sum(made.tables[:, m][:, codes[:, m]] for m in range(M)) + np.zeros(
            (len(queries), len(ids)), np.float32
        )
        best = np.argsort(sums, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found, ids[best], "other ids")
        np.testing.assert_array_equal(
            scores, made.scores(np.take_along_axis(sums, best, axis=1)), "other scores"
        )
        self.counts["searches"] += len(queries)

    def search_all(self, index: Client | CodeIndex) -> None:
        """Search all rows; check that answers are in order, and that none names a missing row of this owner."""
        scores, found = index.search(self._rng.integers(-3, 4, size=(1, R)).astype(np.float32), 10)
        assert (np.diff(scores) >= 0).all(), "scores are not in order"
        own = [each for each in found[0].tolist() if each // 10**9 == self.owner]
        assert set(own) <= set(self.rows), "answers hold rows that are not there"
        self.counts["searches of all rows"] += 1

    def check_rows(self, index: CodeIndex) -> None:
        """Compare the rows of this owner in a saved index. A change without an answer must be whole or absent."""
        held = [each for each in index.ids.tolist() if each // 10**9 == self.owner]
        codes = dict(zip(held, map(tuple, index.codes(held).tolist()), strict=True))
        before = codes == self.rows
        if not before and self.pending:
            self.accept()
            before = codes == self.rows
            self.counts["changes that were made without an answer"] += 1
        assert before, f"rows of owner {self.owner} differ from what was answered"
        self.pending = {}


def run_clients(clients: list[CheckedClient], url: str, seconds: float, writes: float) -> list[str]:
    """Let clients change and search at the same time, each in a thread; return the failures.

    Parameters
    ----------
    clients : list of CheckedClient
    url : str
        The address of the service.
    seconds : float
        How long to run.
    writes : float
        Fraction of changes among all requests.
    """
    failures: list[str] = []
    end = time.monotonic() + seconds

    def run(client: CheckedClient) -> None:
        rng: Any = np.random.default_rng(client.owner)
        try:
            connection = Client(url)
            while time.monotonic() < end and not failures:
                if rng.random() < writes:
                    client.change(connection)
                elif rng.random() < 0.5:
                    client.search(connection)
                else:
                    client.search_all(connection)
            connection.close()
        except Exception as error:  # noqa: BLE001  # whatever it is, it goes into the record
            failures.append(f"owner {client.owner}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def bench_load(minutes: float, seed: int = 0) -> dict[str, Any]:
    """Load a service with searches, adds, updates and removes while another process saves to its folder.

    Parameters
    ----------
    minutes : float
        How long to run.
    seed : int, default=0
        Seed of all choices.

    Returns
    -------
    dict
        A record for `json`: ``counts``, ``failures``, which should be empty, and the memory of the service in MB.
    """
    began, seconds = time.monotonic(), 60 * minutes
    memory: list[float] = []
    stranger: dict[str, Any] = {}
    with temporary_folder() as place:
        folder = place / "items"
        first = CheckedClient(LOAD_CLIENTS, seed)
        first.save_new(folder)
        clients = [first, *(CheckedClient(owner, seed) for owner in range(LOAD_CLIENTS))]
        with ServiceProcess(f"items={folder}", "--watch") as service:
            over = threading.Event()
            other = threading.Thread(
                target=lambda: stranger.update(
                    run_fresh(_save_from_outside, folder, seed, seconds, purpose="save from another process")
                )
            )
            looking = threading.Thread(target=_watch_memory, args=(service, memory, over))
            other.start()
            looking.start()
            failures = run_clients(clients, service.url, seconds, writes=0.3)
            other.join()
            over.set()
            looking.join()
            ended = service.end()
        failures += failures_at_end(*ended, silent=True)
        saved = CodeIndex.load(folder, verify="full")
        for client in clients:
            client.check_rows(saved)
        counts = sum((client.counts for client in clients), Counter())
        held = sum(each // 10**9 == STRANGER for each in saved.ids.tolist())
        if held != stranger.get("rows"):
            failures.append(f"{held} rows of the other process are there, expected {stranger.get('rows')}")
    return {
        "benchmark": "serve-load",
        "minutes": (time.monotonic() - began) / 60,
        "clients": LOAD_CLIENTS + 1,
        "counts": dict(sorted(counts.items())) | {"saves by another process": stranger.get("saves", 0)},
        "failures": failures,
        "memory_mb": growth_of(memory)[0],
        "machine": describe_machine(),
    }


def _watch_memory(service: ServiceProcess, memory: list[float], over: threading.Event) -> None:
    while not over.wait(MEMORY_SECONDS):
        memory.append(service.memory_mb())


def _change_again(owner: CheckedClient, before: CheckedClient, index: CodeIndex) -> None:
    """Change an index as the owner in its former state would. After a conflict, the same change is made again."""
    owner.__dict__.update(copy.deepcopy(before).__dict__)
    owner.change(index)


def _save_from_outside(folder: str, seed: int, seconds: float) -> dict[str, int]:
    """Change rows of another owner in a saved index repeatedly; return the number of rows and of saves."""
    owner = CheckedClient(STRANGER, seed)
    end = time.monotonic() + seconds
    saves = 0
    while time.monotonic() < end:
        change_saved(Path(folder), partial(_change_again, owner, copy.deepcopy(owner)))
        owner.check_rows(CodeIndex.load(folder))
        saves += 1
        time.sleep(SAVE_SECONDS)
    return {"rows": len(owner.rows), "saves": saves}


def bench_kills(n_kills: int, seed: int = 0, on_kill: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Kill a service with SIGKILL at random moments while clients change its index, and compare its folder.

    Parameters
    ----------
    n_kills : int
        Number of kills.
    seed : int, default=0
        Seed of all choices.
    on_kill : callable, default=None
        Gets the number of each kill before the service starts.

    Returns
    -------
    dict
        A record for `json`: ``counts`` of changes that were answered, and of those that were made without an answer.
    """
    rng = np.random.default_rng(seed)
    clients = [CheckedClient(owner, seed) for owner in range(KILL_CLIENTS)]
    with temporary_folder() as place:
        folder = place / "items"
        clients[0].save_new(folder)
        for number in range(n_kills):
            if on_kill is not None:
                on_kill(number)
            with ServiceProcess(f"items={folder}") as service:
                killing = threading.Thread(
                    target=_kill_later, args=(service, clients, float(rng.uniform(0, KILL_SECONDS)))
                )
                killing.start()
                run_clients(clients, service.url, FOREVER, writes=0.95)  # the kill ends them with an error
                killing.join()
            saved = CodeIndex.load(folder, verify="full")
            for client in clients:
                client.check_rows(saved)
    counts = sum((client.counts for client in clients), Counter())
    return {
        "benchmark": "serve-kills",
        "kills": n_kills,
        "clients": KILL_CLIENTS,
        "counts": dict(sorted(counts.items())),
        "time": time.strftime("%Y-%m-%d"),
        "machine": describe_machine(),
    }


def _kill_later(service: ServiceProcess, clients: list[CheckedClient], seconds: float) -> None:
    """Kill a service some time after its next answer."""
    before = sum(client.counts.total() for client in clients)
    while sum(client.counts.total() for client in clients) == before:
        time.sleep(0.005)
    time.sleep(seconds)
    service.kill()
