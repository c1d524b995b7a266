"""Report: the task that measures validation MAP over gamma and mu."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from supquant_lab.grid.task import Workplace, posed_problem
from supquant_lab.machine import describe_machine
from supquant_lab.methods import METHODS, EstimatorMethod, Training
from supquant_lab.tuning import PENALTIES, tune


@dataclass(frozen=True)
class SweepTask:
    """Validation MAP at 16 bits for powers of ten of gamma and mu, as published; the queries are training rows.

    Attributes
    ----------
    dataset, method, seed, anchors, rows
        The method is `sq` or a variant of it.
    solver : {"joint", "alternating"}
    training_rows : int
        The largest number of random training rows.
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
        """Fit at all points. Finished points are kept in the folder `partial`, so that a stopped run continues there."""
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
