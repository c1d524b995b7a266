"""Report: the sections in order, each with its figures and tables, or with the command that measures what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from supquant_lab.paper import comparisons, figures, measurements, provenance
from supquant_lab.paper.headline import lead_sentences, missing_cells, missing_command, verdict_sentences
from supquant_lab.paper.plan import KERNEL_FREE_DATASETS
from supquant_lab.paper.published import LENGTHS, STAND_INS
from supquant_lab.paper.results import Results, Series, title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from supquant_lab.paper.drawing import Figure
    from supquant_lab.paper.tables import Table


@dataclass(frozen=True)
class Part:
    """A part of a section.

    Attributes
    ----------
    title : str
    words : tuple of str
        Paragraphs.
    points : tuple of str
        Entries of a list.
    figures : tuple of Figure
    tables : tuple of Table
    folded : bool
        Whether the tables are hidden until the reader opens them.
    samples : mapping, optional
        Sample queries with their answers, as a samples file has them.
    missing : tuple of str
        Commands that measure what is missing.
    """

    title: str = ""
    words: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: bool = False
    samples: Mapping[str, Any] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of the report; `name` is that of its anchor on the page."""

    name: str
    title: str
    words: tuple[str, ...]
    parts: tuple[Part, ...]


PROTOCOLS = {
    "unlabelled": "Of the rows that are not queries, one half trains. The other half is the database, encoded without "
    "its labels.",
    "unseen": "The last 30% of the classes are not in the training rows. All queries and items belong to these classes, "
    "and no item has a label.",
}
"""What each protocol means, in the words of the report."""

CURVE_BITS = 64
"""Code length of the precision curves: the longest code that was measured with all seeds."""

CONVERGENCE_DATASET = "coco30k"
"""The data set of the convergence curves, unless another one has more of the two curves."""

CONVERGENCE_BITS = 16
"""Code length of the convergence curves."""

TWO_RANKINGS_NOTE = (
    "Ours has two rankings. The ranking by distance uses the published features, and all methods have the same anchors. The "
    "label ranking, the default of the library, uses its own features with up to 4,000 anchors. It is compared with a "
    "classifier that has 4,000 anchors too."
)

NO_KERNEL_NOTE = (
    "These vectors are features of a network. Only `sdh` and `ksh` use kernel features of them. The label ranking uses its "
    "own features here too. The other methods use the vectors without change."
)


def sections(results: Results) -> list[Section]:
    """Return all sections."""
    return [
        _standings(results),
        _maps(results),
        _times(results),
        _triplets(results),
        _transforms(results),
        _penalties(results),
        _convergence(results),
        _without_labels(results),
        _curves(results),
        _sizes(results),
        _samples(results),
        _provenance(results),
    ]


def _standings(results: Results) -> Section:
    table = comparisons.standing_table(results, "paper")
    words: tuple[str, ...] = (
        (
            "“Learned” codes were made in training, with the labels of the database. “Encoded” codes were made again "
            "from the vectors alone. The two kinds are never compared with each other. Ours is `sq` with the joint "
            "solver. Encoded rows are training rows here too. Section 7 has items that training did not see."
        ),
        (
            "All methods have the same queries and the same database, so differences between methods vary less than MAP "
            "itself. With a thousand queries, a difference in the fourth decimal place means nothing."
        ),
    )
    if len(results.ours) > 1:
        words += (TWO_RANKINGS_NOTE,)
    beside = comparisons.ablation_table(
        results,
        "beside-paper",
        "MAP of sq and the MAP that the paper printed, both solvers, learned codes.",
        (Series("sq", solver="alternating"),),
        needs="sq",
        datasets=[name for name in results.datasets if comparisons.is_in_paper(name)],
    )
    found = tuple(each for each in (table, beside) if each is not None)
    parts = [Part(tables=found) if found else _missing(results, "sq")]
    absent = missing_cells(results)
    if absent:
        parts.append(
            Part(
                "What was not measured",
                missing=_unique(
                    missing_command(dataset, method, bits)
                    for dataset, methods in absent.items()
                    for method, bits in methods
                ),
                folded=True,
            )
        )
    return Section("standing", "Where ours stands", words, tuple(parts))


def _maps(results: Results) -> Section:
    parts = [
        Part(
            title(dataset),
            words=_about(dataset),
            figures=_drawn(
                figures.map_figure(results, dataset, "paper", codes) for codes in ("learned", "encoded")
            ),
            tables=(comparisons.map_table(results, dataset, "paper"),),
        )
        for dataset in results.datasets
        if results.select(dataset=dataset, protocol="paper")
    ]
    words = (
        "The database is the training set, as published. The figures show the mean average precision of every "
        "method by code length. A colour stands for a family: ours and its variants, quantizers without labels, "
        "hashing, and classifiers. Dotted lines are methods that store floats. Lines are means over the splits "
        "(seeds) that all points of a figure have. Tables are means over all splits."
    )
    return Section("map", "1. Accuracy by code length", (words,), tuple(parts) or (_missing(results, "sq"),))


