"""Report: the cells of one method on one split, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from supquant.storage.json_file import write_json
from supquant_experiments.cell import run_cells
from supquant_experiments.grid.task import Workplace, command, load_rows, posed
from supquant_experiments.methods import METHODS, Settings
from supquant_experiments.records import cell_file


@dataclass(frozen=True)
class CellsTask:
    """One method at one code length, or at several of which each starts from the one before it.

    Attributes
    ----------
    dataset, method, bits, protocol, ranking, seed
        Which cells they are; the method's own ranking if None.
    variant : str
        Tells apart cells that differ in `parameters`, `anchors` or `fit_rows`.
    parameters : mapping
        What the estimator is told beyond its own defaults.
    anchors : int, optional
        Of the kernel features; the published number, or for a ranking by meaning the library's own features, if None.
    rows, queries : int, optional
        Use so many random rows of the data set, and so many queries.
    fit_rows : {"labelled", "all"}, optional
        Whether methods are given the rows of the database without labels; the protocol's own choice if None.
    folder : str
        Of the results; cells in others than `cells` stand beside the comparison.
    expected_seconds : float

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
        """The cells' common name, with their lengths."""
        parts = (Path(self.dataset).stem, self.protocol, self.method, self.variant, self._ranking)
        named = "-".join(part for part in parts if part)
        beside = "" if self.folder == "cells" else f", {self.folder}"
        return f"{named} {','.join(map(str, self.bits))} bits seed {self.seed}{beside}"

    def outputs(self) -> list[str]:
        """Give a file a length."""
        return [self._output(bits) for bits in self.bits]

    def command(self, bits: int, time_limit: float | None = None) -> str:
        """Give the command that measures one of the cells by itself."""
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
        """Measure the cells that are not there yet, and write each when it is finished."""
        settings = Settings(
            seed=self.seed,
            anchors=self.anchors,
            n_jobs=workplace.n_jobs,
            time_limit=workplace.time_limit,
            parameters=self.parameters,
        )
        missing = [bits for bits in self.bits if not (workplace.folder / self._output(bits)).is_file()]
        cells = run_cells(
            load_rows(self.dataset, self.rows),
            problem=posed(self.dataset, self.rows, self.protocol, self.seed, self.queries, self.fit_rows),
            method=self.method,
            bits=missing,
            protocol=self.protocol,
            ranking=self._ranking,
            settings=settings,
            kept=workplace.kept,
        )
        for cell in cells:
            path = workplace.folder / self._output(cell.bits)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, replace(cell, command=self.command(cell.bits, workplace.time_limit)).to_json())

    @property
    def _ranking(self) -> str:
        return self.ranking or METHODS[self.method].rankings[0]

    def _output(self, bits: int) -> str:
        name = cell_file(
            self.dataset, self.protocol, self.method, self.variant, self._ranking, bits, self.seed
        )
        return f"{self.folder}/{name}"
