"""Report: the tables that compare methods by MAP, next to the paper's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant_lab.paper.published import DATASETS, STAND_INS, published_map
from supquant_lab.paper.published import METHODS as PUBLISHED_METHODS
from supquant_lab.paper.results import LENGTH_FREE, OURS, REFERENCES, Results, Series, title
from supquant_lab.paper.standing import Standing, margin_text, standing
from supquant_lab.paper.tables import MISSING, Entry, Row, Table, number, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supquant_lab.paper.results import Mean
    from supquant_lab.paper.standing import Codes

NOT_A_NUMBER = "not published as a number"
"""The words for a result that the paper shows only as a curve."""

OTHER_DATA_MARK = "‡"
"""The mark of a number that the paper measured on other data."""

SPREAD_NOTE = "± is half the range over the seeds; a number without it is of one seed."
"""The note below tables of means."""


def map_table(results: Results, dataset: str, protocol: str) -> Table:
    """Return the table of MAP by code length: learned codes, encoded codes, and the paper's numbers."""
    where = {"dataset": dataset, "protocol": protocol}
    lengths, lines = results.lengths(**where), results.series(**where)
    kinds: list[Codes] = ["learned", "encoded"] if protocol == "paper" else ["encoded"]
    with_paper = protocol == "paper" and is_in_paper(dataset)
    columns = {
        (codes, bits): {line: results.mean(f"map_{codes}", line, bits, **where) for line in lines}
        for codes in kinds
        for bits in lengths
    }
    best = {at: _best(column) for at, column in columns.items()}
    rows = []
    for line in lines:
        entries = [
            number(column[line], kind="best" if line in best[at] else "") for at, column in columns.items()
        ]
        paper = _published_entries(dataset, line, lengths) if with_paper else []
        rows.append(Row(Entry(line.label), [*entries, *paper], _row_kind(line)))
    said = [*kinds, *(["in the paper"] if with_paper else [])]
    return Table(
        f"map-{results.slug(dataset)}-{protocol}",
        f"MAP by code length, {title(dataset)}, protocol “{protocol}”. Bold: the best code of its column.",
        ["method", *(f"{bits} bits" for _ in said for bits in lengths)],
        rows,
        groups=[Entry(""), *(Entry(_group(codes, dataset), span=len(lengths)) for codes in said)],
        notes=_notes(lines, protocol, dataset),
    )


_GROUPS = {
    "learned": "learned with labels",
    "encoded": "encoded from vectors alone",
    "in the paper": "in the paper",
}


def _group(codes: str, dataset: str) -> str:
    if codes == "in the paper" and dataset in STAND_INS:
        return f"in the paper, {title(STAND_INS[dataset].dataset)}{OTHER_DATA_MARK}"
    return _GROUPS[codes]


def is_in_paper(dataset: str) -> bool:
    """Whether the paper's numbers are shown next to ours: the data set is one of the paper's, or stands in for one.

    Examples
    --------
    >>> [is_in_paper(name) for name in ("mnist", "tinyimagenet-1500", "digits")]
    [True, True, False]
    """
    return dataset in DATASETS or dataset in STAND_INS


def standing_table(results: Results, protocol: str) -> Table | None:
    """Return the table of our standings by data set, kind of codes, ranking and length; None without our cells."""
    lengths = results.lengths(protocol=protocol)
    rankings = {
        ours: [f"{ours.ranking or 'euclidean'} ranking"] if len(results.ours) > 1 else [] for ours in OURS
    }
    rows = []
    for dataset in results.datasets:
        for codes in ("learned", "encoded"):
            for ours in results.ours:
                standings = [
                    standing(results, ours, dataset=dataset, bits=bits, protocol=protocol, codes=codes)
                    for bits in lengths
                ]
                if any(standings):
                    head = Entry(title(dataset), ", ".join([codes, *rankings[ours]]))
                    rows.append(Row(head, [_standing_entry(each) for each in standings]))
    if not rows:
        return None
    return Table(
        f"standing-{protocol}",
        f"Where ours stands, protocol “{protocol}”: how far MAP is above (+) or below the strongest other code.",
        ["codes of ours (sq, joint)", *(f"{bits} bits" for bits in lengths)],
        rows,
        notes=[
            (
                "“First” means that every method was measured and that ours has the highest MAP, over the seeds that both "
                "methods have. “Ahead” means that some methods were not measured. `classifier` is one of the other "
                "methods. `euclidean` and `classifier-scores` store floats, and `sq (alternating)` is the same method with "
                "the published solver. These three are not compared here. The sentences with the table name them if they "
                "are above ours."
            ),
        ],
    )


