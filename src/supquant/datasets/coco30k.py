"""COCO-30k: 30,000 pictures of COCO as 500 bag-of-words counts over SIFT, with 18 labels, several a picture.

It stands in for NUS-WIDE. Its first label, *person*, is on three pictures of four, so that chance looks
good; the variant without it drops that label and the rows that are then left without any.
"""

from __future__ import annotations

from supquant.datasets.dataset import Dataset, root_of_frequencies
from supquant.datasets.files import find, read_arrays

HOW_TO_GET_IT = (
    "Put there a file with arrays X (30000, 500), the bag-of-words counts, and y (30000, 18), 0/1 labels "
    "whose first column is `person`."
)
PERSON = 0  # column of y


def load(name: str = "coco30k") -> Dataset:
    """Load coco30k_bow.npz from the data folder; counts become square roots of frequencies."""
    X, y = read_arrays(find("coco30k_bow.npz", HOW_TO_GET_IT), ("X", "y"))
    return Dataset(name=name, X=X, y=y, prepare=root_of_frequencies)


def load_without_person(name: str = "coco30k-noperson") -> Dataset:
    """Load the same pictures without the label `person` and without those that have no other."""
    everything = load(name)
    y = everything.y[:, PERSON + 1 :]  # (30000, 17)
    labelled = y.any(axis=1)
    return Dataset(name=name, X=everything.X[labelled], y=y[labelled], prepare=everything.prepare)