def _about(dataset: str) -> tuple[str, ...]:
    """Return what else a reader should know of a data set."""
    other = (STAND_INS[dataset].difference,) if dataset in STAND_INS else ()
    return (*other, NO_KERNEL_NOTE) if dataset in KERNEL_FREE_DATASETS else other


def _times(results: Results) -> Section:
    words = (
        "The time is that of a single query on one thread. Hashing encodes the query and scans. Composite "
        "quantization makes tables and scans. Supervised quantization computes kernel features first: with 1,000 "
        "anchors as published, and with up to 4,000 anchors for the label ranking. If the vectors are features of "
        "a network, the ranking by distance has no kernel features. MAP depends on how the codes of the database "
        "were made, and the time does not."
    )
    found = measurements.timed_results(results)
    if found is None:
        return Section("time", "2. Accuracy against query time", (words,), (_missing(results, "sq"),))
    timed, machine = found
    parts = [
        Part(
            figures=_drawn(
                figures.time_figure(results, timed, dataset, codes)
                for dataset in timed.datasets
                for codes in ("learned", "encoded")
            ),
            missing=_unique(
                missing_command(dataset, series.method, list(LENGTHS))
                for dataset in timed.datasets
                for series in measurements.TIMED_SERIES
                if not timed.select(series=series, dataset=dataset, protocol="paper")
            ),
        ),
        Part(
            tables=tuple(
                measurements.time_table(results, timed, dataset, machine) for dataset in timed.datasets
            ),
            folded=True,
        ),
    ]
    return Section("time", "2. Accuracy against query time", (words,), tuple(parts))


def _triplets(results: Results) -> Section:
    words = ("The published formulation classifies decoded vectors. The alternative ranks triplets of them.",)
    table = comparisons.ablation_table(
        results,
        "triplet-loss",
        "MAP with classification loss (sq) and with triplet loss (sq-triplet), learned codes.",
        (Series("sq", solver="alternating"), Series("sq-triplet")),
        needs="sq-triplet",
    )
    part = Part(tables=(table,)) if table else _missing(results, "sq-triplet")
    return Section("triplet", "3. Classification against triplet loss", words, (part,))


def _transforms(results: Results) -> Section:
    words = ("Without the learned projection, codes approximate the features themselves.",)
    table = comparisons.ablation_table(
        results,
        "transform",
        "MAP with the learned transform (sq) and without it (sq-no-transform), learned codes.",
        (
            Series("sq", solver="alternating"),
            Series("sq-no-transform"),
            Series("sq-no-transform", projection="pca"),
            Series("sq-no-transform", solver="alternating"),
        ),
        needs="sq-no-transform",
    )
    part = Part(tables=(table,)) if table else _missing(results, "sq-no-transform")
    return Section("transform", "4. With and without the learned transform", words, (part,))


def _penalties(results: Results) -> Section:
    words = (
        "Gamma is the weight of the error between codes and projected vectors. Mu is the weight of the variation of "
        "the products between the codewords of an item. As published, validation queries are training rows that stay "
        "in the database. So MAP is higher here than for separate queries."
    )
    part = Part(
        points=tuple(
            f"{measurements.sweep_title(sweep)}: {measurements.sweep_words(sweep)}"
            for sweep in results.sweeps
        ),
        figures=_drawn(figures.sweep_figure(results, sweep) for sweep in results.sweeps),
        tables=tuple(measurements.sweep_table(results, sweep) for sweep in results.sweeps),
        folded=True,
    )
    parts = (part,) if results.sweeps else (Part(missing=("supquant paper --only penalties",)),)
    return Section("penalties", "5. Accuracy over gamma and mu", (words,), parts)


def _convergence(results: Results) -> Section:
    bits = CONVERGENCE_BITS
    curves = {name: measurements.convergence_cells(results, name, bits) for name in results.datasets}
    dataset = max(
        results.datasets,
        key=lambda name: (len(curves[name]), name == CONVERGENCE_DATASET),
        default=CONVERGENCE_DATASET,
    )
    cells = curves.get(dataset, [])
    solvers = {cell["parameters"].get("solver", "joint") for cell in cells}
    missing = _unique(
        missing_command(dataset, "sq", [bits], solver=solver)
        for solver in ("joint", "alternating")
        if solver not in solvers
    )
    part = Part(missing=missing)
    if cells:
        drawn = tuple(figures.convergence_figure(results, cells, by) for by in ("iterations", "seconds"))
        part = Part(figures=drawn, tables=(measurements.convergence_table(cells),), missing=missing)
    words = (
        (
            "`alternating` takes the published steps in turn. `joint` computes classifier, projection and constant in "
            "closed form and solves for the codebooks."
        ),
        *measurements.convergence_words(results, cells),
    )
    return Section("convergence", "6. Convergence of both solvers", words, (part,))


