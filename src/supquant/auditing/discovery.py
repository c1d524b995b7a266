"""Found classes and items to findings: which items belong to classes that nobody has labelled, as a table and as a page."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Array, ArrayLike, Flags
from supquant.auditing.pages import Shown, render
from supquant.errors import InputError
from supquant.model.codec import SupervisedCodec
from supquant.storage import replace_file

COLUMNS = ("id", "group", "label", "agreement", "novelty")
"""Columns of the table of items. A column of texts follows if the items have one."""

SHOWN_TEXTS, SHOWN_PICTURES = 6, 12
"""The page shows this number of typical items of each group."""

MAX_NAMED = 1000
"""The page writes a name for at most this number of items of each group, the most typical ones."""

RESEMBLES = 0.5
"""The page says that a group resembles a known class if its items have this label with more than this probability, and are new
with less than `SURELY_NEW`."""

SURELY_NEW = 0.8
"""See `RESEMBLES`."""


@dataclass(frozen=True, eq=False)
class Group:
    """The items that belong to a found class.

    Attributes
    ----------
    number : int
        Number of the found class in the model.
    rows : ndarray of shape (m,), intp
        Row numbers of the items, the most typical first.
    agreement, novelty : ndarray of shape (m,), float32
        How sure each item belongs to the group, and how sure it is of no known class.
    nearest : list of (label, float)
        The most similar known classes, and the mean probabilities that a member has these labels if it is of a known class.
    """

    number: int
    rows: NDArray[np.intp]
    agreement: Array
    novelty: Array
    nearest: list[tuple[Any, float]]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def resembled(self) -> Any:
        """The known class that the group may be a part of, or that it resembles, or None."""
        label, share = self.nearest[0]
        return label if share > RESEMBLES and self.novelty.mean() < SURELY_NEW else None


@dataclass(frozen=True, eq=False)
class Discovery:
    """Items that belong to found classes, by group. The largest group comes first.

    Attributes
    ----------
    groups : list of Group
        The found classes that have items.
    names : list
        The ids of all items.
    n_looked_at : int
        Number of items without a label, among which these were found.
    """

    groups: list[Group]
    names: list[Any]
    n_looked_at: int

    @property
    def n_found(self) -> int:
        """Number of items in groups."""
        return sum(map(len, self.groups))

    def __str__(self) -> str:
        lines = [f"{self.n_found:,} of {self.n_looked_at:,} items belong to {len(self.groups)} found classes"]
        if self.groups:
            lines.append("  group  items  new  agree  most similar known classes")
        for group in self.groups:
            near = ", ".join(f"{label} {share:.0%}" for label, share in group.nearest if share >= 0.005)
            lines.append(
                f"  {group.number:5} {len(group):6,} {group.novelty.mean():4.0%}  {group.agreement.mean():5.0%}  {near}"
            )
        return "\n".join(lines)

    def save(
        self,
        path: str | os.PathLike[str],
        labels: Mapping[int, Any] = MappingProxyType({}),
        metadata: Any = None,
    ) -> None:
        """Write a line for each item of a group to a .csv file, the most typical items of a group first.

        The column `label` is empty, or has the name that was given. Filled in, the table is what ``supquant extend`` reads.

        Parameters
        ----------
        path : str or path-like
        labels : mapping of int to label, optional
            Names of groups, by their numbers.
        metadata : pyarrow.Table or None, default=None
            Columns of the items; texts among them are written.
        """
        shown = Shown.of(metadata)
        with replace_file(Path(path)) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
            try:
                lines = csv.writer(file)
                lines.writerow((*COLUMNS, *(["text"] if shown.texts is not None else [])))
                for group in self.groups:
                    for row, agreement, novelty in zip(
                        group.rows.tolist(), group.agreement.tolist(), group.novelty.tolist(), strict=True
                    ):
                        text = [] if shown.texts is None else [shown.text(row)]
                        name = labels.get(group.number, "")
                        lines.writerow(
                            (self.names[row], group.number, name, f"{agreement:.3f}", f"{novelty:.3f}", *text)
                        )
            finally:
                file.detach()  # otherwise it would close the file before it is synced


def discover_items(
    codec: Any, X: ArrayLike, *, known: Flags | None = None, ids: Any = None, n_jobs: int | None = None
) -> Discovery:
    """Return which items belong to the found classes of a model.

    Parameters
    ----------
    codec : SupervisedCodec
        Of a model that was fitted to labelled and unlabelled rows.
    X : array-like of shape (n, p)
        Vectors of the items.
    known : ndarray of shape (n,), bool, or None, default=None
        Items that have a label. They are left out.
    ids : array-like of shape (n,) or None, default=None
        Names of the items. None takes row numbers.
    n_jobs : int or None, default=None
        Number of threads; None takes all cores.

    Returns
    -------
    Discovery

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> labels = [label if label < 9 and row % 2 else None for row, label in enumerate(y)]
    >>> sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, labels)
    >>> found = discover_items(sq.codec_, X)
    >>> y[found.groups[0].rows[:5]]
    array([9, 9, 9, 9, 9])
    """
    if not isinstance(codec, SupervisedCodec):
        raise InputError("classes are found by models of the method sq alone: fit one")
    found, asked = codec.found, codec.discover(X, n_jobs=n_jobs)
    names = list(range(len(asked.groups))) if ids is None else np.asarray(ids).tolist()
    open_rows = np.ones(len(asked.groups), dtype=bool) if known is None else ~known
    groups = []
    for number in range(0 if found is None else len(found)):
        assert found is not None
        rows = np.flatnonzero(open_rows & (asked.groups == number))
        rows = rows[np.argsort(-(asked.agreement * asked.novelty)[rows], kind="stable")]
        nearest = list(zip(found.nearest[number].tolist(), found.nearness[number].tolist(), strict=True))
        if len(rows):
            groups.append(Group(number, rows, asked.agreement[rows], asked.novelty[rows], nearest))
    groups.sort(key=len, reverse=True)
    return Discovery(groups, names, int(open_rows.sum()))


def discovery_page(
    found: Discovery,
    metadata: Any = None,
    title: str = "Found classes",
    *,
    labels: Mapping[int, Any] = MappingProxyType({}),
    extend: str = "supquant extend MODEL labels.csv --vectors ITEMS",
) -> str:
    """Return a page that shows each group, with a field for its name and a button that writes the names to a file.

    Parameters
    ----------
    found : Discovery
    metadata : pyarrow.Table or None, default=None
        Columns of the items. Pictures and texts among them are shown.
    title : str, default="Found classes"
    labels : mapping of int to label, optional
        Names of groups that are filled in, by their numbers.
    extend : str
        The command that the page recommends.

    Returns
    -------
    str
        HTML. The extra ``supquant[audit]`` brings jinja2, which makes it.
    """
    shown = Shown.of(metadata)
    n_shown = SHOWN_TEXTS if shown.pictures is None else SHOWN_PICTURES
    groups = [
        {
            "number": group.number,
            "size": len(group),
            "name": labels.get(group.number, ""),
            "new": float(group.novelty.mean()),
            "agree": float(group.agreement.mean()),
            "resembled": group.resembled,
            "nearest": [(label, share) for label, share in group.nearest if share >= 0.01],
            "items": [
                {"id": found.names[row], "picture": shown.picture(row), "text": shown.text(row)}
                for row in group.rows[:n_shown].tolist()
            ],
        }
        for group in found.groups
    ]
    members = {
        group.number: [str(found.names[row]) for row in group.rows[:MAX_NAMED].tolist()]
        for group in found.groups
    }
    return render(
        "discovery.html.j2",
        title=title,
        found=found,
        groups=groups,
        members=members,
        extend=extend,
        has_pictures=shown.pictures is not None,
        has_texts=shown.texts is not None,
    )
