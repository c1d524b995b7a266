"""COCO-30k: 30,000 pictures of COCO as 500 bag-of-words counts over SIFT, with 18 labels, several a picture.

It stands in for NUS-WIDE, and its queries are drawn in the same way. Its first label, *person*, is on three of four pictures,
which makes the MAP of chance high. The variant without it has neither this label nor the rows that have no other.
"""

from __future__ import annotations

from dataclasses import replace

from supquant.storage.npz import read_arrays
from supquant_lab.datasets.dataset import Dataset, root_of_frequencies
from supquant_lab.datasets.files import check_published, find

HOW_TO_GET_IT = (
    "Put there the file with arrays X (30000, 500), the bag-of-words counts, and y (30000, 18), 0/1 labels "
    "whose first column is `person`."
)
CHECKSUM = "ca2015e13c4a1074c0202193d595c5ed"
"""The xxh3 of X (30000, 500) uint16 and y (30000, 18) uint8."""

PERSON = 0  # column of y
QUERIES_PER_LABEL = 100


def load(name: str = "coco30k") -> Dataset:
    """Load coco30k_bow.npz from the data folder; counts become square roots of frequencies."""
    path = find("coco30k_bow.npz", HOW_TO_GET_IT)
    X, y = read_arrays(path, ("X", "y"))
    check_published(path, CHECKSUM, X, y)
    return Dataset(name=name, X=X, y=y, prepare=root_of_frequencies, queries_per_label=QUERIES_PER_LABEL)


def load_without_person(name: str = "coco30k-noperson") -> Dataset:
    """Load the pictures that have a label other than `person`, without that label."""
    everything = load(name)
    y = everything.y[:, PERSON + 1 :]  # (30000, 17)
    labelled = y.any(axis=1)
    return replace(everything, X=everything.X[labelled], y=y[labelled])
