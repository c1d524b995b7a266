"""Vectors of random classes, of which some have no label."""

from types import SimpleNamespace

import numpy as np


def plant_classes(n_classes, n_known, n_labelled, n_rows):
    """Rows to fit in sixteen dimensions, the first of which have labels of known classes, and 400 queries."""
    rng = np.random.default_rng(0)
    means, y = rng.normal(size=(n_classes, 16)), rng.integers(n_classes, size=n_rows + 400)
    y[:n_labelled] = rng.integers(n_known, size=n_labelled)
    X = (means[y] + 0.8 * rng.normal(size=(len(y), 16))).astype(np.float32)
    queries = np.arange(n_rows, len(y))
    return SimpleNamespace(
        X=X,
        y=y,
        labels=np.where(np.arange(n_rows) < n_labelled, y[:n_rows], -1),
        labelled=np.arange(n_labelled),
        items=np.arange(n_labelled, n_rows),
        known=queries[y[queries] < n_known],
        new=queries[y[queries] >= n_known],
    )
