"""Report: what a folder of result files holds, in the order in which a reader wants it."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant.evaluation import resolve_fit_rows
from supquant_experiments.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

REFERENCES = frozenset({"euclidean", "cosine", "classifier-scores", "probabilities"})
"""Items are float vectors or scores: lines to look at, no codes to compare with."""

ANY_LENGTH = REFERENCES | {"classifier"}
"""What an item is does not depend on the code length that was asked for."""

TITLES = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10 (GIST)",
    "coco30k": "COCO-30k",
    "coco30k-noperson": "COCO-30k without person",
    "nuswide": "NUS-WIDE",
    "imagenet": "ImageNet",
    "tinyimagenet-1500": "Tiny-ImageNet (R = 1,500)",
    "banking77": "Banking77",
    "tinyimagenet": "Tiny-ImageNet",
    "digits": "Digits",
}
"""The data sets that we know, in the order in which they are shown."""

_CELL_FIELDS = {"dataset", "method", "bits", "protocol", "ranking", "seed", "map", "parameters", "machine"}


@dataclass(frozen=True)
class Series:
    """A method as it was set: one line of a figure, one row of a table.

    Examples
    --------
    >>> Series("sq").label, Series("sq", solver="alternating").label, Series("sq", ranking="semantic").label
    ('sq', 'sq (alternating)', 'sq (semantic ranking)')
    """

    method: str
    solver: str = ""  # what is empty is as usual for the method
    ranking: str = ""
    projection: str = ""
    anchors: int | None = None
    features: str = ""
    missing_labels: str = ""
    fit_rows: str = ""

    @classmethod
    def of(cls, cell: Mapping[str, Any], usual_anchors: int | None = None) -> Series:
        """Tell the series of a cell from what was set differently from the usual."""
        method, parameters = cell["method"], cell["parameters"]
        usual_ranking = METHODS[method].rankings[0] if method in METHODS else ""
        anchors = None if _own_features(cell) else parameters.get("anchors")
        return cls(
            method,
            solver=_solver(parameters),
            ranking=_unless(cell["ranking"], usual_ranking),
            projection=_unless(
                parameters.get("projection"), "identity" if method == "sq-no-transform" else "learned"
            ),
            anchors=None if anchors in (None, 0, usual_anchors) else anchors,
            features="kernel" if parameters.get("features") == "kernel, ours" else "",
            missing_labels=_unless(parameters.get("missing_labels"), "predict"),
            fit_rows=_unless(parameters.get("fit_rows"), resolve_fit_rows(cell["protocol"])),
        )

    @property
    def label(self) -> str:
        """What it is called in figures and tables."""
        return f"{self.method} ({', '.join(self._settings)})" if self._settings else self.method

    @property
    def short(self) -> str:
        """The label where there is little room."""
        return ", ".join([self.method, *self._settings]).replace(" ranking", "").replace(" projection", "")

    @property
    def is_ours(self) -> bool:
        """Whether it is supervised quantization as we would have it used, under either ranking."""
        return self in OURS

    @property
    def order(self) -> tuple[Any, ...]:
        """Where it stands: methods in the order of `METHODS`, the usual setting first."""
        names = list(METHODS)
        place = names.index(self.method) if self.method in names else len(names)
        return (place, self.method, len(self._settings), self.label)

    @property
    def _settings(self) -> list[str]:
        """What is not as usual, in words."""
        words = (
            self.solver,
            self.ranking and f"{self.ranking} ranking",
            self.projection and f"{self.projection} projection",
            self.anchors and f"{self.anchors:,} anchors",
            self.features and "with the kernel",
            self.missing_labels and f"labels {self.missing_labels}ped",
            self.fit_rows and f"fitted to {self.fit_rows} rows",
        )
        return [word for word in words if word]


OURS = (Series("sq"), Series("sq", ranking="semantic"))
"""The joint solver with the published ranking, which is the headline, and with ours."""


@dataclass(frozen=True)
class Cell:
    """One result file: its name in the folder, its content, its series."""

    name: str
    content: Mapping[str, Any]
    series: Series

    def __getitem__(self, field: str) -> Any:
        return self.content[field]

    def value(self, field: str) -> float | None:
        """Give a number of the cell; `query_ms/scan` is one inside another.

        Examples
        --------
        >>> Cell("a", {"query_ms": {"scan": 0.5}}, Series("pq")).value("query_ms/scan")
        0.5
        """
        found: Any = self.content
        for name in field.split("/"):
            found = found.get(name) if isinstance(found, dict) else None
        return None if found is None else float(found)

    @property
    def truncated(self) -> bool:
        """Whether the fit hit the time limit."""
        return bool(self.content.get("truncated"))


@dataclass(frozen=True)
class Mean:
    """A number over seeds, and the cells that it comes from."""

    field: str
    cells: tuple[Cell, ...]

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The number of each seed."""
        return {cell["seed"]: value for cell in self.cells if (value := cell.value(self.field)) is not None}

    @property
    def value(self) -> float:
        """Their mean."""
        return mean(self.by_seed.values())

    def over(self, seeds: Collection[int]) -> Mean:
        """Give the number over some of its seeds."""
        return Mean(self.field, tuple(cell for cell in self.cells if cell["seed"] in seeds))

    @property
    def half_range(self) -> float | None:
        """Half of the range over seeds; None for one seed."""
        values = self.by_seed.values()
        return (max(values) - min(values)) / 2 if len(values) > 1 else None

    @property
    def truncated(self) -> bool:
        """Whether some fit hit the time limit."""
        return any(cell.truncated for cell in self.cells)


