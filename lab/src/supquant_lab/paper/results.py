"""Report: the result files of a folder, and the means over seeds that tables and figures show."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant_lab.methods import METHODS, OWN_RANKING
from supquant_lab.records import CELL_FIELDS, CELL_FOLDERS, Record, read_records
from supquant_lab.splits import resolve_fit_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

REFERENCES = frozenset({"euclidean", "cosine", "classifier-scores", "probabilities"})
"""Methods whose items are float vectors or scores. They are shown next to the codes, and no code is compared with them."""

LENGTH_FREE = REFERENCES | {"classifier"}
"""Methods whose items are the same at any code length."""

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
"""Names of data sets as people write them, in the order in which they are shown."""

_REPORTED_FIELDS = CELL_FIELDS | {"machine"}
_OTHER_FIELDS = {
    "sweeps": frozenset({"dataset", "points"}),
    "samples": frozenset({"dataset", "queries"}),
    "failed": frozenset({"name", "error"}),
}
"""The fields that every record must have, by folder."""


@dataclass(frozen=True)
class Series:
    """A method with its parameters: one line of a figure, one row of a table.

    Examples
    --------
    >>> Series("sq").label, Series("sq", solver="alternating").label, Series("sq", ranking="label").label
    ('sq', 'sq (alternating)', 'sq (label ranking)')
    """

    method: str
    solver: str = ""  # an empty field has the usual value of the method
    ranking: str = ""
    projection: str = ""
    anchors: int | None = None
    features: str = ""
    missing_labels: str = ""
    fit_rows: str = ""

    @classmethod
    def of(cls, cell: Mapping[str, Any], usual_anchors: int | None = None) -> Series:
        """Return the series of a cell; its fields name the parameters that are not the usual ones."""
        method, parameters = cell["method"], cell["parameters"]
        usual_ranking = METHODS[method].rankings[0] if method in METHODS else OWN_RANKING
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
        """Its name in figures and tables."""
        return f"{self.method} ({', '.join(self._settings)})" if self._settings else self.method

    @property
    def short(self) -> str:
        """Its name where there is little room."""
        return ", ".join([self.method, *self._settings]).replace(" ranking", "").replace(" projection", "")

    @property
    def is_ours(self) -> bool:
        """Whether it is supervised quantization with the joint solver, under either ranking."""
        return self in OURS

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: methods in the order of `METHODS`, the usual parameters first."""
        names = list(METHODS)
        place = names.index(self.method) if self.method in names else len(names)
        return (place, self.method, len(self._settings), self.label)

    @property
    def _settings(self) -> list[str]:
        """The parameters that are not the usual ones, in words."""
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


OURS = (Series("sq"), Series("sq", ranking="label"))
"""Our two series: the joint solver with the published ranking, and with the label one."""


@dataclass(frozen=True)
class Cell:
    """One measured cell: its name in the folder, its content, its series."""

    name: str
    content: Mapping[str, Any]
    series: Series

    def __getitem__(self, field: str) -> Any:
        return self.content[field]

    def value(self, field: str) -> float | None:
        """Return a number of the cell, None if it has none; `query_ms/scan` is the field `scan` of the field `query_ms`.

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
        """Whether the fit stopped at the time limit."""
        return bool(self.content.get("truncated"))


@dataclass(frozen=True)
class Mean:
    """The mean of a field over seeds, and the cells that it comes from."""

    field: str
    cells: tuple[Cell, ...]

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The value of each seed."""
        return {cell["seed"]: value for cell in self.cells if (value := cell.value(self.field)) is not None}

    @property
    def value(self) -> float:
        """The mean over the seeds."""
        return mean(self.by_seed.values())

    def over(self, seeds: Collection[int]) -> Mean:
        """Return the mean over some of its seeds."""
        return Mean(self.field, tuple(cell for cell in self.cells if cell["seed"] in seeds))

    @property
    def half_range(self) -> float | None:
        """Half of the range over the seeds; None if there is one seed."""
        values = self.by_seed.values()
        return (max(values) - min(values)) / 2 if len(values) > 1 else None

    @property
    def truncated(self) -> bool:
        """Whether some fit stopped at the time limit."""
        return any(cell.truncated for cell in self.cells)


