"""Report: the cells that must be measured for the tables and figures of the paper, and for ours beyond it.

A plan knows a little of its data sets: those of the paper, and any other, such as your own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.model.label_kernel import MAX_ANCHORS
from supquant_lab.datasets import NAMES, data_folder
from supquant_lab.grid import CellsTask, SamplesTask, SweepTask, Task
from supquant_lab.grid.tasks import command, load_rows
from supquant_lab.methods import find_method, is_own
from supquant_lab.paper.results import LENGTH_FREE

if TYPE_CHECKING:
    from collections.abc import Sequence


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
"""The items of the plan, by the name that `supquant paper --only` takes."""

LENGTHS = (16, 32, 64, 128)
"""Code lengths of the paper, in bits."""

TWO_LENGTHS = (16, 64)
"""Code lengths in bits where the paper has no figure of its own."""

SEEDS = (0, 1, 2)
"""Seeds of splits and methods."""

THREE_SEED_METHODS = ("sq", "sdh", "cca-itq", "pq", "classifier", "classifier-scores", "euclidean")
"""Methods that are measured with three seeds; other methods, and all methods at 128 bits, have one seed."""

COMPARED = (
    *THREE_SEED_METHODS,
    "sdh-linear",
    "ssh",
    "classifier-bits",
    "fasthash",
    "mlh",
    "bre",
    "ksh",
    "cq",
)
"""Methods of the comparison by MAP."""

TIMED_METHODS = ("sq", "cq", "sdh")
"""Methods whose query times the paper drew."""

CHAINED_METHODS = ("sq", "sq-triplet", "sq-no-transform")
"""Methods whose longer codes start from the shorter ones."""

ALL_LENGTH_DATASETS = ("mnist", "cifar10", "coco30k")
"""Data sets that are measured at all of `LENGTHS`."""

DATASETS = (*ALL_LENGTH_DATASETS, "coco30k-noperson")
"""Data sets of the plan."""

OPTIONAL_DATASETS = {
    "imagenet": "imagenet",
    "nuswide": "nuswide",
    "tinyimagenet-1500": "tinyimagenet_effnet.npz",
}
"""Data sets that join the plan if this folder or file is in the data folder."""

THREE_SEED_EXCEPTIONS = {"tinyimagenet-1500": ("sq",)}
"""The methods with three seeds on data sets where these are not `THREE_SEED_METHODS`."""

ALTERNATING_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "cifar10": {"quantization_weight": 1e-3},
    "digits": {"max_iter": 3},
}
"""Parameters of the alternating solver. Validation on training rows found this gamma of CIFAR-10; others have the defaults."""

NO_TRANSFORM_PARAMETERS: Mapping[str, Mapping[str, Any]] = {"cifar10": {"quantization_weight": 1e-4}}
"""Parameters of `sq-no-transform`, found in the same way."""

MANY_ANCHORS = f"{MAX_ANCHORS}-anchors"
"""The variant of the classifier that has as many anchors as the library's own features: four times those of the comparison."""

MANY_ANCHORS_DATASETS = ("mnist", "cifar10", "coco30k", "coco30k-noperson", "tinyimagenet-1500")
"""Data sets on which that variant is measured."""

SEVERAL_LABELS_PARAMETERS: Mapping[str, Any] = {"tol": 0.3}
"""Parameters of the joint solver where rows have several labels. With them the fit ends before its last rounds, each of which
takes twice as long as the one before and does not raise MAP: COCO-30k without *person* has .270 after 7 rounds (28 s) and .268
after 12 (202 s) at 16 bits, .270 after one round (12 s) and .268 after 7 (600 s) at 64 bits."""

CURVES_FOLDER = "curves"
"""The folder of cells that are measured for their convergence: their fits end by themselves."""

IMAGENET_PARAMETERS: Mapping[str, Mapping[str, Any]] = {"cq": {"n_components": 256}}
"""Parameters of methods on ImageNet: CQ is published there after PCA to 256 columns."""

KERNEL_FREE_DATASETS = ("imagenet", "tinyimagenet-1500")
"""Data sets whose vectors are features of a network: only `sdh` and `ksh` have kernel features there."""

