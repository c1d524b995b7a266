"""Report: the task that measures cells of one method on one split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from supquant_lab.cell import run_cells
from supquant_lab.grid.task import Workplace, command, load_rows, posed_problem
from supquant_lab.methods import find_method
from supquant_lab.records import cell_name


@dataclass(frozen=True)
class CellsTask:
    """The cells of one method at one code length, or at several lengths that share a fit.

    Attributes
    ----------
    dataset, method, bits, protocol, ranking, seed
        Which cells they are. Without a ranking they have the method's own.
    variant : str
        A part of the names of cells, for cells that differ in `parameters`, `anchors` or `fit_rows`.
    parameters : mapping
        Parameters of the estimator that are not its defaults.
    anchors : int, optional
        Number of anchors of the kernel features. By default 1,000 as published; the label ranking has the library's own
        features by default.
    rows, queries : int, optional
        Number of random rows of the data set, and number of queries.
    fit_rows : {"labelled", "all"}, optional
        Whether the method is also given the rows of the database, without labels; the protocol decides if None.
    folder : str
        The folder of the cells in the results; only those in `cells` are compared.
    expected_seconds : float
        The time on two cores, roughly.

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
        beside = "" if self.folder == "cells" else f", {self.folder}"
        return f"{named} {','.join(map(str, self.bits))} bits seed {self.seed}{beside}"

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
