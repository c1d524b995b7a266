"""ImageNet (ILSVRC 2012) as 4,096 features a picture, from files that the user has made with a network.

The published split: the 1,281,167 training pictures are the database, the 50,000 validation pictures the queries, and
only the first 1,500 answers count.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from supquant_lab.datasets.dataset import Dataset, unchanged
from supquant_lab.datasets.files import data_folder, not_found
from supquant_lab.datasets.joining import join_shards
from supquant_lab.datasets.shards import Shard, find_shards

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

HOW_TO_GET_IT = (
    "Put there a folder imagenet with 4,096 features a picture, of the training and of the validation pictures: "
    "train*.npy (n, 4096) with train_labels*.npy (n,), val*.npy with val_labels*.npy, in one file or several "
    "with the same ending (train-00.npy, train_labels-00.npy); or train*.h5 and val*.h5 with data sets "
    "`features` and `labels`."
)
DIMENSIONS = 4096
CLASSES = 1000
TRAINING_ROWS = 1_281_167
VALIDATION_ROWS = 50_000
CUT = 1500


def load(name: str = "imagenet", callback: Callable[[Progress], None] | None = None) -> Dataset:
    """Load the features as a memory map; several files are first joined in the cache folder.

    Parameters
    ----------
    name : str
    callback : callable, optional
        Gets `Progress` events while files are joined.
    """
    folder = data_folder() / "imagenet"
    training, validation = (find_shards(folder, part) for part in ("train", "val"))
    if not training or not validation:
        missing = " and ".join(
            part for part, files in (("train*.npy", training), ("val*.npy", validation)) if not files
        )
        raise not_found(f"imagenet with {missing} (or .h5)", HOW_TO_GET_IT)
    X, y = join_shards(
        name, training, validation, n_features=DIMENSIONS, n_classes=CLASSES, callback=callback
    )
    n_validation = sum(_n_rows(shard) for shard in validation)
    n_training = len(y) - n_validation
    if (n_training, n_validation) != (TRAINING_ROWS, VALIDATION_ROWS):
        warnings.warn(
            f"{folder} holds {n_training:,} training and {n_validation:,} validation rows, published were "
            f"{TRAINING_ROWS:,} and {VALIDATION_ROWS:,}",
            stacklevel=2,
        )
    return Dataset(name, X, y, unchanged, n_queries_last=n_validation, cut=CUT)


def _n_rows(shard: Shard) -> int:
    with shard.open() as (features, _):
        return len(features)
