"""MLH is compared with its definitions: all codes of four bits, the bound, finite differences."""

import itertools

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import MLH
from supquant_lab.hashing.mlh import (
    PairSource,
    adjusted_codes,
    bound_and_loss,
    bound_gradient,
    loss_table,
)
from supquant_lab.hashing.rows import HashRows, signs

ALL_CODES = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))  # (16, 4)


def pairs_of(n_pairs, n_rows, rng):
    i, j = rng.integers(n_rows, size=(2, n_pairs))
    return i, j, rng.random(n_pairs) < 0.5


def test_losses_are_the_published_hinges():
    apart, near = loss_table(8, 3, dissimilar_weight=2.0)
    for m in range(9):
        assert near[m] == pytest.approx(max(m - 3 + 1, 0) / 6)
        assert apart[m] == pytest.approx(2.0 * max(3 - m + 1, 0) / 4)
    assert near[8] == 1.0
    assert apart[0] == 2.0


@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("radius", [1, 2, 4])
def test_inference_finds_the_best_of_all_pairs_of_codes(scale, radius, rng):
    U, V = scale * rng.normal(size=(2, 60, 4))
    losses = loss_table(4, radius, 1.5)[rng.integers(2, size=60)]
    G, H = adjusted_codes(U, V, losses)
    moved = 0
    for pair in range(60):

        def value(g, h, pair=pair):
            return losses[pair, np.count_nonzero(g != h)] + g @ U[pair] + h @ V[pair]

        best = max(value(g, h) for g in ALL_CODES for h in ALL_CODES)
        assert value(G[pair], H[pair]) == pytest.approx(best)
        moved += bool(np.any(G[pair] != signs(U[pair])) or np.any(H[pair] != signs(V[pair])))
    assert moved > 0 or scale == 2.0  # losses change codes unless the scores are large


def test_inference_without_losses_returns_the_codes(rng):
    U, V = rng.normal(size=(2, 50, 6))
    G, H = adjusted_codes(U, V, np.zeros((50, 7)))
    np.testing.assert_array_equal(G, signs(U))
    np.testing.assert_array_equal(H, signs(V))


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.1, 1.0, 10.0])
def test_the_bound_is_at_least_the_loss_of_every_pair(scale, rng):
    X = rng.normal(size=(40, 5))
    W = scale * rng.normal(size=(5, 16))
    losses = loss_table(16, 3, 1.0)
    i, j, similar = pairs_of(200, 40, rng)
    for pair in range(200):
        one = slice(pair, pair + 1)
        bound, loss = bound_and_loss(W, X, i[one], j[one], similar[one], losses)
        assert bound >= loss - 1e-12
        if not scale:
            assert bound == losses[int(similar[pair])].max()


def test_the_bound_meets_the_loss_as_scores_grow(rng):
    X, W = rng.normal(size=(40, 5)), rng.normal(size=(5, 16))
    pairs = pairs_of(200, 40, rng)
    gaps = [
        np.subtract(*bound_and_loss(scale * W, X, *pairs, loss_table(16, 3, 1.0))) for scale in (0.01, 1e6)
    ]
    assert gaps[0] > 0.1
    assert gaps[1] == pytest.approx(0, abs=1e-6)


def test_the_loss_is_that_of_the_codes(rng):
    X, W = rng.normal(size=(30, 5)), rng.normal(size=(5, 8))
    i, j, similar = pairs_of(100, 30, rng)
    losses = loss_table(8, 2, 1.0)
    distances = [np.count_nonzero((X[a] @ W > 0) != (X[b] @ W > 0)) for a, b in zip(i, j, strict=True)]
    expected = np.mean([losses[int(s), m] for s, m in zip(similar, distances, strict=True)])
    assert bound_and_loss(W, X, i, j, similar, losses)[1] == pytest.approx(expected)


def test_the_gradient_is_that_of_the_bound(rng):
    X, W = rng.normal(size=(30, 5)), 0.1 * rng.normal(size=(5, 8))
    pairs = pairs_of(25, 30, rng)
    losses = loss_table(8, 2, 1.0)
    gradient = bound_gradient(W, X, *pairs, losses)
    assert np.abs(gradient).max() > 0.1
    for row, bit in np.ndindex(5, 8):
        step = np.zeros_like(W)
        step[row, bit] = 1e-7  # small enough that no inference changes: the bound is piecewise linear
        above, below = (bound_and_loss(W + sign * step, X, *pairs, losses)[0] for sign in (1, -1))
        assert gradient[row, bit] == pytest.approx((above - below) / 2e-7, abs=1e-5)


def test_similar_pairs_are_drawn_up_to_their_share(clusters, rng):
    X, _ = clusters
    few = np.arange(300) % 30  # one pair in thirty shares a label
    source = PairSource.of_rows(HashRows(X, read_labels(few), None, 1))
    i, j, similar = source.draw(20_000, rng)
    np.testing.assert_array_equal(similar, few[i] == few[j])
    assert 0.47 < similar.mean() < 0.53
    many = (np.arange(300) % 10 == 0).astype(int)  # most pairs share a label, so none is added
    source = PairSource.of_rows(HashRows(X, read_labels(many), None, 1))
    assert 0.8 < source.draw(20_000, rng)[2].mean() < 0.84


def test_rows_that_share_no_label_are_learned_from(clusters):
    X = clusters[0][:20]
    fitted = MLH(8, n_epochs=1, random_state=0).fit(X, np.arange(20))
    assert fitted.encode(X).shape == (20, 1)
    assert fitted.objective_[-1]["objective"] < 1.0  # the bound if all weights are zero


def test_the_bound_falls_and_stays_above_the_loss(clusters):
    X, y = clusters
    start = MLH(16, n_epochs=1, learning_rate=1e-12, random_state=0).fit(X, y).objective_[0]
    record = MLH(16, n_epochs=2, random_state=0).fit(X, y).objective_
    assert record[-1]["objective"] < 0.5 * start["objective"]
    assert record[-1]["loss"] < 0.8 * start["loss"]
    assert all(values["objective"] >= values["loss"] for values in [start, *record])


def test_lengths_of_rows_do_not_matter(clusters):
    """Rows are centred and scaled to length 1, so the scale of the data changes no bit."""
    X, y = clusters
    small, large = (MLH(8, n_epochs=1, random_state=0).fit(factor * X, y) for factor in (1.0, 1024.0))
    np.testing.assert_array_equal(small.encode(X), large.encode(1024.0 * X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": 0}, "radius"),
        ({"radius": 9}, "radius"),
        ({"radius": 2.5}, "radius"),
        ({"dissimilar_weight": 0.0}, "dissimilar_weight"),
        ({"n_epochs": 0}, "n_epochs"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": np.inf}, "learning_rate"),
        ({"weight_decay": -1e-3}, "weight_decay"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        MLH(8, **parameters).fit(*clusters)
