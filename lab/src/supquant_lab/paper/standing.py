"""Report: the place of our codes among those of other methods, computed from cells and written in words.

Learned codes are compared with learned ones and encoded codes with encoded ones, over the seeds that both
have. Ours is called first only where every method was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import TYPE_CHECKING, Literal

from supquant_lab.paper import plan
from supquant_lab.paper.results import OURS, REFERENCES, Results, Series
from supquant_lab.table import map_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from supquant_lab.paper.results import Mean

Codes = Literal["learned", "encoded"]
Verdict = Literal["first", "ahead", "level", "behind", "alone"]

MAX_NAMED = 4
"""A sentence names at most this many methods that were not measured."""

ROUNDING = 1e-12
"""A mean difference of MAP below this is rounding, and counts as zero."""

COMPARED = frozenset(plan.COMPARED) - REFERENCES - {"sq"}
"""The methods that must be measured before ours is called first."""


NON_RIVALS = REFERENCES | {"sq"}
"""The methods that cannot be ahead of ours: those that store floats, and `sq` itself. If one has the higher MAP, this is said."""


@dataclass(frozen=True)
class Rival:
    """Another series, and the mean by which our MAP is above its MAP, over the seeds that both have.

    Attributes
    ----------
    contrary : int
        The number of seeds whose difference has the opposite sign of the mean.
    """

    series: Series
    margin: float
    seeds: tuple[int, ...]
    truncated: bool = False
    contrary: int = 0


@dataclass(frozen=True)
class Standing:
    """One of our series at one code length against all others.

    Attributes
    ----------
    rivals : tuple of Rival
        Codes of other methods, the strongest first.
    above : tuple of Rival
        Series of `NON_RIVALS` with a higher MAP than ours.
    missing : tuple of str
        Methods that were not measured here with a seed of ours.
    """

    rivals: tuple[Rival, ...]
    above: tuple[Rival, ...] = ()
    missing: tuple[str, ...] = ()

    @cached_property
    def verdict(self) -> Verdict:
        """`first` of all methods, `ahead` of those measured while others are missing, or `alone` without any other."""
        if not self.rivals:
            return "alone"
        margin = self.rivals[0].margin
        if margin < 0:
            return "behind"
        if margin == 0:
            return "level"
        return "ahead" if self.missing else "first"

    def sentence(self, *, several: bool = False) -> str:
        """Return the verdict in words, with the margin, the seeds, and what limits the claim.

        Parameters
        ----------
        several : bool
            Whether this is the worst of several comparisons and the sentence is about all of them.

        Examples
        --------
        >>> Standing((Rival(Series("classifier"), -0.02, (0, 1)),)).sentence()
        'not first: .0200 behind classifier (2 seeds)'
        >>> Standing((Rival(Series("classifier"), 0.02, (0, 1, 2), contrary=1),)).sentence()
        'first, .0200 before classifier (3 seeds, 1 of them the other way)'
        >>> Standing((Rival(Series("sdh"), 0.1, (0,)),), missing=("bre",)).sentence()
        'ahead of all that were measured, .1000 before sdh (1 seed); not measured: bre'
        """
        if self.verdict == "alone":
            return "nothing to compare with yet"
        best = self.rivals[0]
        seeds = f"{len(best.seeds)} seed{'s' if len(best.seeds) > 1 else ''}"
        seeds += f", {best.contrary} of them the other way" if best.contrary else ""
        by, name = margin_text(abs(best.margin)), best.series.label
        before = f"{'at least ' if several else ''}{by} before {name} ({seeds})"
        said = {
            "first": f"first, {before}",
            "ahead": f"ahead of all that were measured, {before}",
            "level": f"level with {name} ({seeds})",
            "behind": f"not first: {'at worst ' if several else ''}{by} behind {name} ({seeds})",
        }[self.verdict]
        cut_short = [rival.series.label for rival in self.rivals if rival.truncated]
        up_to = "up to " if several else ""
        absent = ", ".join(self.missing) if len(self.missing) <= MAX_NAMED else f"{len(self.missing)} methods"
        limits = [
            *(
                f"{other.series.label} is {up_to}{margin_text(-other.margin)} above it"
                for other in self.above
            ),
            f"not measured: {absent}" if self.missing else "",
            f"stopped at the time limit: {', '.join(cut_short)}" if cut_short else "",
        ]
        return "; ".join(part for part in (said, *limits) if part)


def standing(
    results: Results,
    ours: Series,
    *,
    dataset: str,
    bits: int,
    protocol: str,
    codes: Codes,
    compared: Collection[str] = COMPARED,
) -> Standing | None:
    """Return the standing of one of our series among all others; None where ours was not measured.

    Parameters
    ----------
    ours : Series
        Our series under the other ranking is not among its rivals. Under the published ranking all rivals have the usual number
        of anchors; under the label one they may have any.
    compared : collection of str, default=COMPARED
        The methods that must be measured before ours is called first.
    """
    field = f"map_{codes}"
    where = {"dataset": dataset, "protocol": protocol}
    own = results.mean(field, ours, bits, **where)
    if own is None:
        return None
    met = []
    for series in results.series(**where):
        other = results.mean(field, series, bits, **where)
        if other is None or series in OURS or (series.anchors and not ours.ranking):
            continue
        rival = _rival(series, own, other)
        if rival is not None:
            met.append(rival)
    met.sort(key=lambda rival: (rival.margin, rival.series.order))
    rivals = tuple(rival for rival in met if rival.series.method not in NON_RIVALS)
    return Standing(
        rivals,
        above=tuple(rival for rival in met if rival.series.method in NON_RIVALS and rival.margin < 0),
        missing=tuple(sorted(set(compared) - {rival.series.method for rival in rivals})),
    )


def margin_text(value: float) -> str:
    """Return a difference of two MAPs as text; a difference above zero is never written as zero.

    Examples
    --------
    >>> margin_text(0.0213), margin_text(0.00004), margin_text(0.0)
    ('.0213', '<.0001', '.0000')
    """
    if 0 < value < 0.00005:
        return "<.0001"
    return map_text(value)


def _rival(series: Series, own: Mean, other: Mean) -> Rival | None:
    shared = tuple(sorted(own.by_seed.keys() & other.by_seed.keys()))
    if not shared:
        return None
    margins = [own.by_seed[seed] - other.by_seed[seed] for seed in shared]
    margin = mean(margins)
    cut_short = any(cell.truncated for cell in other.cells if cell["seed"] in shared)
    return Rival(
        series,
        0.0 if abs(margin) < ROUNDING else margin,
        shared,
        cut_short,
        contrary=sum(each * margin < 0 for each in margins),
    )
