"""Every third of the rows is judged by a logistic regression on the others."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from supquant import audit
from supquant.auditing import items, logistic
from supquant.auditing.logistic import N_FOLDS, learn_logistic


@pytest.fixture(scope="module")
def mixed():
    """Rows of 60 classes that overlap, of which some have another label, and a few have none."""
    rng = np.random.default_rng(5)
    y = rng.integers(60, size=3000)
    X = (rng.normal(size=(60, 10))[y] + rng.normal(size=(3000, 10))).astype(np.float32)
    own, wrong = y.copy(), np.zeros(3000, dtype=bool)
    wrong[rng.permutation(3000)[:90]] = True
    own[wrong] = (y[wrong] + rng.integers(1, 60, 90)) % 60
    own[:20], wrong[:20] = -1, False
    return X, own, wrong


def test_probabilities_are_those_of_a_regression_on_the_other_folds(mixed, monkeypatch):
    monkeypatch.setattr(logistic, "PENALTIES", (1e-2,))
    monkeypatch.setattr(logistic, "MAX_STEPS", 300)
    X, own, _ = mixed
    folds = learn_logistic(X, own, 60, np.random.default_rng(0), 1)
    x = (X - X[own >= 0].mean(axis=0)) / X[own >= 0].std(axis=0).mean()
    for number in range(N_FOLDS):
        mine, seen = folds.fold == number, (folds.fold != number) & (own >= 0)
        theirs = LogisticRegression(C=1 / (1e-2 * seen.sum()), max_iter=1000, tol=1e-6).fit(
            x[seen], own[seen]
        )
        expected = theirs.predict_proba(x[mine])
        np.testing.assert_allclose(folds.probabilities((0, 3000))[mine], expected, atol=5e-3)


def test_blocks_and_threads_change_nothing(mixed):
    X, own, _ = mixed
    folds, again = (learn_logistic(X, own, 60, np.random.default_rng(0), n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(folds.weights, again.weights)
    in_blocks = np.concatenate(
        [folds.probabilities(block) for block in ((0, 1000), (1000, 1001), (1001, 3000))]
    )
    np.testing.assert_allclose(in_blocks, folds.probabilities((0, 3000)), atol=1e-6)


def test_labels_have_rows_in_every_fold(mixed):
    X, own, _ = mixed
    fold = learn_logistic(X, own, 60, np.random.default_rng(0), 1).fold
    counts = np.array([np.bincount(fold[own == label], minlength=N_FOLDS) for label in range(60)])
    assert np.ptp(counts, axis=1).max() <= 1


def test_too_few_rows_per_label_are_not_learned_from(mixed, monkeypatch):
    X, own, _ = mixed
    assert learn_logistic(X[:400], own[:400], 60, np.random.default_rng(0), 1) is None
    monkeypatch.setattr(logistic, "MAX_PRODUCTS", 400 * 60 * 10)
    assert learn_logistic(X, own, 60, np.random.default_rng(0), 1) is None


def test_an_audit_of_many_classes_finds_more_with_the_regression(mixed, monkeypatch):
    X, own, wrong = (each[:1500] for each in mixed)
    y = [label if label >= 0 else None for label in own.tolist()]

    def average_precision():
        found = audit(X, y, n_jobs=1)
        hits = wrong[np.argsort(-np.nan_to_num(found.wrong, nan=-1), kind="stable")]
        return (np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()

    with_regression = average_precision()
    monkeypatch.setattr(items, "learn_logistic", lambda *_: None)
    assert with_regression > average_precision() + 0.05