FIT_SECONDS = {
    "sq": (20, 0.4),
    "sq-alternating": (30, 0.6),
    "sq-label": (50, 1.0),
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
    f"classifier-{MANY_ANCHORS}": (40, 0),
    f"classifier-scores-{MANY_ANCHORS}": (40, 0),
    "classifier-bits": (5, 0),
    "euclidean": (1, 0),
    "cosine": (1, 0),
    "ssh": (5, 0.2),
    "fasthash": (5, 1.8),
    "mlh": (5, 2.2),
    "bre": (10, 2.7),
    "ksh": (5, 2.9),
}
"""Seconds of a fit to 60,000 rows on two cores: a fixed number, and one for each bit."""

OTHER_FIT_SECONDS = (30, 0.5)
"""The same for a method that is not listed."""

PAIRWISE_METHODS = ("ssh", "fasthash", "mlh", "bre", "ksh")
"""Methods that learn from 5,000 rows of any data set."""

SEVERAL_LABELS_FACTOR = 3
"""A joint fit takes this many times as long where rows have several labels."""

QUICK_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "cq": {"max_iter": 3},
    "ksh": {"max_iter": 50},
    "fasthash": {"n_trees": 50},
    "mlh": {"n_epochs": 10},
    "bre": {"max_iter": 10},
    "sq-triplet": {"max_iter": 2},
}
"""Parameters of methods in the small version of the plan."""

MEASURING_SECONDS = 6
"""Seconds that a cell of 60,000 rows takes in addition to its fit."""


N_ROWS = {
    "mnist": 70_000,
    "cifar10": 60_000,
    "coco30k": 30_000,
    "coco30k-noperson": 15_925,
    "tinyimagenet-1500": 110_000,
    "digits": 1_797,
}
"""Rows of a data set, from which the time of a fit is estimated. The other published ones have about 200,000."""

PUBLISHED_ROWS = 200_000
"""Rows of a published data set that is not in `N_ROWS`, roughly."""

PUBLISHED = (*N_ROWS, "nuswide", "imagenet")
"""Data sets that are not read to make a plan: their files may be missing when it is only listed."""

SEVERAL_LABEL_DATASETS = ("coco30k", "coco30k-noperson", "nuswide")
"""Published data sets whose rows have several labels each."""

MIN_CLASSES = 3
"""Classes that a data set must have for the protocol `unseen`; all published ones have more."""


def paper_tasks(
    items: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
) -> list[Task]:
    """Return the tasks of the full comparison.

    Parameters
    ----------
    items : sequence of str, optional
        Names in `ITEMS`; all by default.
    datasets : sequence of str, optional
        By default those of `DATASETS`, and those of `OPTIONAL_DATASETS` whose files are in the data folder. Any data set that
        `supquant_lab.datasets.load` takes can be named, also the path of a file.
    methods : sequence of str, optional
        The methods to measure, by name or as ``package.module:Class``; all of the comparison by default.

    Examples
    --------
    >>> [task.name for task in paper_tasks(["triplet"], ["mnist"])]
    ['mnist-paper-sq-triplet-euclidean 16,32,64,128 bits seed 0']
    >>> [task.name for task in paper_tasks(["map"], ["mnist"], ["cosine"])]
    ['mnist-paper-cosine-cosine 16,32,64,128 bits seed 0']
    """
    items = tuple(ITEMS) if items is None else items
    if unknown := [item for item in items if item not in ITEMS]:
        raise InputError(f"there is no item {unknown[0]!r}; there are {', '.join(ITEMS)}")
    for method in methods or ():
        find_method(method)
    if datasets is None:
        datasets = (
            *DATASETS,
            *(name for name, file in OPTIONAL_DATASETS.items() if (data_folder() / file).exists()),
        )
    check_datasets(datasets)
    compared = tuple(dict.fromkeys((*COMPARED, *(methods or ()))))
    tasks: list[Task] = []
    for dataset in datasets:
        single = not data_facts(dataset).several_labels and dataset not in OPTIONAL_DATASETS
        lengths = TWO_LENGTHS if dataset == "coco30k-noperson" else LENGTHS
        if "map" in items:
            tasks += _comparison_tasks(dataset, "paper", lengths, compared)
            tasks += _comparison_tasks(
                dataset, "paper", TWO_LENGTHS, ["opq"]
            )  # which the paper does not compare with
            tasks += _alternating_tasks(dataset, lengths)
            tasks += _label_tasks(dataset, "paper")
        if "query-time" in items:
            tasks += _comparison_tasks(dataset, "paper", lengths, TIMED_METHODS, seeds=SEEDS[:1])
            tasks += _cell_tasks(dataset, "sq", TWO_LENGTHS, ranking="label")
        if "triplet" in items and single:
            tasks += _cell_tasks(dataset, "sq-triplet", LENGTHS)
        if "transform" in items and single:
            tasks += _cell_tasks(
                dataset, "sq-no-transform", LENGTHS, parameters=NO_TRANSFORM_PARAMETERS.get(dataset, {})
            )
        if "penalties" in items and dataset in ALL_LENGTH_DATASETS:
            tasks.append(
                SweepTask(
                    dataset,
                    training_rows=20_000 if single else 5_000,  # fits to several labels take longer
                    parameters={} if single else SEVERAL_LABELS_PARAMETERS,
                    command=command("paper", only="penalties", dataset=dataset),
                    expected_seconds=2400.0 if single else 400.0,
                )
            )
        if "convergence" in items and dataset == "coco30k":
            tasks += [
                *_cell_tasks(dataset, "sq", (16,), folder=CURVES_FOLDER),
                *_alternating_tasks(dataset, (16,)),
            ]
        if "unlabelled" in items and dataset not in OPTIONAL_DATASETS:
            tasks += _comparison_tasks(dataset, "unlabelled", TWO_LENGTHS, compared)
            tasks += _label_tasks(dataset, "unlabelled")
        if "unseen" in items and single and data_facts(dataset).n_classes >= MIN_CLASSES:
            tasks += _comparison_tasks(dataset, "unseen", TWO_LENGTHS, compared)
            tasks += _label_tasks(dataset, "unseen")
        if "samples" in items and dataset == "mnist":
            again = command("paper", only="samples", dataset=dataset)
            tasks.append(SamplesTask(dataset, command=again, expected_seconds=60.0))
    return _unique(task for task in tasks if methods is None or _methods_of(task) <= set(methods))


