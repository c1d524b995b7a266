"""Report: where our codes stand among the others, computed from cells and put into words.

Learned codes are compared with learned ones and encoded codes with encoded ones, over the seeds that both
have. "First" is said only where every method was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import TYPE_CHECKING, Literal

from supquant_experiments.paper import plan
from supquant_experiments.paper.results import OURS, REFERENCES, Results, Series

if TYPE_CHECKING:
    from collections.abc import Collection

    from supquant_experiments.paper.results import Mean

Codes = Literal["learned", "encoded"]
Verdict = Literal["first", "ahead", "level", "behind", "alone"]

FEW = 4  # names in a sentence
ROUNDING = 1e-12  # of a mean of differences of equal numbers

COMPARED = frozenset(plan.COMPARED) - REFERENCES - {"sq"}
"""The methods without which nobody is called first; triplets and no transform are rivals too, where measured."""


NO_RIVALS = REFERENCES | {"sq"}
"""What stores floats, and ours itself: told where it is above ours, but it takes no place from it."""


@dataclass(frozen=True)
class Rival:
    """Another series, and how far ours is above it over the seeds that both have.

    Attributes
    ----------
    contrary : int
        So many of the seeds say the opposite of their mean.
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
        What is no rival but above ours: float vectors and scores, and `sq` itself with another solver.
    missing : tuple of str
        Methods that share no seed with ours here, or were not measured at all.
    """

    rivals: tuple[Rival, ...]
    above: tuple[Rival, ...] = ()
    missing: tuple[str, ...] = ()

    @cached_property
    def verdict(self) -> Verdict:
        """`ahead` is first of those measured, with others missing; `alone` has nobody to compare with."""
        if not self.rivals:
            return "alone"
        margin = self.rivals[0].margin
        if margin < 0:
            return "behind"
        if margin == 0:
            return "level"
        return "ahead" if self.missing else "first"

    def sentence(self, *, several: bool = False) -> str:
        """Say it in words, with the margin, the seeds, and what limits the claim.

        Parameters
        ----------
        several : bool
            Whether this is the worst of several comparisons, for all of which it speaks.

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
            "behind": f"not first: {'at the worst ' if several else ''}{by} behind {name} ({seeds})",
        }[self.verdict]
        cut_short = [rival.series.label for rival in self.rivals if rival.truncated]
        up_to = "up to " if several else ""
        absent = ", ".join(self.missing) if len(self.missing) <= FEW else f"{len(self.missing)} methods"
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
    """Compare one of our series with every other one; None where ours was not measured.

    Parameters
    ----------
    ours : Series
        Our series under another ranking is no rival of it. Under the published ranking it has the usual number of anchors, and
        so have its rivals; under ours it has the library's own features, and rivals may have any.
    compared : collection of str
        The methods without which nobody is called first.
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
    rivals = tuple(rival for rival in met if rival.series.method not in NO_RIVALS)
    return Standing(
        rivals,
        above=tuple(rival for rival in met if rival.series.method in NO_RIVALS and rival.margin < 0),
        missing=tuple(sorted(set(compared) - {rival.series.method for rival in rivals})),
    )


def margin_text(value: float) -> str:
    """Write a difference of two MAPs, so that what is not zero never looks like it.

    Examples
    --------
    >>> margin_text(0.0213), margin_text(0.00004), margin_text(0.0)
    ('.0213', '<.0001', '.0000')
    """
    if 0 < value < 0.00005:
        return "<.0001"
    return f"{value:.4f}".removeprefix("0")


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