def ablation_table(
    results: Results,
    name: str,
    caption: str,
    others: Sequence[Series],
    *,
    needs: str,
    datasets: Sequence[str] | None = None,
) -> Table | None:
    """Return the table of ours next to variants of it, learned codes, with the paper's numbers.

    Data sets on which the method `needs` was not measured are left out; without any other it is None.
    """
    lengths = results.lengths(protocol="paper")
    rows, differences = [], []
    for dataset in results.datasets if datasets is None else datasets:
        where = {"dataset": dataset, "protocol": "paper"}
        present = [line for line in (OURS[0], *others) if results.select(series=line, **where)]
        if needs not in {line.method for line in present}:
            continue
        differences += _other_data(dataset)
        for line in present:
            entries = [number(results.mean("map_learned", line, bits, **where)) for bits in lengths]
            head = Entry(line.label, title(dataset))
            rows.append(Row(head, [*entries, *_published_entries(dataset, line, lengths)], _row_kind(line)))
    if not rows:
        return None
    return Table(
        name,
        caption,
        ["method", *(f"{bits} bits" for _ in range(2) for bits in lengths)],
        rows,
        groups=[
            Entry(""),
            Entry("ours, learned with labels", span=len(lengths)),
            Entry("the paper", span=len(lengths)),
        ],
        notes=[SPREAD_NOTE, *differences],
    )


def _best(column: dict[Series, Mean | None]) -> set[Series]:
    values = {
        line: mean.value
        for line, mean in column.items()
        if mean is not None and line.method not in REFERENCES
    }
    return {line for line, value in values.items() if value == max(values.values())}


def _row_kind(line: Series) -> str:
    return "ours" if line.is_ours else "reference" if line.method in REFERENCES else ""


def _published_entries(dataset: str, line: Series, lengths: Sequence[int]) -> list[Entry]:
    """Return the paper's numbers, or one entry of words over all columns."""
    theirs = STAND_INS[dataset].dataset if dataset in STAND_INS else dataset
    numbers = {bits: published_map(theirs, line.method, bits) for bits in lengths}
    if line.ranking or theirs not in DATASETS or line.method not in PUBLISHED_METHODS:
        return [Entry("not in the paper", kind="words", span=len(lengths))]
    if not any(numbers.values()):
        return [Entry(NOT_A_NUMBER, kind="words", span=len(lengths))]
    entries = []
    for bits, found in numbers.items():
        if found is None:
            entries.append(Entry(MISSING, kind="missing", data={"published": NOT_A_NUMBER}))
            continue
        data = {"published": repr(found.value), "dataset": theirs, "method": line.method, "bits": str(bits)}
        marks = ("*" if found.derived else "") + (OTHER_DATA_MARK if theirs != dataset else "")
        entries.append(Entry(write(found.value) + marks, data=data, kind="published"))
    return entries


def _other_data(dataset: str) -> list[str]:
    """Return the note that explains `OTHER_DATA_MARK`, if the data set stands in for another."""
    return [f"{OTHER_DATA_MARK} {STAND_INS[dataset].difference}"] if dataset in STAND_INS else []


def _notes(lines: Sequence[Series], protocol: str, dataset: str) -> list[str]:
    notes = [SPREAD_NOTE]
    constant = [f"`{line.label}`" for line in lines if line.method in LENGTH_FREE]
    if constant:
        notes.append(f"The same at any length: {', '.join(constant)}.")
    if protocol == "paper" and is_in_paper(dataset):
        notes += _other_data(dataset)
        notes.append(
            "* The paper printed the distance to its SQ, from which this follows. "
            f"{MISSING} among the paper's numbers: {NOT_A_NUMBER}."
        )
    elif protocol == "paper":
        notes.append("The paper did not measure this data set.")
    return notes


def _standing_entry(found: Standing | None) -> Entry:
    if found is None:
        return Entry(MISSING, kind="missing")
    data = {"figure": "standing", "verdict": found.verdict, "sentence": found.sentence()}
    if found.verdict == "alone":
        return Entry("alone", "nothing to compare with", data, "ahead")
    best = found.rivals[0]
    data |= {"margin": repr(best.margin), "rival": best.series.label, "seeds": " ".join(map(str, best.seeds))}
    sign = "+" if best.margin > 0 else "\N{MINUS SIGN}"
    by = f"{sign}{margin_text(abs(best.margin))}".replace(f"{sign}<", f"<{sign}")
    text = {
        "first": f"first {by}",
        "ahead": f"ahead {by}",
        "level": "level",
        "behind": by,
    }[found.verdict]
    n_seeds = len(best.seeds)
    agreeing = f", {n_seeds - best.contrary} of {n_seeds} seeds" if best.contrary else ""
    return Entry(text, best.series.label + agreeing, data, found.verdict)