def quick_tasks() -> list[Task]:
    """Return the tasks of a small version on the digits of scikit-learn: under five minutes on two cores.

    Examples
    --------
    >>> len({task.name for task in quick_tasks()}) == len(quick_tasks())
    True
    """
    small: dict[str, Any] = {"anchors": 200}
    tasks: list[Task] = []
    for method in (*COMPARED, "opq"):
        tasks += _cell_tasks("digits", method, (16, 32), parameters=QUICK_PARAMETERS.get(method), **small)
        for protocol in ("unlabelled", "unseen"):
            tasks += _cell_tasks(
                "digits", method, (16,), parameters=QUICK_PARAMETERS.get(method), protocol=protocol, **small
            )
    tasks += _alternating_tasks("digits", (16, 32), **small)
    for protocol in ("paper", "unlabelled", "unseen"):
        tasks += _label_tasks("digits", protocol, lengths=(16,), seeds=SEEDS[:1])
    for method in ("sq-triplet", "sq-no-transform"):
        tasks += _cell_tasks("digits", method, (16, 32), parameters=QUICK_PARAMETERS.get(method), **small)
    small["command"] = command("paper", quick=True)
    sweep = SweepTask("digits", training_rows=500, parameters={"max_iter": 2}, expected_seconds=30.0, **small)
    tasks += [sweep, SamplesTask("digits", expected_seconds=1.0, **small)]
    return _unique(tasks)


def _comparison_tasks(
    dataset: str,
    protocol: str,
    lengths: Sequence[int],
    methods: Iterable[str],
    seeds: Sequence[int] = SEEDS,
) -> list[Task]:
    """Return tasks of every method at every length, with three seeds for some methods at less than 128 bits."""
    tasks: list[Task] = []
    for method in methods:
        for seed in (each for each in seeds if _has_seed(dataset, method, each)):
            shown = (
                lengths
                if seed == 0 or dataset in OPTIONAL_DATASETS
                else [bits for bits in lengths if bits < 128]
            )
            tasks += _cell_tasks(dataset, method, shown, protocol=protocol, seed=seed)
    return tasks


def _label_tasks(
    dataset: str, protocol: str, *, lengths: Sequence[int] = TWO_LENGTHS, seeds: Sequence[int] = SEEDS
) -> list[Task]:
    """Return tasks of ours as the library has it by default, and of the classifier with as many anchors."""
    tasks: list[Task] = []
    for seed in seeds:
        where: dict[str, Any] = {"protocol": protocol, "seed": seed}
        tasks += _cell_tasks(dataset, "sq", lengths, ranking="label", **where)
        if dataset in MANY_ANCHORS_DATASETS:
            for method in ("classifier",) if protocol == "paper" else ("classifier", "classifier-scores"):
                if _has_seed(dataset, method, seed):
                    tasks += _cell_tasks(
                        dataset, method, lengths, variant=MANY_ANCHORS, anchors=MAX_ANCHORS, **where
                    )
    return tasks