@dataclass(frozen=True)
class Results:
    """All result files of a folder."""

    cells: tuple[Cell, ...]
    sweeps: tuple[Mapping[str, Any], ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    curves: tuple[Cell, ...] = ()  # cells that were measured for their convergence; they are not compared

    @property
    def datasets(self) -> list[str]:
        """The data sets of cells, sweeps and samples, in the order in which they are shown."""
        named = {cell["dataset"] for cell in self.cells}
        named |= {record["dataset"] for record in (*self.sweeps, *self.samples)}
        known = list(TITLES)
        return sorted(named, key=lambda name: (known.index(name) if name in known else len(known), name))

    def slug(self, dataset: str) -> str:
        """Return the name of a data set in file names."""
        return slugs(self.datasets)[dataset]

    def select(self, **identity: Any) -> list[Cell]:
        """Return the cells that have these values in their fields; `series` counts as a field."""
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
        """The cells by data set and protocol, because nearly every selection names both."""
        places: dict[tuple[Any, Any], list[Cell]] = {}
        for cell in self.cells:
            places.setdefault((cell["dataset"], cell["protocol"]), []).append(cell)
        return places

    def series(self, **identity: Any) -> list[Series]:
        """Return the series of the selected cells, sorted."""
        return sorted({cell.series for cell in self.select(**identity)}, key=lambda series: series.order)

    @property
    def ours(self) -> list[Series]:
        """Our series that were measured."""
        return [series for series in OURS if any(cell.series == series for cell in self.cells)]

    def lengths(self, **identity: Any) -> list[int]:
        """Return the code lengths of the selected cells, in bits."""
        return sorted({cell["bits"] for cell in self.select(**identity)})

    def mean(self, field: str, series: Series, bits: int, **identity: Any) -> Mean | None:
        """Return the mean of a field over all seeds; None if no cell has the field.

        A method of `LENGTH_FREE` that was not measured at this length is taken at its shortest one.
        """
        cells = self.select(series=series, **identity)
        at = [cell for cell in cells if cell["bits"] == bits]
        if not at and series.method in LENGTH_FREE:
            at = [cell for cell in cells if cell["bits"] == min(each["bits"] for each in cells)]
        having = sorted((cell for cell in at if cell.value(field) is not None), key=lambda cell: cell["seed"])
        return Mean(field, tuple(having)) if having else None


def read_results(folder: str | Path) -> Results:
    """Return the results in a folder: in `cells/`, `curves/`, `sweeps/`, `samples/` and `failed/`.

    Parameters
    ----------
    folder : path
        Any of these may be missing; a file that cannot be read is an error.

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
    cells, curves = (_records(folder / name, _REPORTED_FIELDS) for name in CELL_FOLDERS)
    anchors = _usual_anchors(record.content for record in cells)

    def as_cell(record: Record, prefix: str = "") -> Cell:
        content = record.content
        return Cell(prefix + record.name, content, Series.of(content, anchors.get(content["dataset"])))

    compared = tuple(map(as_cell, cells))
    _refuse_twins(compared)
    sweeps, samples, failures = (
        tuple(record.content for record in _records(folder / name, fields))
        for name, fields in _OTHER_FIELDS.items()
    )
    return Results(
        compared,
        sweeps=sweeps,
        samples=samples,
        failures=failures,
        curves=tuple(as_cell(record, "curves/") for record in curves),
    )


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Return a file name for every name; no two are the same.

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
    """Return the name of a data set as people write it.

    Examples
    --------
    >>> title("mnist"), title("my.npz")
    ('MNIST', 'my.npz')
    """
    return TITLES.get(dataset, dataset)


def _records(folder: Path, fields: frozenset[str]) -> list[Record]:
    """Return the records of a folder, all of which must have these fields."""
    records = read_records(folder)
    for record in records:
        absent = fields - set(record.content if isinstance(record.content, dict) else ())
        if absent:
            raise InputError(
                f"{record.name} in {record.path} should have {', '.join(sorted(absent))}; remove or repair it"
            )
    return records


def _usual_anchors(cells: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of anchors that most cells of a data set have; labels name only other numbers.

    Cells with the library's own features do not count: labels never name their anchors.
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
    """Raise an error if two records are of the same cell."""
    seen: dict[tuple[Any, ...], str] = {}
    for cell in cells:
        key = (cell.series, *(cell[name] for name in ("dataset", "protocol", "bits", "seed")))
        if key in seen:
            raise InputError(
                f"{seen[key]} and {cell.name} are both {cell.series.label} on {cell['dataset']} at "
                f"{cell['bits']} bits, protocol {cell['protocol']}, seed {cell['seed']}; keep one of them"
            )
        seen[key] = cell.name


def _unless(value: str | None, usual: str) -> str:
    return "" if value is None or value == usual else value


def _solver(parameters: Mapping[str, Any]) -> str:
    solver = _unless(parameters.get("solver"), "joint")
    return f"{solver}, published order" if solver and parameters.get("max_turns") == 1 else solver
