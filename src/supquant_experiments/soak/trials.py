"""Soak: work that is killed, interrupted, short of disk or memory, on damaged files, or beside other writers."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant import CodeIndex
from supquant.errors import FileFormatError, SaveConflictError
from supquant_experiments.soak.children import (
    INTERRUPTED,
    disturbed,
    end_of,
    limit_files,
    limit_memory,
    start_child,
)
from supquant_experiments.soak.history import History
from supquant_experiments.soak.plain import K, M, PlainIndex, draw_tables, make_codec

if TYPE_CHECKING:
    from collections.abc import Callable

SAVE_SECONDS = 0.02
"""Children are killed and interrupted at a random moment of about as many seconds as their work takes."""

MUTATED_A_CHILD = 250
"""The number of damaged files that one child tries."""

BIG_ROWS = 100_000
"""The number of rows of the index whose searches run out of memory."""


@dataclass
class Trials:
    """Kinds of disturbed work in one folder of the soak."""

    folder: Path
    rng: np.random.Generator
    counts: Counter[str]

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Return how often each kind is tried, and the trial, by its name."""
        return {
            "histories": (6, self.history),
            "kills": (6, self.kills),
            "interrupts": (3, self.interrupts),
            "full disks": (2, self.full_disks),
            "exhausted memory": (3, self.exhausted_memory),
            "mutated files": (16, self.mutated_files),
            "writers": (1, self.writers),
        }

    def history(self) -> None:
        """Take some hundred random steps with one index."""
        self._fresh_history().run(100)

    def kills(self) -> None:
        """Kill children that save: the folder holds the old index or the new one."""
        history = self._saved_history()
        for _ in range(10):
            before = history.plain.copy()
            history.add()
            history.update()
            history.remove()
            end = disturbed(
                lambda: history.index.save(history.folder), signal.SIGKILL, self.rng.uniform(0, SAVE_SECONDS)
            )
            assert end in (0, -signal.SIGKILL), f"a child that was to be killed ended with {end}"
            self.counts["kills"] += 1
            self._go_on_with(history, before, history.plain)

    def interrupts(self) -> None:
        """Interrupt children that search and save: each raises KeyboardInterrupt or finishes, and goes on rightly."""
        history = self._saved_history()
        for _ in range(10):
            before = history.plain.copy()
            history.add()
            history.update()

            def work() -> None:
                try:
                    history.plain.check(history.index, history.rng, 2)
                    history.index.save(history.folder)
                except KeyboardInterrupt:
                    history.plain.check(history.index, history.rng, 2)
                    raise

            end = disturbed(work, signal.SIGINT, self.rng.uniform(0, SAVE_SECONDS))
            assert end in (0, INTERRUPTED), f"an interrupted child ended with {end}"
            self.counts["interrupts"] += 1
            self._go_on_with(history, before, history.plain)

    def full_disks(self) -> None:
        """Save where files can only have some bytes: an OSError, and the folder as it was; with room it is saved."""
        history = self._saved_history()
        for _ in range(10):
            before = history.plain.copy()
            history.add()

            def work(before: PlainIndex = before) -> int:
                limit_files(int(self.rng.integers(0, 4000)))
                try:
                    history.index.save(history.folder)
                except OSError:
                    limit_files(-1)
                    before.check(CodeIndex.load(history.folder), history.rng)
                    history.plain.check(history.index, history.rng)
                    return 1
                return 0

            end = end_of(start_child(work))
            assert end in (0, 1), f"a child with a full disk ended with {end}"
            self.counts["full disks"] += end
            self._go_on_with(history, before, history.plain)

    def exhausted_memory(self) -> None:
        """Search with threads while memory runs out: a MemoryError or the right answer, and later searches are right."""
        codes = self.rng.integers(0, K, size=(BIG_ROWS, M)).astype(np.uint8)
        ids = np.arange(BIG_ROWS)
        plain = PlainIndex()
        plain.put(ids.tolist(), codes)
        index = CodeIndex(make_codec()).add_codes(codes, ids=ids)
        tables = draw_tables(self.rng, 2)
        queries = np.zeros((8, 1), dtype=np.float32)

        def work() -> int:
            exhausted = 0
            for _ in range(20):
                limit_memory(int(self.rng.integers(0, 24 << 20)))
                try:
                    index.range_search(queries, 1.0, n_jobs=2)
                except MemoryError:
                    exhausted += 1
                finally:
                    limit_memory(-1)
                plain.compare(index.search_tables(tables, 10, n_jobs=2), tables, 10)
            return exhausted

        end = end_of(start_child(work))
        assert 0 <= end <= 20, f"a child without memory ended with {end}"
        self.counts["exhausted memory"] += end
        self.counts["searches"] += 20 * len(tables)

    def mutated_files(self) -> None:
        """Damage one file of a sound folder: loading or searching raises FileFormatError, or the answer is right."""
        history = self._saved_history()
        sound = {path.name: path.read_bytes() for path in history.folder.iterdir()}
        names = sorted(sound)
        tables = draw_tables(self.rng, 4)
        expected = CodeIndex.load(history.folder).search_tables(tables, 10)

        def work() -> None:
            for _ in range(MUTATED_A_CHILD):
                name = names[int(self.rng.integers(len(names)))]
                path = history.folder / name
                path.unlink()
                path.write_bytes(damaged(sound[name], self.rng))
                try:
                    found = CodeIndex.load(
                        history.folder, mapped=bool(self.rng.random() < 0.5)
                    ).search_tables(tables, 10)
                except FileFormatError:
                    pass
                else:
                    for one, other in zip(found, expected, strict=True):
                        np.testing.assert_array_equal(one, other, f"a damaged {name}")
                path.unlink()
                path.write_bytes(sound[name])

        end = end_of(start_child(work))
        assert end == 0, f"a child with damaged files ended with {end}"
        self.counts["mutated files"] += MUTATED_A_CHILD

    def writers(self) -> None:
        """Let two processes append to one folder: each tries again when the other was first, and nothing is lost."""
        history = self._saved_history()
        added = {number: list(range(10_000_000 * number, 10_000_000 * number + 40)) for number in (1, 2)}
        codes = self.draw(40)

        def append(ids: list[int]) -> None:
            for start in range(0, len(ids), 10):
                while True:
                    index = CodeIndex.load(history.folder)
                    index.add_codes(codes[start : start + 10], ids=ids[start : start + 10])
                    try:
                        index.save(history.folder)
                        break
                    except SaveConflictError:  # the other process saved meanwhile
                        continue

        children = [start_child(partial(append, ids)) for ids in added.values()]
        assert [end_of(child) for child in children] == [0, 0], "a writer failed"
        found = CodeIndex.load(history.folder)
        expected = set(history.plain.rows) | set(added[1]) | set(added[2])
        assert set(found.ids.tolist()) == expected, "rows of a writer are lost"
        self.counts["writers"] += 2

    def draw(self, n: int) -> np.ndarray:
        """Return random codes (n, M)."""
        return self.rng.integers(0, K, size=(n, M)).astype(np.uint8)

    def _fresh_history(self) -> History:
        shutil.rmtree(self.folder, ignore_errors=True)
        return History(self.folder, self.rng, self.counts)

    def _saved_history(self) -> History:
        history = self._fresh_history()
        for _ in range(3):
            history.add()
            history.update()
        history.save()
        return history

    def _go_on_with(self, history: History, before: PlainIndex, after: PlainIndex) -> None:
        """Load the folder, which must hold one of two states, and go on with that."""
        index = CodeIndex.load(history.folder)
        plain = before if index.ids.tolist() == list(before.rows) and _same_codes(index, before) else after
        self.counts["searches"] += plain.check(index, self.rng)
        history.index, history.plain, history.saved = index, plain.copy(), plain.copy()
        history.filters.clear()


def _same_codes(index: CodeIndex, plain: PlainIndex) -> bool:
    return index.codes(list(plain.rows)).tolist() == [list(code) for code in plain.rows.values()]


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return other bytes than a file's: some changed, cut off, added, zeroed or moved."""
    changed = bytearray(content)
    place = int(rng.integers(len(changed)))
    way = int(rng.integers(6))
    if way == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del changed[place:]
    elif way == 2:
        changed[place:place] = rng.bytes(int(rng.integers(1, 64)))
    elif way == 3:
        end = min(len(changed), place + int(rng.integers(1, 512)))
        changed[place:end] = bytes(end - place)
    elif way == 4:
        del changed[place : place + int(rng.integers(1, 64))]
    else:
        changed[place] = int(rng.integers(256))
    return bytes(changed)
