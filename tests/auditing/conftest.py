"""Digits with planted faults, audited once for all tests."""

from types import SimpleNamespace

import numpy as np
import pytest

from supquant import audit


@pytest.fixture(scope="session")
def planted(digits):
    """Digits of which 30 have a wrong label, 10 are there twice, and 20 have no label."""
    X, y = digits[0][:1000], digits[1][:1000]
    rng = np.random.default_rng(1)
    order = rng.permutation(len(X))
    wrong, copied, hidden = order[:30], order[30:40], order[40:60]
    given = y.astype(object)
    given[wrong] = (y[wrong] + rng.integers(1, 10, 30)) % 10
    given[hidden] = None
    noise = rng.normal(scale=0.002, size=(10, X.shape[1])).astype(np.float32)
    labels = np.concatenate([given, given[copied]])
    labels[len(X)] = (labels[len(X)] + 1) % 10  # the first copy has another label than its original
    vectors = np.concatenate([X, X[copied] + noise])
    found = audit(vectors, labels, ids=[f"d{row}" for row in range(len(vectors))], n_jobs=1)
    return SimpleNamespace(
        X=vectors, y=labels, truth=y, wrong=wrong, copied=copied, hidden=hidden, found=found, n=len(X)
    )
