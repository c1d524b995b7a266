"""Report: means over seeds, and what moved between two runs by more than its noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from supquant_lab.bench.quality.plan import Line

LOWER_IS_BETTER = ("calibration", "fit_seconds", "peak_mb", "search_us", "tables_us")
"""Beginnings of the names of figures that are better if they are lower."""

NOISE_ERRORS = 2.0
"""A difference is more than noise if it is larger than this many standard errors."""

ROUNDING = 1e-5
"""Smaller relative differences never count."""

Values = dict[int, float]
"""A figure by seed."""


@dataclass(frozen=True)
class Move:
    """How the mean of a figure differs between two runs, over the seeds that both have.

    `noise` is `NOISE_ERRORS` standard errors of the differences.
    """

    line: Line
    figure: str
    before: float
    after: float
    noise: float

    @property
    def difference(self) -> float:
        """The mean difference."""
        return self.after - self.before

    @property
    def is_real(self) -> bool:
        """Whether the difference is more than noise and rounding."""
        return abs(self.difference) > max(self.noise, ROUNDING * abs(self.before))

    @property
    def is_better(self) -> bool:
        """Whether the difference is an improvement."""
        return (self.difference > 0) != self.figure.startswith(LOWER_IS_BETTER)


def figures_by_line(records: Sequence[dict[str, Any]]) -> dict[Line, dict[str, Values]]:
    """Return the figures of each line by name and seed, in the order of the records."""
    found: dict[Line, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        line = Line(*(record[field] for field in Line._fields))
        for name, value in record["figures"].items():
            found[line][name][record["seed"]] = value
    return found


def compare(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[Move]:
    """Return the move of every figure that both runs have.

    Both runs have the same splits, so differences are taken seed by seed. A few seeds can agree by chance: the noise of a figure
    is at least the root mean square of that of all lines of its kind.

    Examples
    --------
    >>> line = Line("open", "digits", None, "", 64)
    >>> runs = [[line._asdict() | {"seed": s, "figures": {"map": m + s / 10}} for s in (0, 1)] for m in (0.5, 0.6)]
    >>> (move,) = compare(*runs)
    >>> round(move.difference, 3), move.is_real, move.is_better
    (0.1, True, True)
    """
    old, new = figures_by_line(before), figures_by_line(after)
    pairs: list[tuple[Line, str, list[float], list[float]]] = []
    for line, figures in new.items():
        for name, values in figures.items():
            earlier = old.get(line, {}).get(name, {})
            seeds = [seed for seed in values if seed in earlier]
            if seeds:
                pairs.append(
                    (line, name, [earlier[seed] for seed in seeds], [values[seed] for seed in seeds])
                )
    spreads: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line, name, a, b in pairs:
        if len(a) > 1:
            spreads[line.kind, name].append(_spread_of_differences(a, b))
    moves = []
    for line, name, a, b in pairs:
        usual = sqrt(mean(each * each for each in spreads[line.kind, name] or [0.0]))
        own = _spread_of_differences(a, b) if len(a) > 1 else 0.0
        moves.append(Move(line, name, mean(a), mean(b), NOISE_ERRORS * max(own, usual) / sqrt(len(a))))
    return moves


def _spread_of_differences(a: Sequence[float], b: Sequence[float]) -> float:
    return stdev(after - before for before, after in zip(a, b, strict=True))
