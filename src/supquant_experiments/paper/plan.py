"""Report: which cells the tables and figures of the paper, and ours beyond it, are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from supquant.errors import InputError
from supquant.features.label_kernel import MOST_ANCHORS
from supquant_experiments.datasets import data_folder
from supquant_experiments.grid import CellsTask, SamplesTask, SweepTask, Task
from supquant_experiments.grid.task import command

ITEMS = {
    "map": "MAP by code length, all methods",
    "query-time": "MAP against query time of sq, cq and sdh",
    "triplet": "classification against triplet loss",
    "transform": "with and without the learned transform",
    "penalties": "MAP over gamma and mu",
    "convergence": "convergence of both solvers",
    "unlabelled": "the comparison for items without labels",
    "unseen": "the comparison for classes that nothing was trained on",
    "samples": "sample queries as pictures",
}
"""What can be asked for, and what it is."""

LENGTHS = (16, 32, 64, 128)
ENDS = (16, 64)
"""Two lengths say enough where the paper has no figure of its own."""

SEEDS = (0, 1, 2)
SEVERAL_SEEDS = ("sq", "sdh", "cca-itq", "pq", "classifier", "classifier-scores", "euclidean")
"""Cheap enough for three seeds; the others have one, and so has everything at 128 bits."""

COMPARED = (
    *SEVERAL_SEEDS,
    "sdh-linear",
    "ssh",
    "classifier-bits",
    "fasthash",
    "mlh",
    "bre",
    "ksh",
    "cq",
)
TIMED = ("sq", "cq", "sdh")
CHAINED = ("sq", "sq-triplet", "sq-no-transform")
LENGTH_DOES_NOT_MATTER = ("euclidean", "cosine", "classifier", "classifier-scores", "probabilities")

SINGLE_LABEL = ("mnist", "cifar10")
WHOLE = ("mnist", "cifar10", "coco30k")
"""Data sets with all lengths."""
DATASETS = (*WHOLE, "coco30k-noperson")
IF_THERE = {"imagenet": "imagenet", "nuswide": "nuswide", "tinyimagenet-1500": "tinyimagenet_effnet.npz"}
"""Data sets that join in where their folder or file is in the data folder."""

N_ROWS = {
    "mnist": 70_000,
    "cifar10": 60_000,
    "coco30k": 30_000,
    "coco30k-noperson": 15_925,
    "tinyimagenet-1500": 110_000,
    "digits": 1_797,
}

THREE_SEEDS = {"tinyimagenet-1500": ("sq",)}
"""On these data sets only these methods have three seeds; on others those of `SEVERAL_SEEDS` have them."""

ALTERNATING: Mapping[str, Mapping[str, Any]] = {
    "cifar10": {"quantization_weight": 1e-3},
    "digits": {"max_iter": 3},
}
"""Gamma (and mu) that validation on training rows finds for the alternating solver, where they are not the default."""

NO_TRANSFORM: Mapping[str, Mapping[str, Any]] = {"cifar10": {"quantization_weight": 1e-4}}
"""The same where P is fixed."""

ANCHORED = ("mnist", "cifar10", "coco30k", "coco30k-noperson", "tinyimagenet-1500")
MORE = f"{MOST_ANCHORS}-anchors"
"""Where the library's own features have so many anchors, four times those of the comparison, the classifier has them too."""

SEVERAL_LABELS: Mapping[str, Any] = {"tol": 0.3}
"""Of the joint solver where rows have several labels: each of the last rounds takes twice as long as the one before it, and MAP
moves no more. COCO-30k without *person* has 0.270 at 16 bits after the 7 rounds that this takes, 0.268 after 12 (28 s and 202 s);
at 64 bits 0.270 after one round, 0.268 after 7 (12 s and 600 s)."""

CURVES = "curves"
"""Where cells are that were measured for their convergence: fits that end by themselves."""

IMAGENET: Mapping[str, Mapping[str, Any]] = {"cq": {"n_components": 256}}
"""CQ is published there after PCA; Tiny-ImageNet, which stands in for it, has 256 columns as it is."""

WITHOUT_KERNEL = ("imagenet", "tinyimagenet-1500")
"""Data sets of network features: `sdh` and `ksh` have the kernel there; sq, sdh-linear and the classifier are without it."""

SECONDS = {
    "sq": (20, 0.4),
    "sq-alternating": (30, 0.6),
    "sq-semantic": (50, 1.0),
    "sq-triplet": (400, 3.0),
    "sq-no-transform": (60, 1.0),
    "sdh": (2, 0.15),
    "sdh-linear": (1, 0.05),
    "cca-itq": (1, 0.05),
    "pq": (15, 0.3),
    "opq": (90, 1.5),
    "cq": (30, 4.5),
    "classifier": (5, 0),
    "classifier-scores": (5, 0),
    "probabilities": (66, 0),
    f"classifier-{MORE}": (40, 0),
    f"classifier-scores-{MORE}": (40, 0),
    "classifier-bits": (5, 0),
    "euclidean": (1, 0),
    "cosine": (1, 0),
    "ssh": (5, 0.2),
    "fasthash": (5, 1.8),
    "mlh": (5, 2.2),
    "bre": (10, 2.7),
    "ksh": (5, 2.9),
}
"""Of a fit to 60,000 rows on two cores: so many, and so many more for each bit."""

