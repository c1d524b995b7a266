"""Report: the cells that measure the default model, by the name of their part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supquant.errors import InputError
from supquant.inputs.parameters import check_choice, check_integer

SEEDS, QUICK_SEEDS = (0, 1, 2), (0, 1)
"""Seeds of splits and fits."""

QUICK_ROWS = {
    "tinyimagenet": 36_000,
    "cifar10": 10_000,
    "mnist": 10_000,
    "coco30k": 10_000,
    "coco30k-noperson": 10_000,
}
"""Maximum number of rows of a data set in a quick run."""

QUICK_LENGTHS = (16, 64)
"""Code lengths of these data sets in a quick run, in bits, where several are measured."""


class Line(NamedTuple):
    """What is measured of a fit, whatever its seed: one line of a table.

    `kind` is a protocol, or "extend", "discover" or "fit". `variant` names what is not as by default; see `measures.VARIANTS` and
    `measures.LEFT_OUT`. Of more than `rows` rows, a random draw is taken.
    """

    kind: str
    data: str
    rows: int | None
    variant: str
    bits: int

    @property
    def label(self) -> str:
        """The line in words, without its kind."""
        rows = "" if self.rows is None else f"{self.rows:,} rows"
        return ", ".join(filter(None, (self.data, rows, self.variant, f"{self.bits} bits")))


@dataclass(frozen=True)
class Case:
    """One seed of a line. Its record is a file of its own."""

    line: Line
    seed: int

    @property
    def name(self) -> str:
        """The name of the record.

        Examples
        --------
        >>> Case(Line("open", "mnist", 500, "", 64), 1).name
        'open-mnist-500rows-64bits-seed1'
        """
        kind, data, rows, variant, bits = self.line
        parts = (
            kind,
            data,
            "" if rows is None else f"{rows}rows",
            variant,
            f"{bits}bits",
            f"seed{self.seed}",
        )
        return "-".join(filter(None, parts))


@dataclass(frozen=True)
class Group:
    """Lines of one kind: every data set with every variant at every length."""

    kind: str
    data: Sequence[str]
    variants: Sequence[str] = ("",)
    bits: Sequence[int] = (64,)
    rows: int | None = None

    def lines(
        self, names: Sequence[str], bits: Sequence[int] | None, rows: int | None, *, quick: bool
    ) -> list[Line]:
        """Return the lines of some data sets. Given lengths replace those of the group, and given rows are a further limit."""
        found = []
        for name in names:
            large = quick and name in QUICK_ROWS
            limits = [self.rows, rows, QUICK_ROWS[name] if large else None]
            limit = min((each for each in limits if each is not None), default=None)
            usual = QUICK_LENGTHS if large and len(self.bits) > 1 else self.bits
            found += [
                Line(self.kind, name, limit, variant, length)
                for variant in self.variants
                for length in bits or usual
            ]
        return found


_MANY_CLASSES = ("banking77", "tinyimagenet")
_ONE_LABEL = (*_MANY_CLASSES, "cifar10", "mnist")

PARTS: Mapping[str, Sequence[Group]] = {
    "open": [Group("open", _MANY_CLASSES)],
    "unlabelled": [
        Group("unlabelled", _ONE_LABEL, ("", "new_classes=0", "fit_rows=all")),
        Group("unlabelled", ("digits",), ("", "new_classes=0")),
        Group("unlabelled", ("mnist",), ("", "new_classes=0"), rows=12_000),
    ],
    "unseen": [Group("unseen", _ONE_LABEL, ("", "fit_rows=all"))],
    "paper": [Group("paper", (*_ONE_LABEL, "coco30k", "coco30k-noperson"), bits=(16, 64))],
    "lengths": [
        *(Group(kind, ("banking77",), bits=(16, 32, 64, 128)) for kind in ("paper", "unlabelled")),
        Group("open", _MANY_CLASSES, bits=(16, 32, 64, 128)),
    ],
    "extend": [Group("extend", ("digits", "banking77"), ("one", "fifth"))],
    "discover": [Group("discover", _MANY_CLASSES)],
    "fit": [Group("fit", ("banking77", "mnist")), Group("fit", ("tinyimagenet",), rows=36_000)],
}
"""The cells by part. A cell of several parts is measured once."""


def plan_cases(
    parts: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    bits: Sequence[int] | None = None,
    rows: int | None = None,
    quick: bool = False,
) -> list[Case]:
    """Return the cells to measure, each once.

    Parameters
    ----------
    parts : sequence of str, optional
        Names in `PARTS`; all by default.
    data : sequence of str, optional
        Only these data sets. One that a part does not have is measured like every data set of the part.
    seeds, bits : sequences of int, optional
        In place of the planned ones.
    rows : int, optional
        Maximum number of rows of a data set.
    quick : bool
        Whether to take two seeds, fewer rows and fewer lengths.

    Examples
    --------
    >>> [case.name for case in plan_cases(["open"], ["digits"], seeds=[0])]
    ['open-digits-64bits-seed0']
    >>> len(plan_cases(["lengths"], quick=True)), len(plan_cases(["lengths"]))
    (28, 48)
    """
    for part in parts or ():
        check_choice(part, "part", tuple(PARTS))
    for length in bits or ():
        if check_integer(length, "bits", 8, 512) % 8:
            raise InputError(f"bits must be a multiple of 8, got {length}")
    lines: list[Line] = []
    for part in parts or PARTS:
        groups = PARTS[part]
        planned = {name for group in groups for name in group.data}
        for group in groups:
            names = group.data if data is None else [d for d in data if d in group.data or d not in planned]
            lines += group.lines(names, bits, rows, quick=quick)
    usual = QUICK_SEEDS if quick else SEEDS
    return [
        Case(line, check_integer(seed, "seeds", 0))
        for line in dict.fromkeys(lines)
        for seed in seeds or usual
    ]
