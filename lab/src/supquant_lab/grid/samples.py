"""Report: the task that shows sample queries and their answers as pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.demo.pictures import data_uri
from supquant.errors import InputError
from supquant_lab.grid.task import Workplace, load_rows, posed_problem
from supquant_lab.methods import METHODS, Training, apply_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant_lab.datasets import Dataset

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
            raise InputError(f"sample queries are of data sets with one label a row, not of {self.dataset}")
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
                            {
                                **shown(row),
                                "right": bool(dataset.y[row] == dataset.y[rows.queries[query]]),
                            }
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
    """Return the function from a row number to its picture, with values from 0 to 1; grey pictures are dark on light."""
    X, images, shape = dataset.X, dataset.images, dataset.image_shape
    if images is not None:
        return lambda row: images[row] / 255
    if shape is None:
        raise InputError(f"the rows of {dataset.name} are no pictures")
    largest = X.max()
    return lambda row: 1 - X[row].reshape(shape) / largest
