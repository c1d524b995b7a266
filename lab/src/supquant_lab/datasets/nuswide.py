"""NUS-WIDE (Chua et al. 2009): 269,648 pictures of Flickr as 500 bag-of-words counts, 21 of its 81 labels.

The original text files come in two orders. Features are in two files, whose rows are those of TrainImagelist.txt and
TestImagelist.txt. Labels are in AllLabels/, 81 files in the order of Imagelist.txt, and once more in TrainTestLabels/, in
the orders of the features. The latter are used if they are there; otherwise rows are matched by the names in the lists.

The 21 labels are the most frequent ones. The supervised quantization paper lists them by falling frequency, with
"relocation" in the fifteenth place. By the label files this is *reflection*, between sunset (8,418 pictures) and rocks (6,327).
The paper counts 193,752 pictures, the label files 195,834. The difference is 2,082: about 100 queries for each of 21 labels. The
number of the paper seems to be that of the pictures without the queries.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant_lab.datasets.dataset import Dataset, root_of_frequencies
from supquant_lab.datasets.files import data_folder, not_found

if TYPE_CHECKING:
    from pathlib import Path

HOW_TO_GET_IT = (
    "Put there a folder nuswide with the original text files, in whatever folders they come in: "
    "BoW_Train_int.dat and BoW_Test_int.dat (from the low-level features), and from the ground truth either "
    "TrainTestLabels/Labels_<name>_Train.txt and _Test.txt, or AllLabels/Labels_<name>.txt together with "
    "Imagelist.txt, TrainImagelist.txt and TestImagelist.txt."
)
LABELS = {
    "sky": 74_190,
    "clouds": 54_087,
    "person": 51_577,
    "water": 35_264,
    "animal": 33_887,
    "grass": 22_561,
    "buildings": 17_835,
    "window": 15_051,
    "plants": 14_345,
    "lake": 13_392,
    "ocean": 11_307,
    "road": 9_524,
    "flowers": 8_605,
    "sunset": 8_418,
    "reflection": 7_875,
    "rocks": 6_327,
    "vehicle": 6_099,
    "snow": 5_404,
    "tree": 5_352,
    "beach": 5_239,
    "mountain": 5_099,
}
"""The labels in the order of the columns of y, and the number of pictures with each."""

PARTS = {"Train": 161_789, "Test": 107_859}
"""The two parts of the files, and their numbers of rows."""

ROWS = 195_834
"""Number of pictures with at least one of the labels."""

WORDS = 500
"""Number of features of a picture: counts of visual words."""

QUERIES_PER_LABEL = 100
"""Number of queries for each label, as published."""


def load() -> Dataset:
    """Load the pictures that have one of the 21 labels; counts become square roots of frequencies.

    Examples
    --------
    >>> list(LABELS)[14]
    'reflection'
    """
    folder = data_folder() / "nuswide"
    if not folder.is_dir():
        raise not_found("The folder nuswide", HOW_TO_GET_IT)
    files = _Files(folder)
    y = np.concatenate(_read_labels(files))  # (269648, 21)
    _compare_counts(folder, y)
    X = np.concatenate(  # (269648, 500)
        [
            _read_numbers(files[f"BoW_{part}_int.dat"], n_rows, WORDS, np.uint16)
            for part, n_rows in PARTS.items()
        ]
    )
    labelled = y.any(axis=1)
    return Dataset(
        "nuswide", X[labelled], y[labelled], root_of_frequencies, queries_per_label=QUERIES_PER_LABEL
    )


class _Files(dict[str, "Path"]):
    """The text files in a folder and below it, by name: the folders of extracted archives have various names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            (path.name, path) for suffix in ("txt", "dat") for path in folder.rglob(f"*.{suffix}")
        )
        self._folder = folder

    def __missing__(self, file_name: str) -> Path:
        raise InputError(f"{file_name} was not found in {self._folder} or below it. {HOW_TO_GET_IT}")


def _read_labels(files: _Files) -> list[Array]:
    """Return the labels of both parts, (161789, 21) and (107859, 21), in the order of the features."""
    if f"Labels_{next(iter(LABELS))}_Train.txt" in files:
        return [
            np.column_stack([_read_label(files[f"Labels_{label}_{part}.txt"], n_rows) for label in LABELS])
            for part, n_rows in PARTS.items()
        ]
    n_rows = sum(PARTS.values())
    y = np.column_stack([_read_label(files[f"Labels_{label}.txt"], n_rows) for label in LABELS])
    list_file = files["Imagelist.txt"]
    row_of = {picture: row for row, picture in enumerate(_read_list(list_file, n_rows))}
    parts = [_read_list(files[f"{part}Imagelist.txt"], rows) for part, rows in PARTS.items()]
    difference = row_of.keys() ^ {picture for pictures in parts for picture in pictures}
    if difference:
        raise InputError(
            f"{list_file} and the lists of its two parts differ in {len(difference):,} pictures, "
            f"such as {min(difference)}"
        )
    return [y[[row_of[picture] for picture in pictures]] for pictures in parts]


def _compare_counts(folder: Path, y: Array) -> None:
    """Warn if the labels are not the published ones; they can still be used."""
    counts = dict(zip(LABELS, y.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    differing = [label for label in LABELS if counts[label] != LABELS[label]]
    if differing:
        numbers = ", ".join(f"{label} on {counts[label]:,}, not {LABELS[label]:,}" for label in differing)
        warnings.warn(
            f"labels in {folder} are not as published ({numbers}): {np.sum(y.any(axis=1)):,} pictures are left, "
            f"not {ROWS:,}",
            stacklevel=3,
        )


def _read_label(path: Path, n_rows: int) -> Array:
    """Return the column of a file with 0 or 1 in each row."""
    values = _read_numbers(path, n_rows, 1, np.uint8)[:, 0]
    if values.max() > 1:
        raise InputError(
            f"{path}: expected 0 or 1 in every row, got {values.max()} in row {values.argmax() + 1}"
        )
    return values


def _read_numbers(path: Path, n_rows: int, n_columns: int, dtype: type[np.unsignedinteger]) -> Array:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # for an empty file, which is an error below
            numbers = np.loadtxt(path, dtype=dtype, ndmin=2)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: expected {n_columns} counts in every row: {error}") from error
    if numbers.shape != (n_rows, n_columns):
        raise InputError(
            f"{path}: expected {n_rows:,} rows of {n_columns}, got {len(numbers):,} of {numbers.shape[1]}"
        )
    return numbers


def _read_list(path: Path, n_rows: int) -> list[str]:
    """Return the names of pictures, which must be different."""
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(names) != n_rows or len(set(names)) != n_rows:
        raise InputError(
            f"{path}: expected {n_rows:,} different pictures, got {len(names):,}, {len(set(names)):,} different"
        )
    return names
