"""Report: the validation MAP over gamma and mu, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from supquant.evaluation import PENALTIES, tune
from supquant.storage.json_file import write_json
from supquant_experiments.grid.task import Workplace, posed
from supquant_experiments.machine import describe_machine
from supquant_experiments.methods import METHODS, EstimatorMethod, Settings, Training


@dataclass(frozen=True)
class SweepTask:
    """Every gamma and mu by decades, as published, at 16 bits; queries are training rows.

    Attributes
    ----------
    dataset, method, seed, anchors, rows
        `sq` or one that is `sq` but for a detail.
    solver : {"joint", "alternating"}
    training_rows : int
        So many random training rows at the most.
    parameters : mapping
        What the estimator is told beyond its own defaults.
    command : str
        What makes the file again.

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
        """What it is called."""
        return f"{self._stem}, gamma and mu"

    def outputs(self) -> list[str]:
        """Give the one file."""
        return [f"sweeps/{self._stem}.json"]

    def run(self, workplace: Workplace) -> None:
        """Fit at all points; finished ones are remembered in the folder `partial`."""
        problem = posed(self.dataset, self.rows, "paper", self.seed, None)
        settings = Settings(
            seed=self.seed,
            anchors=self.anchors,
            n_jobs=workplace.n_jobs,
            parameters={"solver": self.solver, **self.parameters},
        )
        method = METHODS[self.method](Training(problem.X, problem.y), settings)
        assert isinstance(method, EstimatorMethod)
        partial = workplace.folder / "partial" / f"{self._stem}.json"
        path = workplace.folder / self.outputs()[0]
        for each in (partial, path):
            each.parent.mkdir(parents=True, exist_ok=True)
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
        write_json(
            path,
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
        with suppress(OSError):  # others may be at it
            partial.parent.rmdir()

    @property
    def _stem(self) -> str:
        parts = (
            self.dataset,
            "" if self.method == "sq" else self.method,
            "" if self.solver == "joint" else self.solver,
        )
        return "-".join(part for part in parts if part)
