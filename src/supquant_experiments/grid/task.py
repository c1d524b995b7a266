"""Report: what a grid runs: tasks that write files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from supquant_experiments.datasets import Dataset, load
from supquant_experiments.methods import KeptFits
from supquant_experiments.problem import Problem, pose

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Workplace:
    """Where a task works, and with what.

    Attributes
    ----------
    folder : Path
        Of the results.
    keep : Path, optional
        Where fits are kept.
    time_limit : float, optional
        Seconds that one fit may take.
    n_jobs : int, optional
        Threads of one task; all cores if None.
    """

    folder: Path
    keep: Path | None = None
    time_limit: float | None = None
    n_jobs: int | None = None

    @property
    def kept(self) -> KeptFits | None:
        """The kept fits, if any are to be kept."""
        return None if self.keep is None else KeptFits(self.keep)

    def has(self, task: Task) -> bool:
        """Whether all files of a task are there."""
        return all((self.folder / output).is_file() for output in task.outputs())


class Task(Protocol):
    """Something to measure. It is sent to another process, so it holds names and numbers only."""

    @property
    def name(self) -> str:
        """What it is called where it is told about."""

    @property
    def dataset(self) -> str:
        """The data set that it needs."""

    @property
    def expected_seconds(self) -> float:
        """How long it takes on two cores, roughly; cheap ones go first."""

    def outputs(self) -> Sequence[str]:
        """Give the files, relative to the folder of the results, that are there when it is done."""

    def run(self, workplace: Workplace) -> None:
        """Write those files that are not there yet, each one whole."""


@lru_cache(maxsize=2)
def load_rows(name: str, rows: int | None) -> Dataset:
    """Load a data set, or so many random rows of it; the last ones stay in memory."""
    dataset = load(name)
    return dataset if rows is None or rows >= len(dataset) else dataset.sample(rows)


@lru_cache(maxsize=1)
def posed(
    name: str,
    rows: int | None,
    protocol: str,
    seed: int,
    n_queries: int | None,
    fit_rows: str | None = None,
) -> Problem:
    """Give a data set divided and made ready; the last one stays in memory."""
    dataset = load_rows(name, rows)
    return pose(dataset, protocol=protocol, seed=seed, n_queries=n_queries, fit_rows=fit_rows)


def command(verb: str, **options: Any) -> str:
    """Write a command line; options that are None are left out, mappings become ``--set``.

    Examples
    --------
    >>> command("experiment", method="sq", rows=None, kernel_for_all=True, set={"max_iter": 5})
    'supquant experiment --method sq --kernel-for-all --set max_iter=5'
    """
    words = ["supquant", verb]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, Mapping):
            for key, each in value.items():
                words += [option, f"{key}={each}"]
        elif value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return shlex.join(words)
