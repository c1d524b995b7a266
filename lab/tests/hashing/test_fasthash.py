"""FastHash: bits are inferred by cuts, exactly within a block, and predicted by trees."""

from itertools import product

import numpy as np
import pytest

from supquant import AnchorKernel
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import FastHash
from supquant_lab.hashing.fasthash import (
    Pairs,
    cut_block,
    draw_pairs,
    hinge_coefficients,
    hinge_loss,
    infer_bit,
    label_blocks,
    spectral_signs,
)

QUICK = {"n_trees": 8, "n_pairs": 20, "random_state": 0}


def all_signs(n):
    return np.array(list(product([-1, 1], repeat=n)))  # (2**n, n)


def small_problem(seed, n=10):
    """Return rows of three classes, their distances in three bits, and the matrix of the fourth bit."""
    rng = np.random.default_rng(seed)
    labels = read_labels(np.arange(n) % 3)
    pairs = draw_pairs(labels, n, rng)
    distances = rng.integers(0, 4, size=len(pairs.first))
    return labels, pairs, distances, pairs.matrix(hinge_coefficients(pairs, distances, 4)), rng


def test_the_coefficients_are_the_loss_that_agreement_saves():
    """The proposition of the paper: any loss of two bits is a + b z_i z_j."""
    _, pairs, distances, matrix, _ = small_problem(0)
    whole = hinge_loss(pairs, distances, 4).sum() + hinge_loss(pairs, distances + 1, 4).sum()
    for signs in all_signs(10)[::37]:
        loss = hinge_loss(pairs, distances + pairs.differ(signs), 4).sum()
        # z' A z counts each pair twice, and A holds 4 a
        np.testing.assert_allclose(loss, (whole + signs @ matrix @ signs / 8) / 2)


def test_the_loss_is_that_of_the_definition():
    pairs = Pairs(4, np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([True, False, False]))
    np.testing.assert_array_equal(hinge_loss(pairs, np.array([3, 1, 5]), 8), [9, 9, 0])


@pytest.mark.parametrize("seed", range(6))
def test_a_block_is_cut_exactly(seed):
    labels, _, _, matrix, rng = small_problem(seed)
    signs = rng.choice([-1, 1], size=10)
    for block in label_blocks(labels):
        candidates = np.tile(signs, (2 ** len(block), 1))
        candidates[:, block] = all_signs(len(block))
        costs = np.einsum("ki,ij,kj->k", candidates, matrix.toarray(), candidates)
        found = signs.copy()
        found[block] = cut_block(matrix, block, signs)
        assert found @ matrix @ found == costs.min()


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_over_the_blocks_never_raise_the_objective(seed):
    labels, _, _, matrix, rng = small_problem(seed, n=60)
    signs = spectral_signs(matrix, rng)
    cost = signs @ matrix @ signs
    for _ in range(3):
        for block in label_blocks(labels):
            signs[block] = cut_block(matrix, block, signs)
            before, cost = cost, signs @ matrix @ signs
            assert cost <= before


def test_inference_finds_the_best_of_all_bits_of_ten_rows():
    for seed in range(20):
        labels, _, _, matrix, rng = small_problem(seed)
        found = infer_bit(matrix, label_blocks(labels), 2, rng)
        candidates = all_signs(10)
        lowest = np.einsum("ki,ij,kj->k", candidates, matrix.toarray(), candidates).min()
        assert found @ matrix @ found <= 0.9 * lowest  # both are negative
        if seed < 5:
            assert found @ matrix @ found == lowest


def test_the_spectral_start_is_the_lowest_eigenvector():
    _, _, _, matrix, rng = small_problem(1)
    vector = np.linalg.eigh(matrix.toarray())[1][:, 0]
    signs = spectral_signs(matrix, rng)
    assert abs(signs @ np.sign(vector)) == 10
    assert (np.abs(spectral_signs(0 * matrix, rng)) == 1).all()


def test_pairs_are_drawn_evenly_from_similar_and_dissimilar_rows():
    y = np.repeat(np.arange(10), 30)
    pairs = draw_pairs(read_labels(y), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(pairs.similar, y[pairs.first] == y[pairs.second])
    assert (pairs.first < pairs.second).all()
    assert len(np.unique(pairs.first * 300 + pairs.second)) == len(pairs.first)
    for some in (pairs.similar, ~pairs.similar):
        counts = np.bincount(np.concatenate([pairs.first[some], pairs.second[some]]), minlength=300)
        assert counts.min() >= 5
    assert abs(pairs.similar.mean() - 0.5) < 0.05
    matrix = pairs.matrix(np.arange(1, len(pairs.first) + 1))
    np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)


def test_rows_of_a_block_are_similar_and_every_row_is_in_one():
    Y = np.random.default_rng(0).integers(0, 2, size=(40, 4))
    Y[:5] = 0
    labels = read_labels(Y)
    blocks = label_blocks(labels)
    np.testing.assert_array_equal(np.unique(np.concatenate(blocks)), np.arange(40))
    for block in blocks:
        assert len(block) == 1 or (Y[block] @ Y[block].T > 0).all()
    pairs = draw_pairs(labels, 40, np.random.default_rng(0))
    np.testing.assert_array_equal(pairs.similar, (Y[pairs.first] * Y[pairs.second]).sum(axis=1) > 0)
    assert len(pairs.first) == 40 * 39 // 2


def test_the_trees_bits_replace_the_inferred_ones_in_the_next_step(clusters):
    """The recorded loss is that of the codes that `encode` returns."""
    X, y = clusters
    fitted = FastHash(8, **{**QUICK, "n_trees": 1, "tree_depth": 1}).fit(X, y)
    rng = np.random.default_rng(0)
    pairs = draw_pairs(read_labels(y), QUICK["n_pairs"], rng)
    bits, inferred = fitted.transform(X) > 0, np.unpackbits(fitted.training_codes_, axis=1) > 0
    assert (bits != inferred).any()  # stumps cannot learn everything
    distances = np.zeros(len(pairs.first), dtype=int)
    for bit, values in enumerate(fitted.objective_):
        with_inferred = distances + pairs.differ(inferred[:, bit])
        distances += pairs.differ(bits[:, bit])
        for name, apart in (("objective", distances), ("inferred", with_inferred)):
            np.testing.assert_allclose(
                values[name], hinge_loss(pairs, apart, bit + 1).mean() / (bit + 1) ** 2
            )
        assert values["error"] == np.mean(bits[:, bit] != inferred[:, bit])


def test_trees_may_take_kernel_features(clusters, tmp_path):
    X, y = clusters
    fitted = FastHash(8, features=AnchorKernel(20), **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = FastHash.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(X), fitted.encode(X))
    assert fitted.codec_.feature_map.n_features == 20
    assert fitted.codec_.n_inputs == 8
    codes = fitted.encode(X)
    same, other = ((codes[:, None] ^ codes)[y[:, None] == y], (codes[:, None] ^ codes)[y[:, None] != y])
    assert np.unpackbits(same).mean() < 0.5 * np.unpackbits(other).mean()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_trees": 0}, "n_trees must be an integer of at least 1, got 0"),
        ({"tree_depth": 13}, "tree_depth must be an integer from 1 to 12, got 13"),
        ({"n_split_features": 0.5}, "n_split_features"),
        ({"kept_weight": 1.5}, r"kept_weight must be a finite number above 0 and at most 1, got 1\.5"),
        ({"kept_weight": 0}, "kept_weight"),
        ({"n_pairs": 0}, "n_pairs"),
        ({"n_sweeps": -1}, "n_sweeps"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        FastHash(8, **{**QUICK, **parameters}).fit(*clusters)
