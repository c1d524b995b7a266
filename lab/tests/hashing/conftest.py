"""Fixtures of the hashing tests."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def several_labels(clusters):
    """Return the clusters with an indicator matrix of three labels, one or two per row."""
    X, y = clusters
    Y = np.stack([y == 0, y == 1, y == 2], axis=1).astype(np.uint8)
    Y[:, 2] |= X[:, 0] > np.median(X[:, 0])
    return X, Y
