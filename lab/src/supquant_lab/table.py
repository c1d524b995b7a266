"""Report: a table made from the files of cells; no number is typed by hand."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant_lab.records import read_records

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
"""The fields of a cell that a table can show."""


_OUTCOMES = {"chain_seconds", "n_iter", "n_jobs", "n_unlabelled", "tuning"}
"""Entries of `parameters` that are results, not settings."""


@dataclass(frozen=True)
class ResultTable:
    """A header and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table in Markdown.

        Examples
        --------
        >>> print(ResultTable(["method", "16"], [["sq", ".97"]]).markdown())
        | method | 16 |
        | --- | --- |
        | sq | .97 |
        """
        return markdown_lines(self.header, self.rows)


def markdown_lines(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Return a Markdown table; with `numbers`, all columns but the first are aligned to the right."""
    others = "---:" if numbers else "---"
    lines = [header, ["---", *[others] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def map_text(value: float) -> str:
    """Return a fraction with four decimals and without the zero before them.

    Examples
    --------
    >>> map_text(0.93291), map_text(1.0)
    ('.9329', '1.0000')
    """
    return f"{value:.4f}".removeprefix("0")


def read_cells(folder: str | Path) -> list[dict[str, Any]]:
    """Return every cell in a folder and the folders in it, sorted by name; other JSON files are passed over."""
    if not Path(folder).is_dir():
        raise InputError(f"no such folder: {folder}")
    cells = [record.content for record in read_records(Path(folder), subfolders=True) if record.is_cell]
    if not cells:
        raise InputError(f"{folder} holds no cell; write some with `supquant experiment --out-dir {folder}`")
    return cells


def result_table(cells: Iterable[Mapping[str, Any]], value: str = "map") -> ResultTable:
    """Return a table of means over seeds by code length.

    If some cell has the protocol `open`, MAP is shown three times: the harmonic mean over both kinds of queries, then that of
    queries of known classes and that of new ones.

    Parameters
    ----------
    cells : iterable of mapping
        As `read_cells` returns them.
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
    """Return what the cells of one line have in common, in words."""
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
    """Return the parameters in which cells of one code length and seed differ: these were set on purpose."""
    names: set[str] = set()
    for one, other in combinations(cells, 2):
        if (one["bits"], one["seed"]) == (other["bits"], other["seed"]):
            ours, theirs = one["parameters"], other["parameters"]
            names |= {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    return sorted(names - _OUTCOMES)


def _mean_text(values: Sequence[float | None], n_seeds: int) -> str:
    """Return a mean as text, with the number of seeds where some are missing."""
    measured = [value for value in values if value is not None]
    if not measured:
        return "-"
    average = mean(measured)
    text = map_text(average) if abs(average) < 10 else f"{average:,.1f}"
    return text if len(measured) == n_seeds else f"{text} ({len(measured)} of {n_seeds})"
