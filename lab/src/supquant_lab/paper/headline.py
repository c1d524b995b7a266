"""Report: the findings, as sentences that are computed from the cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from supquant_lab.grid.tasks import command
from supquant_lab.methods import METHODS
from supquant_lab.paper.measurements import machine_of
from supquant_lab.paper.plan import COMPARED, DATASETS, OPTIONAL_DATASETS
from supquant_lab.paper.provenance import time_spent
from supquant_lab.paper.published import STAND_INS, published_map
from supquant_lab.paper.results import LENGTH_FREE, OURS, Results, Series, title
from supquant_lab.paper.standing import Codes, Standing, margin_text, standing
from supquant_lab.paper.tables import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ITEM_OF_METHOD = {"sq-triplet": "triplet", "sq-no-transform": "transform"}
"""The item of the plan that a method belongs to, if it is not the comparison of all methods."""

CODES: tuple[Codes, ...] = ("learned", "encoded")


@dataclass(frozen=True)
class Headline:
    """The first screen of the report.

    Attributes
    ----------
    lead : tuple of str
        The number of comparisons in which ours is first, by kind of codes and ranking.
    with_paper : str
        Our MAP next to the paper's, at the shortest and the longest code for which the paper printed one.
    stand_ins : tuple of str
        Our MAP on data sets that stand in for those of the paper, and how these differ.
    verdicts : tuple of str
        One sentence for each data set, kind of codes and ranking.
    facts : tuple of pairs
        Names and values: what was measured, where, and what is missing.
    example : Example or None
        A query with its answers; None if no samples were measured.
    """

    lead: tuple[str, ...]
    with_paper: str
    stand_ins: tuple[str, ...]
    verdicts: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    example: Example | None


@dataclass(frozen=True)
class Example:
    """A query with its answers, as a samples file has them, and the length of the codes in bits."""

    query: Mapping[str, Any]
    bits: int


def headline(results: Results) -> Headline:
    """Return the first screen of the report."""
    return Headline(
        lead=tuple(lead_sentences(results, "paper")) or ("There is nothing to compare yet.",),
        with_paper=_with_paper(results),
        stand_ins=tuple(_stand_ins(results)),
        verdicts=tuple(verdict_sentences(results, "paper")),
        facts=tuple(_facts(results)),
        example=_typical_query(results),
    )


def lead_sentences(results: Results, protocol: str) -> list[str]:
    """Return a sentence for each kind of codes and ranking: how often ours is first, and how far behind it is at worst."""
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
    """Return a sentence for each data set, kind of codes and ranking: where ours is first, and where it is not."""
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
    """Return, by data set, the methods of the comparison and the lengths at which they have no cell under protocol `paper`.

    Only lengths at which some cell of the data set was measured count.
    """
    missing: dict[str, list[tuple[str, list[int]]]] = {}
    for dataset in results.datasets:
        lengths = results.lengths(dataset=dataset, protocol="paper")
        for method in [name for name in METHODS if name in COMPARED]:
            measured = set(results.lengths(dataset=dataset, method=method, protocol="paper"))
            absent = [bits for bits in lengths if bits not in measured]
            if absent and not (measured and method in LENGTH_FREE):
                missing.setdefault(dataset, []).append((method, absent))
    return missing


def missing_command(
    dataset: str, method: str, bits: list[int], protocol: str = "paper", solver: str = ""
) -> str:
    """Return the command that measures what is missing. For data sets of the plan it runs that item of the plan.

    Examples
    --------
    >>> missing_command("mnist", "sq-triplet", [16, 32])
    'supquant paper --only triplet --dataset mnist'
    >>> missing_command("photos.npz", "sdh", [16, 32])
    'supquant experiment --dataset photos.npz --method sdh --bits 16,32 --protocol paper --out-dir cells'
    """
    if dataset in (*DATASETS, *OPTIONAL_DATASETS):
        item = ITEM_OF_METHOD.get(method, "map" if protocol == "paper" else protocol)
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
    """Return words for the ranking, if ours was measured under more than one."""
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
    """Return in words how often ours is first, the data sets where it always is, and the worst of the other comparisons."""
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
        at_worst = "at worst " if counts["behind"] > 1 else ""
        by = f"{margin_text(-worst.margin)} behind {worst.series.label}"
        parts.append(f"not first in {counts['behind']}, {at_worst}{by}")
    kin = [other for each in found for other in each.above if other.series.method == "sq"]
    if kin:
        most = min(kin, key=lambda other: other.margin)
        parts.append(f"{most.series.label} is above it in {len(kin)}, by at most {margin_text(-most.margin)}")
    return "; ".join(parts)


def _verdicts(found: Mapping[int, Standing]) -> str:
    """Return the verdicts in words; lengths with the same verdict against the same rival share a clause."""

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
    """Return the standing with the smallest margin; what limits the others is added to it."""
    least = min(found, key=lambda each: each.rivals[0].margin if each.rivals else 0.0)
    by_name = (sorted(each.above, key=lambda other: other.series.label) for each in found)
    above = zip(*by_name, strict=True)
    cut_short = {rival.series for each in found for rival in each.rivals if rival.truncated}
    return replace(
        least,
        rivals=tuple(replace(rival, truncated=rival.series in cut_short) for rival in least.rivals),
        above=tuple(min(others, key=lambda other: other.margin) for others in above),
    )


def _with_paper(results: Results) -> str:
    """Return our MAP next to the paper's, at the shortest and the longest code for which the paper printed one."""
    pairs = []
    for dataset in results.datasets:
        found = [
            f"{write(ours)} where the paper has {write(theirs)} ({title(dataset)}, {bits} bits)"
            for bits, ours, theirs in _ours_and_theirs(results, dataset, dataset)
        ]
        pairs += found[:1] + found[1:][-1:]
    return f"sq reaches MAP {', '.join(pairs)}." if pairs else ""


def _stand_ins(results: Results) -> list[str]:
    """Return our MAP on every data set that stands in for one of the paper, and how the two differ."""
    sentences = []
    for dataset in (name for name in results.datasets if name in STAND_INS):
        stand_in = STAND_INS[dataset]
        pairs = [
            f"{write(ours)} at {bits} bits (the paper on {title(stand_in.dataset)}: {write(theirs)})"
            for bits, ours, theirs in _ours_and_theirs(results, dataset, stand_in.dataset)
        ]
        if pairs:
            said = f"On other data, {title(dataset)}, sq reaches MAP {', '.join(pairs)}."
            sentences.append(f"{said} {stand_in.difference}")
    return sentences


def _ours_and_theirs(results: Results, dataset: str, published: str) -> list[tuple[int, float, float]]:
    """Return bits, our MAP on a data set, and the paper's MAP on one of its own, where both are known."""
    where = {"dataset": dataset, "protocol": "paper"}
    return [
        (bits, found.value, printed.value)
        for bits in results.lengths(series=OURS[0], **where)
        if (found := results.mean("map", OURS[0], bits, **where))
        and (printed := published_map(published, "sq", bits))
    ]


def _typical_query(results: Results) -> Example | None:
    """Return the query of the first sample for which the first method is right about as often as on average."""
    if not results.samples or not results.samples[0]["queries"]:
        return None
    sample = results.samples[0]
    right = [sum(found["right"] for found in query["answers"][0]["results"]) for query in sample["queries"]]
    average = sum(right) / len(right)
    typical = min(range(len(right)), key=lambda row: abs(right[row] - average))
    return Example(sample["queries"][typical], sample["bits"])


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
