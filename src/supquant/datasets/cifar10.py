"""CIFAR-10 (Krizhevsky 2009): 60,000 pictures in ten classes, each as its 512 GIST features."""

from __future__ import annotations

from supquant.datasets.dataset import Dataset, centred_unit_length
from supquant.datasets.files import find, read_arrays

HOW_TO_GET_IT = (
    "Put there a file with arrays X (60000, 512), the GIST features of the pictures (4 scales, "
    "8 orientations, a 4 x 4 grid), and y (60000,): the training pictures first, then the test pictures."
)


def load(name: str = "cifar10") -> Dataset:
    """Load cifar10_gist.npz from the data folder; rows are centred and scaled to unit length."""
    X, y = read_arrays(find("cifar10_gist.npz", HOW_TO_GET_IT), ("X", "y"))
    return Dataset(name=name, X=X, y=y, prepare=centred_unit_length)
