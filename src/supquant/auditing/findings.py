"""The result of an audit: one table of findings, one of classes, and files of both."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.errors import InputError
from supquant.storage.replacing import replace_file

KINDS = ("label", "missing", "unlabelled", "duplicate", "strange", "confused", "two")
"""Kinds of findings: a given label that looks wrong, a label that looks forgotten, a label for a row that has none, a row that
occurs more than once, a row that looks like no class, two classes that are confused, and a class that looks like two."""

COLUMNS: dict[str, Any] = {
    "kind": "U10",
    "row": np.int64,  # row number, -1 for a finding about classes
    "id": object,  # of the row, None for a finding about classes
    "label": object,  # given label, or the first class; None if the row has none
    "suggested": object,  # label that looks right, or the second class
    "score": np.float64,  # from 0 to 1; findings of one kind descend by it
    "probability": np.float64,  # of the given label, by a classifier that did not see it
    "suggested_probability": np.float64,  # of the suggested label, by the same
    "agreement": np.float64,  # fraction of the neighbours that have the given label
    "group": np.int64,  # number of the group of near-duplicates, else -1
    "conflict": np.bool_,  # whether a group of near-duplicates has different labels
    "rows": np.int64,  # number of rows that the finding is about
}
"""Columns of the findings and their types."""

CLASS_COLUMNS: dict[str, Any] = {
    "label": object,
    "rows": np.int64,
    "recall": np.float64,  # fraction of its rows for which the label is suggested too
    "precision": np.float64,  # fraction of the rows with this suggestion that have the label
    "probability": np.float64,  # mean over its rows
    "agreement": np.float64,  # mean over its rows
    "doubtful": np.int64,  # number of its rows whose label looks wrong
    "gap": np.float64,  # between its two halves, in units of their spread; about 2.7 to 4 where it is one class
}
"""Columns of the table of classes and their types."""

FILES = (".csv", ".parquet")
"""Endings of the files that a table is written to."""


class AuditTable(np.recarray[Any, Any]):
    """A record array with a column for every name, which also becomes a data frame or a file."""

    @classmethod
    def of(cls, columns: Mapping[str, Any], rows: Iterable[tuple[Any, ...]]) -> AuditTable:
        """Return the table with these columns, by name and type, and these rows.

        Examples
        --------
        >>> AuditTable.of({"label": object, "rows": np.int64}, [("cat", 3)]).rows
        array([3])
        """
        return np.array(list(rows), dtype=list(columns.items())).view(cls)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by their names, as arrays."""
        return {name: np.asarray(self[name]) for name in self.dtype.names or ()}

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`; pandas must be installed."""
        import pandas as pd  # noqa: PLC0415  # only needed here

        return pd.DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return the table as a `pyarrow.Table`; the extra ``supquant[arrow]`` brings pyarrow."""
        import pyarrow as pa  # noqa: PLC0415  # an extra

        return pa.table({name: pa.array(_plain(values)) for name, values in self.columns().items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a .csv or .parquet file. A failure leaves the old file."""
        path = Path(path)
        if path.suffix not in FILES:
            raise InputError(f"cannot write {path}: expected a name that ends in {' or '.join(FILES)}")
        with replace_file(path) as binary:
            if path.suffix == ".parquet":
                import pyarrow.parquet as pq  # noqa: PLC0415  # an extra

                pq.write_table(self.to_arrow(), binary)
                return
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
            lines = csv.writer(file)
            lines.writerow(self.dtype.names or ())
            lines.writerows(self.tolist())
            file.detach()  # otherwise it would close the file before it is synced


def _plain(values: NDArray[Any]) -> Any:
    """Return a column as Arrow takes it: objects of several types, such as labels of several kinds, become texts."""
    if values.dtype.kind != "O":
        return values
    found = {type(value) for value in values.tolist() if value is not None}
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if len(found) <= 1 and found <= {int, float, str, bool}:
        return plain
    if all(issubclass(each, np.integer | int) for each in found):
        return plain
    return [None if value is None else str(value) for value in plain]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    findings : AuditTable
        A line for every finding, by kind in the order of `KINDS`, the most certain first. Columns are those of `COLUMNS`.
    classes : AuditTable
        A line for every class, with its quality. Columns are those of `CLASS_COLUMNS`.
    notes : tuple of str
        What could not be judged, a sentence each.
    n_rows, n_unlabelled : int
        The number of rows, and the number of rows without a label.
    wrong : ndarray of shape (n_rows,), float64
        How probably the label of each row is wrong; NaN where it has none or several, or where it cannot be judged. The sum of
        these is about the number of wrong labels.
    """

    findings: AuditTable
    classes: AuditTable
    notes: tuple[str, ...] = ()
    n_rows: int = 0
    n_unlabelled: int = 0
    wrong: Float64 = field(default_factory=lambda: np.zeros(0), repr=False)
    _kinds: dict[str, AuditTable] = field(default_factory=dict, repr=False)

    def of_kind(self, kind: str) -> AuditTable:
        """Return the findings of one of `KINDS`."""
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if kind not in self._kinds:
            self._kinds[kind] = self.findings[self.findings["kind"] == kind]
        return self._kinds[kind]

    @property
    def suspicious(self) -> AuditTable:
        """Rows whose label looks wrong, the most doubtful first."""
        return self.of_kind("label")

    @property
    def duplicates(self) -> AuditTable:
        """Rows that occur more than once; groups with different labels come first."""
        return self.of_kind("duplicate")

    @property
    def confused(self) -> AuditTable:
        """Pairs of classes whose rows look like the other class."""
        return self.of_kind("confused")

    def to_pandas(self) -> Any:
        """Return all findings as a `pandas.DataFrame`."""
        return self.findings.to_pandas()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all findings to a .csv or .parquet file."""
        self.findings.save(path)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.of_kind(kind)):,} {kind}" for kind in KINDS if len(self.of_kind(kind)))
        lines = [
            f"rows      {self.n_rows:,}, {self.n_unlabelled:,} of them without a label",
            f"findings  {counts or 'none'}",
        ]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])