@dataclass(frozen=True)
class Results:
    """All result files of a folder."""

    cells: tuple[Cell, ...]
    sweeps: tuple[Mapping[str, Any], ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    curves: tuple[Cell, ...] = ()  # measured for their convergence, and not compared

    @property
    def datasets(self) -> list[str]:
        """Those of cells, sweeps or samples, in the order in which they are shown."""
        named = {cell["dataset"] for cell in self.cells}
        named |= {record["dataset"] for record in (*self.sweeps, *self.samples)}
        known = list(TITLES)
        return sorted(named, key=lambda name: (known.index(name) if name in known else len(known), name))

    def slug(self, dataset: str) -> str:
        """Give the name of a data set in file names."""
        return slugs(self.datasets)[dataset]

    def select(self, **identity: Any) -> list[Cell]:
        """Give the cells whose fields (or `series`) are as said."""
        where = (identity.get("dataset"), identity.get("protocol"))
        among = self.cells if None in where else self._by_place.get(where, ())
        return [
            cell
            for cell in among
            if all(
                (cell.series if name == "series" else cell[name]) == asked for name, asked in identity.items()
            )
        ]

    @cached_property
    def _by_place(self) -> Mapping[tuple[Any, Any], Sequence[Cell]]:
        """The cells by data set and protocol, which nearly every question names."""
        places: dict[tuple[Any, Any], list[Cell]] = {}
        for cell in self.cells:
            places.setdefault((cell["dataset"], cell["protocol"]), []).append(cell)
        return places

    def series(self, **identity: Any) -> list[Series]:
        """Give the series that have such cells, in order."""
        return sorted({cell.series for cell in self.select(**identity)}, key=lambda series: series.order)

    @property
    def ours(self) -> list[Series]:
        """Those of our series that were measured."""
        return [series for series in OURS if any(cell.series == series for cell in self.cells)]

    def lengths(self, **identity: Any) -> list[int]:
        """Give the code lengths of such cells."""
        return sorted({cell["bits"] for cell in self.select(**identity)})

    def mean(self, field: str, series: Series, bits: int, **identity: Any) -> Mean | None:
        """Give a number over all seeds; None if no cell has it.

        A method that is the same at any length stands in with the shortest one that was measured.
        """
        cells = self.select(series=series, **identity)
        at = [cell for cell in cells if cell["bits"] == bits]
        if not at and series.method in ANY_LENGTH:
            at = [cell for cell in cells if cell["bits"] == min(each["bits"] for each in cells)]
        having = sorted((cell for cell in at if cell.value(field) is not None), key=lambda cell: cell["seed"])
        return Mean(field, tuple(having)) if having else None


def read_results(folder: str | Path) -> Results:
    """Read the result files of a folder: `cells/`, `curves/`, `sweeps/`, `samples/` and `failed/`.

    Parameters
    ----------
    folder : path
        What is missing in it is missing in the report; a file that cannot be read is an error.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_results(folder)
    Results(cells=(), sweeps=(), samples=(), failures=(), curves=())
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    records = list(_records(folder / "cells", _CELL_FIELDS))
    curves = list(_records(folder / "curves", _CELL_FIELDS))
    anchors = _usual_anchors(content for _, content in records)

    def as_cell(name: str, content: Mapping[str, Any]) -> Cell:
        return Cell(name, content, Series.of(content, anchors.get(content["dataset"])))

    cells = tuple(as_cell(path.stem, content) for path, content in records)
    _refuse_twins(cells)
    return Results(
        cells,
        sweeps=tuple(content for _, content in _records(folder / "sweeps", {"dataset", "points"})),
        samples=tuple(content for _, content in _records(folder / "samples", {"dataset", "queries"})),
        failures=tuple(content for _, content in _records(folder / "failed", {"name", "error"})),
        curves=tuple(as_cell(f"curves/{path.stem}", content) for path, content in curves),
    )


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Give every name a file name of its own.

    Examples
    --------
    >>> slugs(["mnist", "a & b", "a < b"])
    {'mnist': 'mnist', 'a & b': 'a-b', 'a < b': 'a-b-2'}
    """
    given: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for name in names:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"
        taken[slug] += 1
        given[name] = slug if taken[slug] == 1 else f"{slug}-{taken[slug]}"
    return given


def title(dataset: str) -> str:
    """Give the name of a data set as people write it.

    Examples
    --------
    >>> title("mnist"), title("my.npz")
    ('MNIST', 'my.npz')
    """
    return TITLES.get(dataset, dataset)


def _records(folder: Path, fields: set[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Read the JSON files of a folder, by name."""
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is not a JSON file: {error}; remove it and measure it again") from error
        absent = fields - set(content if isinstance(content, dict) else ())
        if absent:
            raise InputError(f"{path} should be a record with {', '.join(sorted(absent))}; remove or mend it")
        yield path, content


def _usual_anchors(cells: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Give the number of anchors that most cells of a data set have; only others are worth naming.

    Cells with the library's own features have no say: their anchors are never named.
    """
    counts: dict[str, Counter[int]] = {}
    for cell in cells:
        anchors = cell["parameters"].get("anchors")
        if anchors and not _own_features(cell):
            counts.setdefault(cell["dataset"], Counter())[anchors] += 1
    return {
        dataset: min(count, key=lambda anchors: (-count[anchors], anchors))
        for dataset, count in counts.items()
    }


def _own_features(cell: Mapping[str, Any]) -> bool:
    return bool(cell["parameters"].get("features") == "labels")


def _refuse_twins(cells: Iterable[Cell]) -> None:
    """Two files that say they are the same cell cannot both be right."""
    seen: dict[tuple[Any, ...], str] = {}
    for cell in cells:
        key = (cell.series, *(cell[name] for name in ("dataset", "protocol", "bits", "seed")))
        if key in seen:
            raise InputError(
                f"{seen[key]}.json and {cell.name}.json are both {cell.series.label} on {cell['dataset']} at "
                f"{cell['bits']} bits, protocol {cell['protocol']}, seed {cell['seed']}; keep one of them"
            )
        seen[key] = cell.name


def _unless(value: str | None, usual: str) -> str:
    return "" if value is None or value == usual else value


def _solver(parameters: Mapping[str, Any]) -> str:
    solver = _unless(parameters.get("solver"), "joint")
    return f"{solver}, published order" if solver and parameters.get("max_turns") == 1 else solver
