"""The codewords that k-means starts from are those of scikit-learn, bit for bit."""

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus

from supquant import clustering as seeding
from supquant.clustering import plus_plus_seeds


@pytest.mark.parametrize(("n", "d", "n_codewords"), [(1500, 2, 256), (300, 7, 64), (20, 3, 20), (90, 500, 2)])
def test_the_draws_are_those_of_scikit_learn(rng, n, d, n_codewords):
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[: n // 4] = X[: n // 4].round()  # some rows twice
    want, _ = kmeans_plusplus(X, n_codewords, random_state=1)
    np.testing.assert_array_equal(plus_plus_seeds(X, n_codewords, np.random.RandomState(1)), want)


def test_fewer_distinct_rows_than_codewords_are_drawn_again():
    X = np.ones((9, 2), dtype=np.float32)
    np.testing.assert_array_equal(plus_plus_seeds(X, 4, np.random.RandomState(0)), X[:4])


def test_the_size_of_blocks_does_not_matter(rng, monkeypatch):
    X = rng.normal(size=(200, 3)).astype(np.float32)
    want = plus_plus_seeds(X, 32, np.random.RandomState(0))
    monkeypatch.setattr(seeding, "BLOCK_ROWS", 37)
    np.testing.assert_array_equal(plus_plus_seeds(X, 32, np.random.RandomState(0)), want)
