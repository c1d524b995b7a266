"""Report: what was found, in sentences that are computed from the cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from supquant_experiments.grid.task import command
from supquant_experiments.methods import METHODS
from supquant_experiments.paper.measurements import machine_of
from supquant_experiments.paper.plan import COMPARED, DATASETS, IF_THERE
from supquant_experiments.paper.provenance import time_spent
from supquant_experiments.paper.published import STAND_INS, published_map
from supquant_experiments.paper.results import ANY_LENGTH, OURS, Results, Series, title
from supquant_experiments.paper.standing import Codes, Standing, margin_text, standing
from supquant_experiments.paper.tables import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ITEM_OF = {"sq-triplet": "triplet", "sq-no-transform": "transform"}
"""The item of the plan that a method is measured for, if it is not the comparison of all."""

CODES: tuple[Codes, ...] = ("learned", "encoded")


@dataclass(frozen=True)
class Headline:
    """The first screen of the report.

    Attributes
    ----------
    lead : tuple of str
        In how many comparisons ours is first, and in how many it is not, by kind of codes and ranking.
    beside_paper : str
        Our MAP beside the paper's where it printed one, shortest and longest codes.
    stand_ins : tuple of str
        Our MAP on data sets that stand in for those of the paper, and that these are other data.
    verdicts : tuple of str
        One sentence for each data set, kind of codes and ranking.
    facts : tuple of pairs
        What was measured, where, and what is missing.
    """

    lead: tuple[str, ...]
    beside_paper: str
    stand_ins: tuple[str, ...]
    verdicts: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def headline(results: Results) -> Headline:
    """Compute what the report opens with."""
    return Headline(
        lead=tuple(lead_sentences(results, "paper")) or ("There is nothing to compare yet.",),
        beside_paper=_beside_paper(results),
        stand_ins=tuple(_stand_ins(results)),
        verdicts=tuple(verdict_sentences(results, "paper")),
        facts=tuple(_facts(results)),
    )


def lead_sentences(results: Results, protocol: str) -> list[str]:
    """Count for each kind of codes and ranking where ours is first, and say by how much and behind whom it is not."""
    sentences = []
    for codes in CODES:
        for ours in results.ours:
            by_dataset = {
                dataset: _by_length(results, ours, dataset, protocol, codes).values()
                for dataset in results.datasets
            }
            found = {
                title(dataset): compared
                for dataset, standings in by_dataset.items()
                if (compared := [each for each in standings if each.verdict != "alone"])
            }
            if found:
                kind = "learned with labels" if codes == "learned" else "made from the vectors alone"
                sentences.append(f"Codes {kind}{_ranking(results, ours)}: sq is {_count(found)}.")
    return sentences


def verdict_sentences(results: Results, protocol: str) -> list[str]:
    """Say for every data set, kind of codes and ranking of ours where it is first, and where not and by how much."""
    sentences = []
    for dataset in results.datasets:
        for codes in CODES:
            for ours in results.ours:
                found = _by_length(results, ours, dataset, protocol, codes)
                if found:
                    where = f"{title(dataset)}, {codes}{_ranking(results, ours)}"
                    sentences.append(f"{where}: {_verdicts(found)}.")
    return sentences


def missing_cells(results: Results) -> dict[str, list[tuple[str, list[int]]]]:
    """Give by data set the compared methods without a cell under protocol `paper`, and the lengths that lack one.

    Lengths are those that some cell of the data set has.
    """
    missing: dict[str, list[tuple[str, list[int]]]] = {}
    for dataset in results.datasets:
        lengths = results.lengths(dataset=dataset, protocol="paper")
        for method in [name for name in METHODS if name in COMPARED]:
            measured = set(results.lengths(dataset=dataset, method=method, protocol="paper"))
            absent = [bits for bits in lengths if bits not in measured]
            if absent and not (measured and method in ANY_LENGTH):
                missing.setdefault(dataset, []).append((method, absent))
    return missing


def missing_command(
    dataset: str, method: str, bits: list[int], protocol: str = "paper", solver: str = ""
) -> str:
    """Write the command that measures what is missing: of the plan's data sets the part of the plan, with its settings.

    Examples
    --------
    >>> missing_command("mnist", "sq-triplet", [16, 32])
    'supquant paper --only triplet --dataset mnist'
    >>> missing_command("photos.npz", "sdh", [16, 32])
    'supquant experiment --dataset photos.npz --method sdh --bits 16,32 --protocol paper --out-dir cells'
    """
    if dataset in (*DATASETS, *IF_THERE):
        item = ITEM_OF.get(method, "map" if protocol == "paper" else protocol)
        return command("paper", only=item, dataset=dataset)
    lengths = ",".join(map(str, bits))
    return command(
        "experiment",
        dataset=dataset,
        method=method,
        bits=lengths,
        protocol=protocol,
        solver=solver or None,
        out_dir="cells",
    )


def _ranking(results: Results, ours: Series) -> str:
    """Name the ranking where ours was measured under more than one."""
    return f", {ours.ranking or 'euclidean'} ranking" if len(results.ours) > 1 else ""


def _by_length(
    results: Results, ours: Series, dataset: str, protocol: str, codes: Codes
) -> Mapping[int, Standing]:
    found = {
        bits: standing(results, ours, dataset=dataset, bits=bits, protocol=protocol, codes=codes)
        for bits in results.lengths(dataset=dataset, protocol=protocol, series=ours)
    }
    return {bits: each for bits, each in found.items() if each is not None}


def _count(by_dataset: Mapping[str, Sequence[Standing]]) -> str:
    """Say in how many comparisons ours is first, where at every length, and of the others the worst."""
    found = [each for standings in by_dataset.values() for each in standings]
    counts = Counter(each.verdict for each in found)
    parts = [f"first in {counts['first']} of {len(found)} comparisons"]
    everywhere = [
        name for name, standings in by_dataset.items() if all(each.verdict == "first" for each in standings)
    ]
    if everywhere:
        parts[0] += f", at every length on {', '.join(everywhere)}"
    if counts["ahead"]:
        parts.append(f"ahead of all that were measured, with methods missing, in {counts['ahead']}")
    if counts["level"]:
        parts.append(f"level with another in {counts['level']}")
    if counts["behind"]:
        worst = min((each.rivals[0] for each in found if each.rivals), key=lambda rival: rival.margin)
        at_worst = "at the worst " if counts["behind"] > 1 else ""
        by = f"{margin_text(-worst.margin)} behind {worst.series.label}"
        parts.append(f"not first in {counts['behind']}, {at_worst}{by}")
    kin = [other for each in found for other in each.above if other.series.method == "sq"]
    if kin:
        most = min(kin, key=lambda other: other.margin)
        parts.append(
            f"{most.series.label} is above it in {len(kin)}, by {margin_text(-most.margin)} at the most"
        )
    return "; ".join(parts)


def _verdicts(found: Mapping[int, Standing]) -> str:
    """Join the lengths that have the same verdict against the same rival."""

    def same(item: tuple[int, Standing]) -> tuple[object, ...]:
        each = item[1]
        above = tuple(sorted(other.series.label for other in each.above))
        return (each.verdict, each.rivals[0].series if each.rivals else None, above, each.missing)

    parts = []
    for _, group in groupby(found.items(), key=same):
        lengths, standings = zip(*group, strict=True)
        sentence = _worst(standings).sentence(several=len(standings) > 1)
        parts.append(f"at {', '.join(map(str, lengths))} bits {sentence}")
    return "; ".join(parts)


def _worst(found: Sequence[Standing]) -> Standing:
    """Give the one with the smallest margin, and with it the largest by which something is above ours, and all cut short."""
    least = min(found, key=lambda each: each.rivals[0].margin if each.rivals else 0.0)
    by_name = (sorted(each.above, key=lambda other: other.series.label) for each in found)
    above = zip(*by_name, strict=True)
    cut_short = {rival.series for each in found for rival in each.rivals if rival.truncated}
    return replace(
        least,
        rivals=tuple(replace(rival, truncated=rival.series in cut_short) for rival in least.rivals),
        above=tuple(min(others, key=lambda other: other.margin) for others in above),
    )


def _beside_paper(results: Results) -> str:
    """Say our MAP beside the paper's at the shortest and the longest code for which it printed one."""
    pairs = []
    for dataset in results.datasets:
        where = {"dataset": dataset, "protocol": "paper"}
        both = [
            f"{write(found.value)} where the paper has {write(printed.value)} ({title(dataset)}, {bits} bits)"
            for bits in results.lengths(series=OURS[0], **where)
            if (found := results.mean("map", OURS[0], bits, **where))
            and (printed := published_map(dataset, "sq", bits))
        ]
        pairs += both[:1] + both[1:][-1:]
    return f"sq reaches MAP {', '.join(pairs)}." if pairs else ""