PAIRWISE = ("ssh", "fasthash", "mlh", "bre", "ksh")
"""Methods that learn from 5,000 rows however many there are."""

SEVERAL_LABELS_TIMES = 3
"""As long takes a joint fit to several labels a row."""

QUICKLY: Mapping[str, Mapping[str, Any]] = {
    "cq": {"max_iter": 3},
    "ksh": {"max_iter": 50},
    "fasthash": {"n_trees": 50},
    "mlh": {"n_epochs": 10},
    "bre": {"max_iter": 10},
    "sq-triplet": {"max_iter": 2},
}
"""What methods are told in the small version."""

MEASURING_SECONDS = 6  # of a cell, beside its fit


def paper_tasks(items: Sequence[str] | None = None, datasets: Sequence[str] | None = None) -> list[Task]:
    """Give the tasks of the full comparison.

    Parameters
    ----------
    items : sequence of str, optional
        Names in `ITEMS`; all by default.
    datasets : sequence of str, optional
        By default those of `DATASETS`, and those of `IF_THERE` whose files are in the data folder.

    Examples
    --------
    >>> [task.name for task in paper_tasks(["triplet"], ["mnist"])]
    ['mnist-paper-sq-triplet-euclidean 16,32,64,128 bits seed 0']
    """
    items = tuple(ITEMS) if items is None else items
    if unknown := [item for item in items if item not in ITEMS]:
        raise InputError(f"nothing is called {unknown[0]!r}; there are {', '.join(ITEMS)}")
    if unknown := [name for name in datasets or () if name not in (*DATASETS, *IF_THERE)]:
        raise InputError(
            f"unknown data set {unknown[0]!r}: expected some of {', '.join((*DATASETS, *IF_THERE))}"
        )
    if datasets is None:
        datasets = (*DATASETS, *(name for name, file in IF_THERE.items() if (data_folder() / file).exists()))
    tasks: list[Task] = []
    for dataset in datasets:
        single = dataset in SINGLE_LABEL
        lengths = ENDS if dataset == "coco30k-noperson" else LENGTHS
        if "map" in items:
            tasks += _comparison(dataset, "paper", lengths, COMPARED)
            tasks += _comparison(dataset, "paper", ENDS, ["opq"])  # which the paper does not compare with
            tasks += _alternating(dataset, lengths)
            tasks += _by_meaning(dataset, "paper")
        if "query-time" in items:
            tasks += _comparison(dataset, "paper", lengths, TIMED, seeds=SEEDS[:1])
            tasks += _cells(dataset, "sq", ENDS, ranking="semantic")
        if "triplet" in items and single:
            tasks += _cells(dataset, "sq-triplet", LENGTHS)
        if "transform" in items and single:
            tasks += _cells(dataset, "sq-no-transform", LENGTHS, parameters=NO_TRANSFORM.get(dataset, {}))
        if "penalties" in items and dataset in WHOLE:
            tasks.append(
                SweepTask(
                    dataset,
                    training_rows=20_000 if single else 5_000,  # fits to several labels take longer
                    parameters={} if single else SEVERAL_LABELS,
                    command=command("paper", only="penalties", dataset=dataset),
                    expected_seconds=2400.0 if single else 400.0,
                )
            )
        if "convergence" in items and dataset == "coco30k":
            tasks += [*_cells(dataset, "sq", (16,), folder=CURVES), *_alternating(dataset, (16,))]
        if "unlabelled" in items and dataset not in IF_THERE:
            tasks += _comparison(dataset, "unlabelled", ENDS, COMPARED)
            tasks += _by_meaning(dataset, "unlabelled")
        if "unseen" in items and single:
            tasks += _comparison(dataset, "unseen", ENDS, COMPARED)
            tasks += _by_meaning(dataset, "unseen")
        if "samples" in items and dataset == "mnist":
            again = command("paper", only="samples", dataset=dataset)
            tasks.append(SamplesTask(dataset, command=again, expected_seconds=60.0))
    return _once(tasks)