def _without_labels(results: Results) -> Section:
    parts = []
    for protocol, told in PROTOCOLS.items():
        present = [name for name in results.datasets if results.select(dataset=name, protocol=protocol)]
        if not present:
            parts.append(
                replace(_missing(results, "sq", protocol), title=protocol.capitalize(), words=(told,))
            )
            continue
        table = comparisons.standing_table(results, protocol)
        parts += [
            Part(
                protocol.capitalize(),
                (told,),
                points=(*lead_sentences(results, protocol), *verdict_sentences(results, protocol)),
                tables=(table,) if table else (),
            ),
            Part(
                figures=_drawn(
                    figures.map_figure(results, dataset, protocol, "encoded") for dataset in present
                ),
                tables=tuple(comparisons.map_table(results, dataset, protocol) for dataset in present),
                folded=True,
            ),
        ]
    words = (
        "The paper did not measure items without labels. Under `unlabelled`, new items belong to the classes of "
        "training. Under `unseen`, they belong to other classes. For comparison, `classifier-scores` stores float "
        "scores of every item."
    )
    return Section("without-labels", "7. Items without labels", (words,), tuple(parts))


def _curves(results: Results) -> Section:
    parts = []
    for dataset in results.datasets:
        for protocol in ("paper", "unlabelled"):
            where = {"dataset": dataset, "protocol": protocol}
            lengths = results.lengths(**where)
            if not lengths:
                continue
            bits = CURVE_BITS if CURVE_BITS in lengths else lengths[-1]
            parts.append(
                Part(
                    f"{title(dataset)}, {protocol}",
                    figures=_drawn(
                        (
                            figures.precision_figure(results, dataset, protocol, bits),
                            figures.recall_figure(results, dataset, protocol, bits),
                        )
                    ),
                    tables=(measurements.precision_table(results, dataset, protocol, bits),),
                    folded=True,
                )
            )
    words = (
        "Under `paper`, the codes are those that the papers of each method report: learned codes for quantizers and "
        "`classifier`, encoded codes for hashing. Compare only codes of one kind. Under `unlabelled`, all codes are "
        "made from the vectors alone."
    )
    return Section("curves", "Precision", (words,), tuple(parts) or (_missing(results, "sq"),))


def _sizes(results: Results) -> Section:
    parts = tuple(
        Part(title(dataset), tables=(measurements.size_table(results, dataset),), folded=True)
        for dataset in results.datasets
        if results.select(dataset=dataset, protocol="paper")
    )
    words = (
        "If there are few distinct codes, many items have equal scores. Learned codes of `sq` may only tell classes apart.",
    )
    return Section("size", "Size of an index, time of a fit", words, parts or (_missing(results, "sq"),))


def _samples(results: Results) -> Section:
    parts = tuple(
        Part(title(sample["dataset"]), samples=sample, words=tuple(filter(None, (sample.get("note"),))))
        for sample in results.samples
    )
    words = (
        "Each query is shown with its first answers, nearest first. ✓ shares a label with the query, ✗ does not.",
    )
    return Section(
        "samples", "Sample queries", words, parts or (Part(missing=("supquant paper --only samples",)),)
    )


def _provenance(results: Results) -> Section:
    parts = [Part(tables=(provenance.machines_table(results), provenance.splits_table(results)))]
    if results.failures:
        parts.append(Part("What failed", tables=(provenance.failures_table(results),)))
    parts += [
        Part(
            f"{title(dataset)}: {len(cells):,} cells, {provenance.time_words(cells)}",
            tables=(
                provenance.cells_table(
                    cells,
                    f"cells-{results.slug(dataset)}",
                    f"Every cell of {title(dataset)} and the command that makes it.",
                ),
            ),
            folded=True,
        )
        for dataset in results.datasets
        if (cells := sorted(results.select(dataset=dataset), key=provenance.cell_order))
    ]
    words = (
        "Every measured number in the tables and figures is a field of a result file, or the mean of a field over "
        "seeds. Only the numbers of the paper were typed."
    )
    return Section("how", "How each number was made", (words,), tuple(parts))


def _drawn(drawings: Iterable[Figure | None]) -> tuple[Figure, ...]:
    """Return the figures without those that had nothing to draw."""
    return tuple(figure for figure in drawings if figure is not None)


def _unique(commands: Iterable[str]) -> tuple[str, ...]:
    """Return the commands without repetitions: one command may measure many cells."""
    return tuple(dict.fromkeys(commands))


def _missing(results: Results, method: str, protocol: str = "paper") -> Part:
    """Return a part that names the command to run, for the first data set that there is."""
    dataset = next(iter(results.datasets), "mnist")
    return Part(missing=(missing_command(dataset, method, list(LENGTHS), protocol),))