def _stand_ins(results: Results) -> list[str]:
    """Say our MAP where another data set stands in for one of the paper, and how they differ."""
    sentences = []
    for dataset in (name for name in results.datasets if name in STAND_INS):
        where = {"dataset": dataset, "protocol": "paper"}
        theirs = STAND_INS[dataset]
        pairs = [
            f"{write(found.value)} at {bits} bits (the paper on {title(theirs.dataset)}: {write(printed.value)})"
            for bits in results.lengths(series=OURS[0], **where)
            if (found := results.mean("map", OURS[0], bits, **where))
            and (printed := published_map(theirs.dataset, "sq", bits))
        ]
        if pairs:
            said = f"On other data, {title(dataset)}, sq reaches MAP {', '.join(pairs)}."
            sentences.append(f"{said} {theirs.difference}")
    return sentences


def _facts(results: Results) -> list[tuple[str, str]]:
    machines = Counter(machine_of(cell) for cell in results.cells)
    truncated = sum(cell.truncated for cell in results.cells)
    missing = sum(len(bits) for methods in missing_cells(results).values() for _, bits in methods)
    seeds = sorted({cell["seed"] for cell in results.cells})
    return [
        ("cells measured", f"{len(results.cells):,}"),
        ("time they took", write(time_spent(results.cells), "time")),
        ("seeds", ", ".join(map(str, seeds)) or "none"),
        ("stopped at the time limit", f"{truncated:,}"),
        ("failed", f"{len(results.failures):,}"),
        ("not measured", f"{missing:,} cells of the comparison, protocol “paper”"),
        ("data sets", ", ".join(title(dataset) for dataset in results.datasets) or "none"),
        (
            "machines",
            "; ".join(f"{name} ({count:,} cells)" for name, count in sorted(machines.items())) or "none",
        ),
    ]
