"""The codes: a row's choice is the best one, and no sweep raises psi."""

import itertools

import numpy as np
import pytest

from supquant_lab.triplets import codes as triplet_codes
from supquant_lab.triplets.codes import CodeDescent, OwnCost
from supquant_lab.triplets.objective import TripletLoss, Triplets


def psi(codes, codebooks, own, loss):
    words = np.stack([codebooks[m][codes[:, m]] for m in range(len(codebooks))])  # (M, n, r)
    S = words.sum(axis=0)
    e = (S**2).sum(axis=1) - (words**2).sum(axis=(0, 2))
    return (
        loss.value(S)
        + own.quantization * ((S - own.projected) ** 2).sum()
        + own.constraint * ((e - own.constant) ** 2).sum()
    )


def drawn(seed, *, n=30, M=2, K=5, r=3, per_row=4, gamma=0.3, mu=0.05):
    rng = np.random.default_rng(seed)
    codebooks = rng.normal(size=(M, K, r))
    codes = rng.integers(K, size=(n, M), dtype=np.uint8)
    own = OwnCost(rng.normal(size=(n, r)), gamma, mu, 0.4)
    rows = np.array(
        [[i, *rng.permutation(np.delete(np.arange(n), i))[:2]] for i in range(n) for _ in range(per_row)]
    )
    return codes, codebooks, own, TripletLoss(Triplets(*rows.T), 1.0)


@pytest.mark.parametrize("block_places", [1, 40, 16384])
@pytest.mark.parametrize("M", [1, 2, 4])
def test_psi_falls_with_every_sweep_until_no_choice_changes(monkeypatch, block_places, M):
    monkeypatch.setattr(triplet_codes, "BLOCK_PLACES", block_places)
    for seed in range(3):
        codes, codebooks, own, loss = drawn(seed, M=M)
        descent = CodeDescent(codes, codebooks, own, loss)
        before = psi(codes, codebooks, own, loss)
        for _ in range(50):
            changed = descent.sweep()
            after = psi(descent.codes, codebooks, own, loss)
            if changed == 0:
                break
            assert after < before
            before = after
        assert changed == 0
        assert before < 0.9 * psi(codes, codebooks, own, loss)


def test_a_settled_row_has_the_best_of_all_codewords_in_each_codebook(monkeypatch):
    monkeypatch.setattr(triplet_codes, "BLOCK_PLACES", 1)
    codes, codebooks, own, loss = drawn(0)
    descent = CodeDescent(codes, codebooks, own, loss)
    while descent.sweep():
        pass
    settled = psi(descent.codes, codebooks, own, loss)
    for i, m, k in itertools.product(range(30), range(2), range(5)):
        other = descent.codes.copy()
        other[i, m] = k
        assert psi(other, codebooks, own, loss) > settled - 1e-5


@pytest.mark.parametrize("i", range(4))
def test_the_only_row_of_a_codebook_gets_the_best_of_all_codes(i):
    codes, codebooks, own, loss = drawn(i, M=1, K=16)
    brute = []
    for k in range(16):
        other = codes.copy()
        other[i, 0] = k
        brute.append(psi(other, codebooks, own, loss))
    descent = CodeDescent(codes, codebooks, own, loss)
    book = triplet_codes._Codebook.of(codebooks[0], descent._S @ codebooks[0].T, codes[:, 0].astype(np.intp))
    descent._improve(np.array([i]), book)
    assert book.words[i] == np.argmin(brute)


def test_the_violations_and_products_that_are_kept_are_those_of_the_codes():
    codes, codebooks, own, loss = drawn(5, M=3, K=8)
    descent = CodeDescent(codes, codebooks, own, loss)
    assert descent.sweep() > 10
    again = CodeDescent(descent.codes, codebooks, own, loss)
    np.testing.assert_allclose(descent._violations, again._violations, atol=1e-10)
    np.testing.assert_allclose(descent._S, again._S, atol=1e-12)
    np.testing.assert_allclose(descent._e, again._e, atol=1e-10)


def test_codes_do_not_depend_on_the_threads_and_the_given_ones_stay():
    codes, codebooks, own, loss = drawn(2, n=2000, K=8)
    given = codes.copy()
    found = []
    for n_jobs in (1, 2):
        descent = CodeDescent(codes, codebooks, own, TripletLoss(loss.triplets, 1.0, n_jobs))
        descent.sweep()
        found.append(descent.codes)
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(codes, given)


def test_rows_without_triplets_are_quantized():
    codes, codebooks, own, _ = drawn(1, M=2, mu=0.0)
    nothing = np.zeros(0, dtype=np.intp)
    descent = CodeDescent(codes, codebooks, own, TripletLoss(Triplets(nothing, nothing, nothing), 1.0))
    while descent.sweep():
        pass
    S = codebooks[0][descent.codes[:, 0]] + codebooks[1][descent.codes[:, 1]]
    start = codebooks[0][codes[:, 0]] + codebooks[1][codes[:, 1]]
    assert ((S - own.projected) ** 2).sum() < 0.5 * ((start - own.projected) ** 2).sum()
