"""Codebooks: rounds of least squares and codes, judged by some of the rows."""

from itertools import pairwise

import numpy as np
import pytest

from supquant.model import item_codes
from supquant.model.item_codes import ItemRows, codebook_steps
from supquant.model.words import FREE_WORD, LABELLED, UNLABELLED


@pytest.fixture
def rows(rng):
    vectors = rng.normal(size=(600, 6)).astype(np.float32)
    vectors[:, :2] = np.abs(vectors[:, :2]) % 1
    kinds = np.repeat([LABELLED, UNLABELLED], 300)
    return ItemRows(vectors, kinds, np.array([[1, 0.5], [0.5, 0.3]], dtype=np.float32), 2, 2)


def learn(rows, max_iter=4):
    words = np.full((3, 8), FREE_WORD, dtype=np.uint8)
    rng = np.random.default_rng(0)
    return list(codebook_steps(rows, None, words, max_iter=max_iter, tol=0.0, rng=rng, n_jobs=1))


def test_codebooks_are_learned_from_all_rows_even_if_few_are_judged(rows, monkeypatch):
    monkeypatch.setattr(item_codes, "MIN_GAIN", 0.0)
    judged_by_all = learn(rows)
    monkeypatch.setattr(item_codes, "JUDGED_ROWS", 200)
    judged_by_some = learn(rows)
    assert len(judged_by_all) == 5
    for all_, some in zip(judged_by_all, judged_by_some, strict=True):
        np.testing.assert_allclose(some.codebooks, all_.codebooks, atol=1e-4)
        assert some.error == pytest.approx(all_.error, rel=0.2)
        assert some.error != all_.error


def test_learning_stops_after_a_round_that_gains_little(rows):
    steps = learn(rows)
    gains = [1 - after.error / before.error for before, after in pairwise(steps)]
    assert all(gain > item_codes.MIN_GAIN for gain in gains[:-1])
    assert gains[-1] <= item_codes.MIN_GAIN
