"""Training rows that imitate rows which the model has not seen."""

import numpy as np
import pytest

from supquant.model.unseen_rows import (
    _quantile_map,
    imitate_held_out_rows,
)


@pytest.fixture
def features(rng):
    """Features [p | u | z | c] of 500 rows, five labels, position of four columns."""
    p = rng.dirichlet(np.full(5, 0.1), size=500)
    return np.hstack([p, np.full((500, 1), 0.1), rng.normal(size=(500, 8))]).astype(np.float32)


@pytest.mark.parametrize("multilabel", [False, True])
def test_imitated_rows_are_as_sure_of_their_labels_as_held_out_rows(rng, features, multilabel):
    labels = np.eye(5, dtype=bool)[rng.integers(5, size=500)]
    held_labels = np.eye(5, dtype=bool)[rng.integers(5, size=200)]
    held = features[:200].copy()
    held[:, :5] = 0.1 + 0.4 * held_labels + 0.1 * rng.uniform(size=(200, 5))
    held[:, :5] /= held[:, :5].sum(axis=1, keepdims=True)
    made = imitate_held_out_rows(features, labels, held, held_labels, multilabel=multilabel)
    for carried in (0, 1):
        mine, theirs = made[:, :5][labels == carried], held[:, :5][held_labels == carried]
        np.testing.assert_allclose(mine.mean(), theirs.mean(), atol=0.02)
        if multilabel:  # no sum to keep: the order stays, and the spread is that of held-out rows
            before = features[:, :5][labels == carried]
            assert (np.diff(mine[np.argsort(before, kind="stable")]) >= 0).all()
            np.testing.assert_allclose(mine.std(), theirs.std(), rtol=0.05)
        else:
            np.testing.assert_allclose(made[:, :5].sum(axis=1), 1, rtol=1e-4)
    np.testing.assert_array_equal(made[:, 5:], features[:, 5:])


def test_tiny_probabilities_become_zero_and_others_those_of_held_out_rows(rng, features):
    labels = np.zeros((500, 5), dtype=bool)
    held = features.copy()
    held[:, :5] = 10.0 ** rng.uniform(-12, 0, size=(500, 5))
    made = imitate_held_out_rows(features, labels, held, labels, multilabel=True)[:, :5]
    images = np.interp(features[:, :5], *_quantile_map(features[:, :5].ravel(), held[:, :5].ravel()))
    zero = made == 0
    assert (images[zero] < 1e-6).all()
    assert zero.sum() > 0.99 * (images < 1e-6).sum() > 0
    np.testing.assert_allclose(made[~zero], images[~zero], rtol=1e-6)


def test_quantiles_of_many_probabilities_come_from_a_sample(rng, features, monkeypatch):
    labels = np.eye(5, dtype=bool)[rng.integers(5, size=500)]
    held = features[rng.permutation(500)[:200]]
    held[:, :5] = np.sqrt(held[:, :5])
    told = {"held": held, "held_labels": labels[:200], "multilabel": True}
    of_all = imitate_held_out_rows(features, labels, **told)
    monkeypatch.setattr("supquant.model.unseen_rows.MAX_QUANTILE_VALUES", 1000)  # every other row
    of_some = imitate_held_out_rows(features, labels, **told)
    assert (of_some != of_all).any()
    np.testing.assert_allclose(of_some[:, :5].mean(axis=0), of_all[:, :5].mean(axis=0), rtol=0.1)


def test_rows_are_unchanged_if_none_were_held_out(features):
    labels = np.eye(5)[features[:, :5].argmax(axis=1)]
    none = imitate_held_out_rows(features, labels, features[:0], labels[:0], multilabel=False)
    np.testing.assert_array_equal(none, features)


def test_quantiles_are_exact_at_both_ends(rng):
    values, others = np.float32(rng.normal(size=50_000)), np.float32(np.sinh(6 * rng.normal(size=30_000)))
    order = np.argsort(values)
    exact = np.quantile(others, (np.arange(len(values)) + 0.5) / len(values), method="hazen")
    changed = np.interp(values, *_quantile_map(values, others))[order]
    for end in (slice(50), slice(-50, None)):
        np.testing.assert_allclose(changed[end], exact[end], rtol=1e-3)
