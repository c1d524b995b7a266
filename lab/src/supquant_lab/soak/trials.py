"""Soak: work that is killed, interrupted, short of disk or memory, on damaged files, or concurrent with other writers."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant import CodeIndex
from supquant.errors import SaveConflictError
from supquant.index.vectors import VectorKind
from supquant_lab.soak.children import (
    INTERRUPTED,
    end_of,
    limit_files,
    limit_memory,
    occupy_free_memory,
    start_child,
)
from supquant_lab.soak.damage import Sample, make_samples, read_damaged, read_forged
from supquant_lab.soak.history import (
    History,
    PlainIndex,
    draw_codes,
    draw_tables,
    make_codec,
    make_exact_codec,
    numbers_in,
    with_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS_PER_TRIAL = 20
"""Number of children that one trial kills or interrupts."""

WORK_SECONDS = 0.02
"""First estimate of the seconds that such a child works."""

MUTATED_PER_CHILD = 2000
"""Number of damaged files that one child reads."""

FORGED_PER_CHILD = 100
"""Number of forged files that one child reads."""

BIG_ROWS = 20_000
"""Number of rows of the index whose searches run out of memory."""

EXHAUSTED_PER_CHILD = 40
"""Number of searches of one child that run short of memory."""


@dataclass
class Trials:
    """Kinds of disturbed work in one folder of the soak."""

    folder: Path
    rng: np.random.Generator
    counts: Counter[str]

    def kinds(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Return, by name, how many of each kind an hour should reach, and the trial that adds to its count."""
        return {
            "searches": (2_000_000, self.history),
            "kills": (2_000, self.kills),
            "interrupts": (2_000, self.interrupts),
            "full disks": (1_000, self.full_disks),
            "exhausted memory": (2_000, self.exhausted_memory),
            "mutated files": (1_100_000, self.mutated_files),
            "forged files": (50_000, self.forged_files),
            "writers": (400, self.writers),
        }

    def history(self) -> None:
        """Take a hundred random steps with one index."""
        self._fresh_history().run(100)

    def kills(self) -> None:
        """Kill children that save: the folder holds the old index or the new one."""
        self._send_signals(
            "kills", signal.SIGKILL, -signal.SIGKILL, lambda history: history.index.save(history.folder)
        )

    def interrupts(self) -> None:
        """Interrupt children that search and save: each raises KeyboardInterrupt or finishes, and its index still works."""

        def work(history: History) -> None:
            try:
                history.plain.check(history.index, history.rng, 2)
                history.index.save(history.folder)
            except KeyboardInterrupt:
                history.plain.check(history.index, history.rng, 2)
                raise

        self._send_signals("interrupts", signal.SIGINT, INTERRUPTED, work)

    def _send_signals(self, name: str, number: int, expected: int, work: Callable[[History], None]) -> None:
        """Send a signal to each of several children at a random moment of its work. Count those that it ended, as expected.

        How long the work takes depends on the machine: the next signal comes earlier after a child that finished before its
        signal, and later after one that did not.
        """
        history = self._saved_history()
        seconds = WORK_SECONDS
        for _ in range(SIGNALS_PER_TRIAL):
            before = history.plain.copy()
            history.add()
            history.update()
            history.remove()
            child = start_child(partial(work, history))
            time.sleep(self.rng.uniform(0, seconds))
            os.kill(child, number)
            end = end_of(child)
            assert end in (0, expected), f"a child that got signal {number} ended with {end}"
            self.counts[name] += end == expected
            seconds *= 1.2 if end == expected else 0.7
            self._continue_with(history, before, history.plain)

    def full_disks(self) -> None:
        """Save where files are limited in size: an OSError leaves the folder as it was; with enough room the save succeeds."""
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
            self._continue_with(history, before, history.plain)

    def exhausted_memory(self) -> None:
        """Search with threads while memory runs out: a MemoryError or the right answer, and later searches are right."""
        codes = draw_codes(self.rng, BIG_ROWS)
        ids = np.arange(BIG_ROWS)
        plain = PlainIndex()
        plain.put(ids.tolist(), codes)
        index = CodeIndex(make_codec()).add_codes(codes, ids=ids)
        tables = draw_tables(self.rng, 2)
        expected = index.search_tables(tables, 10)
        plain.compare(expected, tables, 10)
        queries = np.zeros((8, 1), dtype=np.float32)

        def work() -> int:
            exhausted = 0
            occupied = occupy_free_memory()
            for _ in range(EXHAUSTED_PER_CHILD):
                limit_memory(int(self.rng.integers(0, 4 << 20)))
                try:
                    index.range_search(queries, 1.0, n_jobs=2)
                except MemoryError:
                    exhausted += 1
                finally:
                    limit_memory(-1)
                for found, right in zip(index.search_tables(tables, 10, n_jobs=2), expected, strict=True):
                    np.testing.assert_array_equal(found, right)
            del occupied
            return exhausted

        end = end_of(start_child(work))
        assert 0 <= end <= EXHAUSTED_PER_CHILD, f"a child without memory ended with {end}"
        self.counts["exhausted memory"] += end
        self.counts["searches"] += EXHAUSTED_PER_CHILD * len(tables)

    def mutated_files(self) -> None:
        """Read damaged files: they are refused with FileFormatError, or hold what the sound ones hold."""
        self._read_in_child("mutated files", MUTATED_PER_CHILD, read_damaged)

    def forged_files(self) -> None:
        """Read files whose digests are right and whose content is not: they are refused, or their content is usable."""
        self._read_in_child("forged files", FORGED_PER_CHILD, read_forged)

    def _read_in_child(
        self, name: str, n_files: int, read: Callable[[Sample, np.random.Generator], bool]
    ) -> None:
        samples = make_samples(self.folder / "samples")

        def work() -> None:
            for _ in range(n_files):
                read(samples[int(self.rng.integers(len(samples)))], self.rng)

        end = end_of(start_child(work))
        assert end == 0, f"a child that read {name} ended with {end}"
        self.counts[name] += n_files

    def writers(self) -> None:
        """Let two processes append to one folder: each tries again when the other was faster, and nothing is lost."""
        history = self._saved_history()
        added = {number: list(range(10_000_000 * number, 10_000_000 * number + 40)) for number in (1, 2)}
        codes = draw_codes(self.rng, 40)

        def append(ids: list[int]) -> None:
            for start in range(0, len(ids), 10):
                while True:
                    index = CodeIndex.load(history.folder)
                    some = codes[start : start + 10]
                    index.add_codes(some, ids=ids[start : start + 10], **with_vectors(index, some))
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
        for ids in added.values():
            history.plain.put(ids, codes)
        history.plain.rows = {row_id: history.plain.rows[row_id] for row_id in found.ids.tolist()}
        history.plain.check(found, self.rng)
        self.counts["writers"] += 2

    def _fresh_history(self) -> History:
        """Return a history of an index, which keeps vectors half of the time."""
        shutil.rmtree(self.folder / "index", ignore_errors=True)
        history = History(self.folder / "index", self.rng, self.counts)
        if self.rng.random() < 0.5:
            kind: VectorKind = "int8" if self.rng.random() < 0.5 else "float16"
            history.index = CodeIndex(make_exact_codec(), vectors=kind)
        return history

    def _saved_history(self) -> History:
        history = self._fresh_history()
        for _ in range(3):
            history.add()
            history.update()
        history.save()
        return history

    def _continue_with(self, history: History, before: PlainIndex, after: PlainIndex) -> None:
        """Load the folder, which must hold one of two states, and continue with that."""
        index = CodeIndex.load(history.folder)
        plain = before if _holds(index, before) else after
        self.counts["searches"] += plain.check(index, self.rng)
        history.index, history.plain, history.saved = index, plain.copy(), plain.copy()
        history.filters.clear()


def _holds(index: CodeIndex, plain: PlainIndex) -> bool:
    """Whether an index has exactly the rows of a plain one."""
    ids = list(plain.rows)
    return (
        index.ids.tolist() == ids
        and index.codes(ids).tolist() == [list(code) for code in plain.rows.values()]
        and numbers_in(index, ids) == plain.numbers_of(ids)
    )
