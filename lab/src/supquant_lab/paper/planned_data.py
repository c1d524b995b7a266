"""Report: what a plan must know of its data sets: those of the paper, and any other, such as a file of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.datasets import NAMES
from supquant_lab.grid.tasks import load_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


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

FEWEST_CLASSES = 3
"""Classes that a data set must have for the protocol `unseen`; all published ones have more."""


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
        return DataFacts(
            N_ROWS.get(dataset, PUBLISHED_ROWS), FEWEST_CLASSES, dataset in SEVERAL_LABEL_DATASETS
        )
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
