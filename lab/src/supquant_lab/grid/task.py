"""Report: the tasks of a grid, and the folder that they write to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from supquant_lab.datasets import Dataset, load
from supquant_lab.methods import KeptFits, Settings
from supquant_lab.problem import Problem, pose
from supquant_lab.records import is_recorded, write_record

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Workplace:
    """The folders, the time limit and the threads of tasks.

    Attributes
    ----------
    folder : Path
        The folder of the results.
    keep : Path, optional
        The folder in which fits are kept.
    time_limit : float, optional
        The seconds after which a fit ends with the model it has.
    n_jobs : int, optional
        Number of threads of one task; all cores if None.
    """

    folder: Path
    keep: Path | None = None
    time_limit: float | None = None
    n_jobs: int | None = None

    @property
    def kept(self) -> KeptFits | None:
        """The kept fits; None if none are kept."""
        return None if self.keep is None else KeptFits(self.keep)

    def has(self, task: Task) -> bool:
        """Whether all outputs of a task are there."""
        return all(map(self.has_output, task.outputs()))

    def has_output(self, output: str) -> bool:
        """Whether one output is there, as a file or as a line of a .jsonl.xz file."""
        return is_recorded(self.folder / output)

    def write(self, output: str, content: Mapping[str, Any]) -> None:
        """Write one output as a JSON file, whole or not at all."""
        path = self.folder / output
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, content)

    def settings(
        self, seed: int, anchors: int | None, parameters: Mapping[str, Any] | None = None
    ) -> Settings:
        """Return the settings of a method for a task that runs here."""
        return Settings(
            seed=seed,
            anchors=anchors,
            n_jobs=self.n_jobs,
            time_limit=self.time_limit,
            parameters=parameters or {},
        )


class Task(Protocol):
    """A measurement. It is sent to another process, so it holds only names and numbers."""

    @property
    def name(self) -> str:
        """The name of the task in messages."""

    @property
    def dataset(self) -> str:
        """The data set that it needs."""

    @property
    def expected_seconds(self) -> float:
        """The time on two cores, roughly; cheap tasks are run first."""

    def outputs(self) -> Sequence[str]:
        """Return the files that it writes, relative to the folder of the results."""

    def run(self, workplace: Workplace) -> None:
        """Write the outputs that are missing, each of them as a whole."""


@lru_cache(maxsize=2)
def load_rows(name: str, rows: int | None) -> Dataset:
    """Return a data set, or this number of random rows of it; the last two stay in memory."""
    dataset = load(name)
    return dataset if rows is None or rows >= len(dataset) else dataset.sample(rows)


@lru_cache(maxsize=1)
def posed_problem(
    name: str,
    rows: int | None,
    protocol: str,
    seed: int,
    n_queries: int | None,
    fit_rows: str | None = None,
) -> Problem:
    """Return a data set divided and prepared; the last one stays in memory."""
    dataset = load_rows(name, rows)
    return pose(dataset, protocol=protocol, seed=seed, n_queries=n_queries, fit_rows=fit_rows)


def command(verb: str, **options: Any) -> str:
    """Return a command line; options that are None are left out, and each entry of a mapping becomes an option.

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
