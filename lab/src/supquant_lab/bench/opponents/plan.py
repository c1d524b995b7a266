"""Report: the cells that compare the default model with its opponents, in the order in which they are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from supquant.inputs.parameters import check_choice
from supquant_lab.methods.opponents.methods import OPPONENTS

PROTOCOLS = ("open", "unlabelled", "unseen", "paper")
"""Protocols, the hardest for an opponent first."""

DATA: Mapping[str, int | None] = {
    "banking77": None,
    "mnist": 10_000,
    "cifar10": 10_000,
    "tinyimagenet": 36_000,
}
"""Data sets, and the maximum number of their rows."""

QUICK_ROWS: Mapping[str, int] = {"tinyimagenet": 12_000}
"""Maximum number of rows in a quick run, where it is another."""

REFERENCES = ("sq", "pq", "cosine")
"""Methods that opponents are compared with: ours, and two that need no labels."""

COMPARED = (*REFERENCES, *OPPONENTS)
"""All methods."""

SEEDS = (0, 1)
"""Seeds of splits and fits."""

BITS = 64
"""Bits of an item, for methods that have a choice."""


class Cell(NamedTuple):
    """One method on one split. Its record is a file of its own."""

    protocol: str
    data: str
    rows: int | None
    method: str
    bits: int
    seed: int

    @property
    def name(self) -> str:
        """The name of the record.

        Examples
        --------
        >>> Cell("open", "mnist", 500, "label-pq", 64, 1).name
        'open-mnist-500rows-label-pq-64bits-seed1'
        """
        rows = "" if self.rows is None else f"{self.rows}rows"
        parts = (self.protocol, self.data, rows, self.method, f"{self.bits}bits", f"seed{self.seed}")
        return "-".join(filter(None, parts))


def plan_cells(
    data: Sequence[str] | None = None,
    protocols: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    bits: int = BITS,
    rows: int | None = None,
    quick: bool = False,
) -> list[Cell]:
    """Return the cells to measure; everything that is not given is as planned.

    Examples
    --------
    >>> [cell.name for cell in plan_cells(["mnist"], ["open"], ["sq"])]
    ['open-mnist-10000rows-sq-64bits-seed0', 'open-mnist-10000rows-sq-64bits-seed1']
    """
    for given, known, name in ((protocols, PROTOCOLS, "protocol"), (methods, COMPARED, "method")):
        for each in given or ():
            check_choice(each, name, known)
    return [
        Cell(protocol, name, _limit(name, rows, quick=quick), method, bits, seed)
        for name in data or DATA
        for protocol in protocols or PROTOCOLS
        for seed in seeds or SEEDS
        for method in methods or COMPARED
    ]


def _limit(name: str, rows: int | None, *, quick: bool) -> int | None:
    """Return the smallest limit of the rows of a data set."""
    limits = (DATA.get(name), rows, QUICK_ROWS.get(name) if quick else None)
    return min((each for each in limits if each is not None), default=None)
