"""Report: clients that change and search rows of their own, and compare every answer with a plain model."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import Any

import numpy as np

from supquant import AdditiveCodec, CodeIndex
from supquant.client import Client

M, K, R = 3, 16, 4
"""Bytes of a code, number of codewords, and width of vectors."""

MOST_ROWS = 300
"""A client that has more rows removes some."""


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

    def change(self, index: Client | CodeIndex) -> None:
        """Add, update or remove a few rows."""
        rng, live = self._rng, list(self.rows)
        kind = rng.choice(["remove"] if len(live) > MOST_ROWS else ["add", "add", "update", "remove"])
        if kind == "add" or len(live) < 10:
            ids = [next(self._numbers) for _ in range(int(rng.integers(1, 9)))]
            codes = rng.integers(0, K, size=(len(ids), M))
            self.pending = {each: tuple(code) for each, code in zip(ids, codes.tolist(), strict=True)}
            index.add_codes(codes, ids, metadata={"owner": [self.owner] * len(ids)})
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

    def accept(self) -> None:
        """Note that the pending change was made."""
        self.rows |= {each: code for each, code in self.pending.items() if code is not None}
        for each, code in self.pending.items():
            if code is None:
                del self.rows[each]
        self.pending = {}

    def search(self, index: Client | CodeIndex) -> None:
        """Search the rows of this owner, and compare the answers with a sort of all of them."""
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
        """Search all rows, and check that answers are in order and that none is of a row of this owner that is not there."""
        scores, found = index.search(self._rng.integers(-3, 4, size=(1, R)).astype(np.float32), 10)
        assert (np.diff(scores) >= 0).all(), "scores are not in order"
        own = [each for each in found[0].tolist() if each // 10**9 == self.owner]
        assert set(own) <= set(self.rows), "answers hold rows that are not there"
        self.counts["searches of all rows"] += 1

    def check_rows(self, index: CodeIndex) -> None:
        """Compare the rows of this owner in a saved index. A change without an answer was made whole or not at all."""
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
    """Let clients change and search at the same time, each in a thread; return what went wrong.

    Parameters
    ----------
    clients : list of CheckedClient
    url : str
        The address of the service.
    seconds : float
        How long to go on.
    writes : float
        The share of changes.
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
        except Exception as error:  # noqa: BLE001  # whatever it is, the record tells it
            failures.append(f"owner {client.owner}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures
