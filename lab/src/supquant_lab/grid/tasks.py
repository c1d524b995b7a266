"""Report: the tasks of a grid, and the folder that they write to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from supquant.arrays import Array
from supquant.demo.pictures import data_uri
from supquant.errors import InputError
from supquant_lab.cell import run_cells
from supquant_lab.datasets import Dataset, load
from supquant_lab.machine import describe_machine
from supquant_lab.methods import (
    METHODS,
    EstimatorMethod,
    KeptFits,
    Settings,
    Training,
    apply_steps,
    find_method,
)
from supquant_lab.problem import Problem, pose
from supquant_lab.records import cell_name, is_recorded, write_record
from supquant_lab.tuning import PENALTIES, tune

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
        """Approximate time on two cores; cheap tasks are run first."""

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
    name: str, rows: int | None, protocol: str, seed: int, n_queries: int | None, fit_rows: str | None = None
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


@dataclass(frozen=True)
class CellsTask:
    """The cells of one method at one code length, or at several lengths that share a fit.

    Attributes
    ----------
    dataset, method, bits, protocol, ranking, seed
        Which cells they are. The ranking is the method's own by default.
    variant : str
        A component of the names of cells, for those that differ in `parameters`, `anchors` or `fit_rows`.
    parameters : mapping
        Parameters of the estimator that are not its defaults.
    anchors : int, optional
        Number of anchors of the kernel features. By default 1,000 as published, or the library's own features for the label
        ranking.
    rows, queries : int, optional
        Number of random rows of the data set, and number of queries.
    fit_rows : {"labelled", "all"}, optional
        Whether the method is also given the rows of the database, without labels; the protocol decides if None.
    folder : str
        The folder of the cells in the results; only those in `cells` are compared.
    expected_seconds : float
        Approximate time on two cores.

    Examples
    --------
    >>> task = CellsTask("digits", "sq", (16, 32), parameters={"solver": "alternating"}, variant="alternating")
    >>> task.outputs()[0]
    'cells/digits-paper-sq-alternating-euclidean-16bits-seed0.json'
    >>> task.command(16)  # doctest: +ELLIPSIS
    'supquant experiment --dataset digits --method sq --bits 16 ... --set solver=alternating'
    """

    dataset: str
    method: str = "sq"
    bits: tuple[int, ...] = (16,)
    protocol: str = "paper"
    ranking: str | None = None
    seed: int = 0
    variant: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    anchors: int | None = None
    rows: int | None = None
    queries: int | None = None
    fit_rows: str | None = None
    folder: str = "cells"
    expected_seconds: float = 0.0

    @property
    def name(self) -> str:
        """The common name of the cells, with their lengths."""
        parts = (Path(self.dataset).stem, self.protocol, self.method, self.variant, self._ranking)
        named = "-".join(part for part in parts if part)
        folder = "" if self.folder == "cells" else f", {self.folder}"
        return f"{named} {','.join(map(str, self.bits))} bits seed {self.seed}{folder}"

    def outputs(self) -> list[str]:
        """Return one file for each length."""
        return [self._output(bits) for bits in self.bits]

    def command(self, bits: int, time_limit: float | None = None) -> str:
        """Return the command that measures one of the cells."""
        return command(
            "experiment",
            dataset=self.dataset,
            method=self.method,
            bits=bits,
            protocol=self.protocol,
            ranking=self._ranking,
            seed=self.seed,
            anchors=self.anchors,
            rows=self.rows,
            queries=self.queries,
            fit_rows=self.fit_rows,
            time_limit=None if time_limit is None else f"{time_limit:g}",
            set=self.parameters,
        )

    def run(self, workplace: Workplace) -> None:
        """Measure the cells that are missing, and write each of them when it is finished."""
        missing = [bits for bits in self.bits if not workplace.has_output(self._output(bits))]
        cells = run_cells(
            load_rows(self.dataset, self.rows),
            problem=posed_problem(
                self.dataset, self.rows, self.protocol, self.seed, self.queries, self.fit_rows
            ),
            method=self.method,
            bits=missing,
            protocol=self.protocol,
            ranking=self._ranking,
            settings=workplace.settings(self.seed, self.anchors, self.parameters),
            kept=workplace.kept,
        )
        for cell in cells:
            measured = replace(cell, command=self.command(cell.bits, workplace.time_limit))
            workplace.write(self._output(cell.bits), measured.to_json())

    @property
    def _ranking(self) -> str:
        return self.ranking or find_method(self.method).rankings[0]

    def _output(self, bits: int) -> str:
        name = cell_name(
            self.dataset, self.protocol, self.method, self.variant, self._ranking, bits, self.seed
        )
        return f"{self.folder}/{name}.json"


@dataclass(frozen=True)
class SweepTask:
    """Validation MAP at 16 bits for powers of ten of gamma and mu, as published; the queries are training rows.

    Attributes
    ----------
    dataset, method, seed, anchors, rows
        The method is `sq` or a variant of it.
    solver : {"joint", "alternating"}
    training_rows : int
        Maximum number of random training rows.
    parameters : mapping
        Parameters of the estimator that are not its defaults.
    command : str
        The command that makes the file again.

    Examples
    --------
    >>> SweepTask("digits").outputs()
    ['sweeps/digits.json']
    """

    dataset: str
    method: str = "sq"
    seed: int = 0
    solver: str = "joint"
    anchors: int = 1000
    rows: int | None = None
    training_rows: int = 20_000
    parameters: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    expected_seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of the task."""
        return f"{self._stem}, gamma and mu"

    def outputs(self) -> list[str]:
        """Return the one file."""
        return [f"sweeps/{self._stem}.json"]

    def run(self, workplace: Workplace) -> None:
        """Fit at all points. Finished points are kept in the folder `partial`, from which a stopped run continues."""
        problem = posed_problem(self.dataset, self.rows, "paper", self.seed, None)
        settings = workplace.settings(self.seed, self.anchors, {"solver": self.solver, **self.parameters})
        method = METHODS[self.method](Training(problem.X, problem.y), settings)
        assert isinstance(method, EstimatorMethod)
        partial = workplace.folder / "partial" / f"{self._stem}.json"
        partial.parent.mkdir(parents=True, exist_ok=True)
        n_rows = min(self.training_rows, len(problem.X))
        n_validation = min(len(problem.queries), n_rows)
        tuning = tune(
            method.estimator(16),
            PENALTIES,
            problem.X,
            problem.y,
            ranking=METHODS[self.method].rankings[0],
            n_validation=n_validation,
            max_rows=n_rows,
            random_state=self.seed,
            n_jobs=workplace.n_jobs,
            resume=partial,
            time_limit=workplace.time_limit,
        )
        workplace.write(
            self.outputs()[0],
            {
                "dataset": self.dataset,
                "method": self.method,
                "solver": self.solver,
                "bits": 16,
                "seed": self.seed,
                "n_training": n_rows,
                "n_validation": n_validation,
                "anchors": self.anchors,
                "parameters": dict(self.parameters),
                "command": self.command,
                "machine": describe_machine(),
                "points": [asdict(point) for point in tuning.points],
            },
        )
        partial.unlink()
        with suppress(OSError):  # another sweep may have a file there
            partial.parent.rmdir()

    @property
    def _stem(self) -> str:
        parts = (
            self.dataset,
            "" if self.method == "sq" else self.method,
            "" if self.solver == "joint" else self.solver,
        )
        return "-".join(part for part in parts if part)


