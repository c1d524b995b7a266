"""Report: many changes of one running service, every answer compared with a model in memory, and what grows meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import CodeIndex
from supquant.client import Client
from supquant_lab.bench.process import temporary_folder
from supquant_lab.bench.serving.checked import CheckedClient, K, M, make_codec
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLIENTS = 8
"""Number of clients, each in a thread."""

SEARCHES = 0.1
"""Fraction of searches among the requests."""

MAX_GROWTH = {"memory_mb": 1.25, "folder_kb": 2.0, "files": 3.0, "change_ms": 1.5, "search_ms": 1.5}
"""How many times what was measured in the second tenth of the changes it may be in the last one."""


class ChangingClient(CheckedClient):
    """Also replaces or adds rows in one request, and sets a column, which it compares in every answer."""

    def __init__(self, owner: int, seed: int) -> None:
        super().__init__(owner, seed)
        self.marks: dict[int, int] = {}  # the column `mark`, by id

    def change(self, index: Client | CodeIndex) -> None:
        """Make one change, of any kind."""
        rng = self._rng
        if not self.rows or rng.random() < 0.5:
            super().change(index)
        else:
            known = rng.choice(list(self.rows), size=min(4, len(self.rows)), replace=False).tolist()
            ids = known if (kind := rng.choice(["metadata", "upsert"])) == "metadata" else self._some(known)
            codes, mark = rng.integers(0, K, size=(len(ids), M)), int(rng.integers(1000))
            self.pending = {each: tuple(code) for each, code in zip(ids, codes.tolist(), strict=True)}
            columns = self.columns(len(ids), mark)
            change = index.update_codes if kind == "metadata" else index.upsert_codes
            change(ids, codes, metadata=columns)
            self.accept()
            self.marks |= dict.fromkeys(ids, mark)
            self.counts[str(kind)] += 1
        self.marks = {each: mark for each, mark in self.marks.items() if each in self.rows}

    def columns(self, n: int, mark: int = 0) -> dict[str, list[int]]:
        """Return the columns of n rows."""
        return super().columns(n) | {"mark": [mark] * n}

    def _some(self, known: list[int]) -> list[int]:
        return known[: int(self._rng.integers(0, 3))] + [next(self._numbers) for _ in range(2)]

    def check_columns(self, index: Client | CodeIndex) -> None:
        """Compare the column of some rows."""
        ids = self._rng.choice(list(self.rows), size=min(5, len(self.rows)), replace=False).tolist()
        found = index.get(ids, ["mark"])["mark"].to_pylist()
        assert found == [self.marks.get(each, 0) for each in ids], "other columns"
        self.counts["reads of columns"] += 1


def bench_changes(
    n_changes: int,
    seed: int = 0,
    within: Path | None = None,
    on_tenth: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Change one running service many times, and compare every answer.

    Parameters
    ----------
    n_changes : int
        Number of changes, of all clients together.
    seed : int, default=0
        Seed of all choices.
    within : path, default=None
        The parent of the folder of the index; None stands for the system's temporary folder.
    on_tenth : callable, default=None
        Gets the number of changes after each tenth of them.

    Returns
    -------
    dict
        A record for `json`: ``counts``, ``failures``, which should be empty, and for each tenth of the changes the memory of the
        service, the size of its folder, and medians of the time of a change and of a search.
    """
    began = time.monotonic()
    failures: list[str] = []
    tenths: list[dict[str, float]] = []
    clients = [ChangingClient(owner, seed) for owner in range(CLIENTS)]
    with temporary_folder(within) as place:
        folder = place / "items"
        index = CodeIndex(make_codec())
        for client in clients:  # the index has its kind of ids and its columns
            client.change(index)
            client.change(index)
        index.save(folder)
        with ServiceProcess(f"items={folder}") as service:
            for tenth in range(10):
                share = n_changes // 10 // CLIENTS
                tenths.append(_run_tenth(clients, service, folder, share, failures))
                if on_tenth is not None:
                    on_tenth((tenth + 1) * share * CLIENTS)
                if failures:
                    break
            code, errors = service.end()
        failures += [f"the service ended with {code}"] if code else []
        failures += [errors[-2000:]] if errors else []
        saved = CodeIndex.load(folder, verify="full")
        for client in clients:
            client.check_rows(saved)
        if len(saved) != sum(len(client.rows) for client in clients):
            failures.append(f"the saved index has {len(saved)} rows")
    failures += find_growth(tenths)
    return {
        "benchmark": "serve-changes",
        "minutes": (time.monotonic() - began) / 60,
        "clients": CLIENTS,
        "counts": dict(sorted(sum((client.counts for client in clients), Counter()).items())),
        "failures": failures,
        "tenths": tenths,
        "machine": describe_machine(),
    }


def find_growth(tenths: list[dict[str, float]]) -> list[str]:
    """Return what grew by more than `MAX_GROWTH` from the second tenth to the last one. The first one fills what is empty."""
    if len(tenths) < 3:
        return []
    early, late = tenths[1], tenths[-1]
    if late["rows"] > 1.25 * early["rows"]:  # too few changes: the index still fills
        return []
    return [
        f"{name} grew from {early[name]:.1f} to {late[name]:.1f}"
        for name, times in MAX_GROWTH.items()
        if late[name] > times * early[name]
    ]


def _run_tenth(
    clients: list[ChangingClient], service: ServiceProcess, folder: Path, share: int, failures: list[str]
) -> dict[str, float]:
    """Let every client make its share of changes, with searches between them; return what is measured then."""
    seconds: dict[str, list[float]] = {"change_ms": [], "search_ms": []}

    def timed(name: str, ask: Callable[[Client], None], connection: Client) -> None:
        began = time.perf_counter()
        ask(connection)
        seconds[name].append(time.perf_counter() - began)

    def run(client: ChangingClient) -> None:
        rng = np.random.default_rng(client.owner)
        try:
            connection = Client(service.url)
            for _ in range(share):
                if failures:
                    return
                timed("change_ms", client.change, connection)
                if rng.random() < SEARCHES:
                    timed("search_ms", client.search, connection)
                    client.search_all(connection)
                    if client.rows:
                        client.check_columns(connection)
            connection.close()
        except Exception as error:  # noqa: BLE001  # whatever it is, it goes into the record
            failures.append(f"owner {client.owner}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = [path.stat().st_size for path in folder.iterdir()]
    return {
        "memory_mb": service.memory_mb(),
        "folder_kb": sum(files) / 1000,
        "files": len(files),
        "rows": sum(len(client.rows) for client in clients),
    } | {name: float(np.median(each)) * 1000 if each else 0.0 for name, each in seconds.items()}