def _has_seed(dataset: str, method: str, seed: int) -> bool:
    return (
        seed == SEEDS[0] or is_own(method) or method in THREE_SEED_EXCEPTIONS.get(dataset, THREE_SEED_METHODS)
    )


def _alternating_tasks(dataset: str, lengths: Sequence[int], **options: Any) -> list[Task]:
    parameters = {"solver": "alternating", **ALTERNATING_PARAMETERS.get(dataset, {})}
    return _cell_tasks(dataset, "sq", lengths, variant="alternating", parameters=parameters, **options)


def _cell_tasks(
    dataset: str,
    method: str,
    lengths: Sequence[int],
    *,
    variant: str = "",
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Task]:
    """Return one task for all lengths if they share a fit, else one task for each length."""
    if dataset == "imagenet":
        parameters = {**IMAGENET_PARAMETERS.get(method, {}), **(parameters or {})}
    if dataset in KERNEL_FREE_DATASETS and options.get("ranking") != "label":  # which has features of its own
        options = {"anchors": 1000 if method in ("sdh", "ksh") else 0, **options}
    by_distance = method == "sq" and not variant and options.get("ranking") != "label"
    if by_distance and data_facts(dataset).several_labels and options.get("folder") != CURVES_FOLDER:
        parameters = {**SEVERAL_LABELS_PARAMETERS, **(parameters or {})}
    together = method in LENGTH_FREE or method in CHAINED_METHODS
    return [
        CellsTask(
            dataset,
            method,
            tuple(bits),
            variant=variant,
            parameters=parameters or {},
            expected_seconds=sum(
                _expected_seconds(
                    dataset, "-".join(filter(None, (method, variant, options.get("ranking")))), each
                )
                for each in (bits[:1] if method in LENGTH_FREE else bits)
            ),
            **options,
        )
        for bits in ([lengths] if together else [[each] for each in lengths])
    ]


def _expected_seconds(dataset: str, method: str, bits: int) -> float:
    fixed, per_bit = FIT_SECONDS.get(method, OTHER_FIT_SECONDS)
    if method == "sq" and data_facts(dataset).several_labels:
        fixed, per_bit = SEVERAL_LABELS_FACTOR * fixed, SEVERAL_LABELS_FACTOR * per_bit
    rows = data_facts(dataset).n_rows / 60_000
    share = 1.0 if method in PAIRWISE_METHODS and dataset != "digits" else rows
    return share * (fixed + per_bit * bits) + MEASURING_SECONDS * rows


def _methods_of(task: Task) -> set[str]:
    return set(task.methods) if isinstance(task, SamplesTask) else {getattr(task, "method", "")}


def _unique(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks without those whose files are all written by tasks before them."""
    written: set[str] = set()
    kept = []
    for task in tasks:
        if not written.issuperset(task.outputs()):
            kept.append(task)
        written.update(task.outputs())
    return kept


@dataclass(frozen=True)
class DataFacts:
    """What a plan needs to know of a data set: numbers of rows and of classes, and whether rows have several labels."""

    n_rows: int
    n_classes: int
    several_labels: bool


def data_facts(dataset: str) -> DataFacts:
    """Return what a plan needs to know of a data set; one that is not published is loaded for it.

    Examples
    --------
    >>> data_facts("nuswide").several_labels
    True
    """
    if dataset in PUBLISHED:
        return DataFacts(N_ROWS.get(dataset, PUBLISHED_ROWS), MIN_CLASSES, dataset in SEVERAL_LABEL_DATASETS)
    data = load_rows(dataset, None)
    labels = read_labels(data.y)
    return DataFacts(len(data), labels.n_labels, labels.multilabel)


def check_datasets(datasets: Sequence[str]) -> None:
    """Raise an error if two data sets, or a file and a data set by name, would have result files of the same names.

    Examples
    --------
    >>> check_datasets(["digits", "data/mnist.npz"])
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: data/mnist.npz: its results would have the names of those of mnist; give the file another name
    """
    stems: dict[str, str] = {}
    for dataset in datasets:
        stem = dataset if dataset in NAMES else Path(dataset).stem
        other = stems.get(stem, stem if stem in NAMES and dataset not in NAMES else dataset)
        if other != dataset:
            raise InputError(
                f"{dataset}: its results would have the names of those of {other}; give the file another name"
            )
        stems[stem] = dataset