N_SHOWN = 10
"""Number of answers that are shown for a query."""


@dataclass(frozen=True)
class SamplesTask:
    """The first query of each class, and its first answers by several methods.

    The items are encoded without labels: with labels, a picture of the right class would prove nothing.

    Attributes
    ----------
    dataset, methods, bits, seed, anchors, rows
    command : str
        The command that makes the file again.

    Examples
    --------
    >>> SamplesTask("digits").outputs()
    ['samples/digits.json']
    """

    dataset: str
    methods: tuple[str, ...] = ("sq", "pq")
    bits: int = 16
    seed: int = 0
    anchors: int = 1000
    rows: int | None = None
    command: str = ""
    expected_seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of the task."""
        return f"{self.dataset}, sample queries"

    def outputs(self) -> list[str]:
        """Return the one file."""
        return [f"samples/{self.dataset}.json"]

    def run(self, workplace: Workplace) -> None:
        """Search, and write the file with the pictures."""
        dataset = load_rows(self.dataset, self.rows)
        problem = posed_problem(self.dataset, self.rows, "unlabelled", self.seed, None)
        settings = workplace.settings(self.seed, self.anchors)
        classes = problem.query_labels.indices
        if classes is None:
            raise InputError(f"sample queries need a data set with one label per row, unlike {self.dataset}")
        chosen = [int(np.flatnonzero(classes == each)[0]) for each in np.unique(classes)]
        nearest: dict[str, Any] = {}  # by method: (chosen queries, N_SHOWN) row numbers in the database
        for name in self.methods:
            method = METHODS[name](Training(problem.X, problem.y), settings, None, workplace.kept)
            fitted = method.fitted(self.bits)
            steps = fitted.steps(fitted.encoded(problem.database), method.rankings[0])
            scores = apply_steps(steps, problem.queries[chosen])
            nearest[name] = np.argsort(scores, axis=1, kind="stable")[:, :N_SHOWN]
        rows, picture = problem.split, _pictures(dataset)

        def shown(row: int) -> dict[str, str]:
            return {"label": str(dataset.y[row]), "picture": data_uri(picture(row))}

        queries = [
            {
                **shown(rows.queries[query]),
                "answers": [
                    {
                        "method": name,
                        "results": [
                            {**shown(row), "right": bool(dataset.y[row] == dataset.y[rows.queries[query]])}
                            for row in rows.database[nearest[name][number]]
                        ],
                    }
                    for name in self.methods
                ],
            }
            for number, query in enumerate(chosen)
        ]
        workplace.write(
            self.outputs()[0],
            {
                "dataset": self.dataset,
                "seed": self.seed,
                "protocol": "unlabelled",
                "bits": self.bits,
                "note": "The first query of each class; items were stored without their labels.",
                "command": self.command,
                "queries": queries,
            },
        )


def _pictures(dataset: Dataset) -> Callable[[int], Array]:
    """Return a function from row numbers to pictures with values from 0 to 1; grey pictures are dark on light."""
    X, images, shape = dataset.X, dataset.images, dataset.image_shape
    if images is not None:
        return lambda row: images[row] / 255
    if shape is None:
        raise InputError(f"the rows of {dataset.name} are not pictures")
    largest = X.max()
    return lambda row: 1 - X[row].reshape(shape) / largest