def quick_tasks() -> list[Task]:
    """Give the tasks of a small version, on the digits that come with scikit-learn; under five minutes on two cores.

    Examples
    --------
    >>> len({task.name for task in quick_tasks()}) == len(quick_tasks())
    True
    """
    few: dict[str, Any] = {"anchors": 200}
    tasks: list[Task] = []
    for method in (*COMPARED, "opq"):
        tasks += _cells("digits", method, (16, 32), parameters=QUICKLY.get(method), **few)
        for protocol in ("unlabelled", "unseen"):
            tasks += _cells("digits", method, (16,), parameters=QUICKLY.get(method), protocol=protocol, **few)
    tasks += _alternating("digits", (16, 32), **few)
    for protocol in ("paper", "unlabelled", "unseen"):
        tasks += _by_meaning("digits", protocol, lengths=(16,), seeds=SEEDS[:1])
    for method in ("sq-triplet", "sq-no-transform"):
        tasks += _cells("digits", method, (16, 32), parameters=QUICKLY.get(method), **few)
    few["command"] = command("paper", quick=True)
    sweep = SweepTask("digits", training_rows=500, parameters={"max_iter": 2}, expected_seconds=30.0, **few)
    tasks += [sweep, SamplesTask("digits", expected_seconds=1.0, **few)]
    return _once(tasks)


def _comparison(
    dataset: str,
    protocol: str,
    lengths: Sequence[int],
    methods: Iterable[str],
    seeds: Sequence[int] = SEEDS,
) -> list[Task]:
    """Give every method at every length; several seeds for the cheap ones at all but 128 bits."""
    tasks: list[Task] = []
    for method in methods:
        for seed in (each for each in seeds if _has_seed(dataset, method, each)):
            shown = lengths if seed == 0 or dataset in IF_THERE else [bits for bits in lengths if bits < 128]
            tasks += _cells(dataset, method, shown, protocol=protocol, seed=seed)
    return tasks


def _by_meaning(
    dataset: str, protocol: str, *, lengths: Sequence[int] = ENDS, seeds: Sequence[int] = SEEDS
) -> list[Task]:
    """Give ours as the library has it, and the classifier on as many anchors: labels, and scores where items have none."""
    tasks: list[Task] = []
    for seed in seeds:
        where: dict[str, Any] = {"protocol": protocol, "seed": seed}
        tasks += _cells(dataset, "sq", lengths, ranking="semantic", **where)
        if dataset in ANCHORED:
            for method in ("classifier",) if protocol == "paper" else ("classifier", "classifier-scores"):
                if _has_seed(dataset, method, seed):
                    tasks += _cells(dataset, method, lengths, variant=MORE, anchors=MOST_ANCHORS, **where)
    return tasks


def _has_seed(dataset: str, method: str, seed: int) -> bool:
    return seed == SEEDS[0] or method in THREE_SEEDS.get(dataset, SEVERAL_SEEDS)


def _alternating(dataset: str, lengths: Sequence[int], **options: Any) -> list[Task]:
    parameters = {"solver": "alternating", **ALTERNATING.get(dataset, {})}
    return _cells(dataset, "sq", lengths, variant="alternating", parameters=parameters, **options)


def _cells(
    dataset: str,
    method: str,
    lengths: Sequence[int],
    *,
    variant: str = "",
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Task]:
    """Give one task for a chain, or for methods whose length does not matter; else one for each length."""
    if dataset == "imagenet":
        parameters = {**IMAGENET.get(method, {}), **(parameters or {})}
    if dataset in WITHOUT_KERNEL and options.get("ranking") != "semantic":  # which has features of its own
        options = {"anchors": 1000 if method in ("sdh", "ksh") else 0, **options}
    by_distance = method == "sq" and not variant and options.get("ranking") != "semantic"
    if by_distance and _several_labels(dataset) and options.get("folder") != CURVES:
        parameters = {**SEVERAL_LABELS, **(parameters or {})}
    together = method in (*CHAINED, *LENGTH_DOES_NOT_MATTER)
    return [
        CellsTask(
            dataset,
            method,
            tuple(bits),
            variant=variant,
            parameters=parameters or {},
            expected_seconds=sum(
                _seconds(dataset, "-".join(filter(None, (method, variant, options.get("ranking")))), each)
                for each in (bits[:1] if method in LENGTH_DOES_NOT_MATTER else bits)
            ),
            **options,
        )
        for bits in ([lengths] if together else [[each] for each in lengths])
    ]


def _seconds(dataset: str, method: str, bits: int) -> float:
    fixed, per_bit = SECONDS[method]
    if method == "sq" and _several_labels(dataset):
        fixed, per_bit = SEVERAL_LABELS_TIMES * fixed, SEVERAL_LABELS_TIMES * per_bit
    share = 1.0 if method in PAIRWISE and dataset != "digits" else N_ROWS.get(dataset, 200_000) / 60_000
    return share * (fixed + per_bit * bits) + MEASURING_SECONDS * N_ROWS.get(dataset, 200_000) / 60_000


def _several_labels(dataset: str) -> bool:
    return dataset.startswith(("coco30k", "nuswide"))


def _once(tasks: Iterable[Task]) -> list[Task]:
    """Leave out tasks whose files others write as well."""
    found: set[str] = set()
    kept = []
    for task in tasks:
        if not found.issuperset(task.outputs()):
            kept.append(task)
        found.update(task.outputs())
    return kept
