"""Report: cells that were written as JSON files, as a table; figures are never typed by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VALUES = (
    "map",
    "map_learned",
    "map_encoded",
    "map_tie_aware",
    "map_learned_tie_aware",
    "map_encoded_tie_aware",
    "map_known",
    "map_new",
    "map_known_only",
    "map_new_only",
    "recall_at_10",
    "recall_within_class",
    "distinct_codes",
    "quantization_error",
    "fit_seconds",
    "index_bytes_per_item",
    "peak_memory_mb",
)
"""What a table can show."""


_OUTCOMES = {"chain_seconds", "n_iter", "n_jobs", "n_unlabelled", "tuning"}
"""Parameters of a record that nobody set."""


@dataclass(frozen=True)
class ResultTable:
    """A header and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Render the table in Markdown.

        Examples
        --------
        >>> print(ResultTable(["method", "16"], [["sq", ".97"]]).markdown())
        | method | 16 |
        | --- | --- |
        | sq | .97 |
        """
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read_cells(folder: str | Path) -> list[dict[str, Any]]:
    """Read every cell in a folder and the folders in it; other JSON files are passed over."""
    if not Path(folder).is_dir():
        raise InputError(f"no such folder: {folder}")
    cells = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            raise InputError(f"{path} is not a JSON file: {error}") from error
        found = content if isinstance(content, list) else [content]
        cells += [
            cell for cell in found if isinstance(cell, dict) and {"method", "bits", "map"} <= cell.keys()
        ]
    if not cells:
        raise InputError(f"{folder} holds no cell; write some with `supquant experiment --out-dir {folder}`")
    return cells


def result_table(cells: Iterable[Mapping[str, Any]], value: str = "map") -> ResultTable:
    """Lay cells out by code length, each the mean over its seeds.

    Where some cell is of the protocol `open`, MAP is shown three times: as it is, which is the harmonic mean of both kinds of
    queries there, of known classes, and of new ones.

    Parameters
    ----------
    cells : iterable of mapping
        As `read_cells` gives them.
    value : str
        One of `VALUES`.

    Examples
    --------
    >>> cell = {"dataset": "digits", "protocol": "paper", "ranking": "euclidean", "method": "pq", "bits": 16,
    ...         "parameters": {"n_training": 1618}}
    >>> table = result_table([cell | {"seed": 0, "map": 0.5}, cell | {"seed": 1, "map": 0.6}])
    >>> print(table.markdown())
    | trained on | protocol, ranking | method | seeds | 16 bits |
    | --- | --- | --- | --- | --- |
    | digits, 1,618 rows | paper, euclidean | pq | 0, 1 | .5500 |
    """
    if value not in VALUES:
        raise InputError(f"unknown value {value!r}: expected one of {', '.join(VALUES)}")
    lines: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        lines[_describe(cell)].append(cell)
    shown = [value]
    if value == "map" and any(cell["protocol"] == "open" for line in lines.values() for cell in line):
        shown += ["map_known", "map_new"]
    groups: dict[tuple[str, ...], dict[int, dict[int, Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for key, line in lines.items():
        names = _told_apart_by(line)
        for cell in line:
            named = [f"{name}={cell['parameters'].get(name)}" for name in names]
            described = (*key[:-1], ", ".join([key[-1], *named]))
            groups[described][cell["bits"]][cell["seed"]] = cell
    lengths = sorted({bits for by_bits in groups.values() for bits in by_bits})
    rows = []
    for key, by_bits in sorted(groups.items()):
        seeds = sorted({seed for by_seed in by_bits.values() for seed in by_seed})
        figures = [
            _mean_text([cell.get(field) for cell in by_bits.get(bits, {}).values()], len(seeds))
            for bits in lengths
            for field in shown
        ]
        rows.append([*key, ", ".join(map(str, seeds)), *figures])
    kinds = [field.removeprefix(value).replace("_", ", ") for field in shown]  # "", ", known", ", new"
    columns = [f"{bits} bits{kind}" for bits in lengths for kind in kinds]
    return ResultTable(["trained on", "protocol, ranking", "method", "seeds", *columns], rows)


def _describe(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what cells of one line have in common."""
    parameters = cell["parameters"]
    anchors = f"{parameters['anchors']} anchors" if parameters.get("anchors") else None
    if anchors and parameters.get("features") == "kernel, ours":
        anchors += ", not as published"
    published = parameters.get("solver") == "alternating" and parameters.get("max_turns") == 1
    order = "published order" if published else None
    tuned = "tuned" if parameters.get("tuning", {}).get("points") else None
    return (
        f"{cell['dataset']}, {parameters['n_training']:,} rows",
        f"{cell['protocol']}, {cell['ranking']}",
        ", ".join(filter(None, (cell["method"], parameters.get("solver"), order, anchors, tuned))),
    )


def _told_apart_by(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the parameters in which cells of one code length and seed differ: those were set on purpose."""
    names: set[str] = set()
    for one, other in combinations(cells, 2):
        if (one["bits"], one["seed"]) == (other["bits"], other["seed"]):
            ours, theirs = one["parameters"], other["parameters"]
            names |= {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    return sorted(names - _OUTCOMES)


def _mean_text(values: Sequence[float | None], n_seeds: int) -> str:
    """Give the mean with four significant places, and say of how many seeds where some are missing."""
    measured = [value for value in values if value is not None]
    if not measured:
        return "-"
    average = mean(measured)
    text = f"{average:.4f}".removeprefix("0") if abs(average) < 10 else f"{average:,.1f}"
    return text if len(measured) == n_seeds else f"{text} ({len(measured)} of {n_seeds})"
