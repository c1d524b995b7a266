"""Any labelled vectors: an .npz file with arrays X and y, taken as they are."""

from __future__ import annotations

from pathlib import Path

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.inputs.validation import check_vectors
from supquant.storage.npz import read_arrays
from supquant_lab.datasets.dataset import Dataset, unchanged


def load(path: str | Path) -> Dataset:
    """Load a file with `X` (n, d) and `y`, class labels (n,) or a 0/1 indicator (n, L).

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "two.npz", X=np.eye(2), y=["cat", "dog"])
    ...     load(Path(folder) / "two.npz").y
    array(['cat', 'dog'], dtype='<U3')
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    X, y = read_arrays(path, ("X", "y"))
    X = check_vectors(X, name=f"X of {path}")
    read_labels(y, n_rows=len(X), name=f"y of {path}")
    return Dataset(name=str(path), X=X, y=y, prepare=unchanged)
