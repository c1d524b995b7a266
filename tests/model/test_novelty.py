"""Novelty: how far rows without labels outnumber others, the share of new rows, and how probably a row is new."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from supquant.model.clusters import unit_positions
from supquant.model.novelty import (
    N_FOLDS,
    N_NEIGHBOURS,
    RATIO_RIDGE,
    column_ratios,
    nearest_rows,
    neighbour_ratios,
    new_share,
    newness_curve,
    novelty_weights,
    row_weights,
)

# how new a row looks -------------------------------------------------------------------------------------------------


def counted(rows, weights, asking, folds):
    """`neighbour_ratios` as a plain loop."""
    found = np.empty((len(asking), N_FOLDS + 1))
    for number, own in enumerate(asking):
        others = np.argsort(-(rows @ rows[own]), kind="stable")
        others = others[others != own]
        for fold in range(N_FOLDS + 1):
            nearest = others[folds[others] != fold][:N_NEIGHBOURS]
            unlabelled = np.count_nonzero(weights[nearest] == 0)
            found[number, fold] = np.log((1 + unlabelled) / (1 + weights[nearest].sum()))
    return found


def test_neighbours_are_counted_without_the_row_and_its_fold(rng):
    rows = unit_positions(rng.normal(size=(1200, 6)).astype(np.float32))
    weights = np.append(rng.uniform(0.2, 2, size=700), np.zeros(500))
    asking, folds = rng.permutation(1200)[:600], rng.integers(N_FOLDS, size=1200)
    found = neighbour_ratios(nearest_rows(rows, asking, 2), weights, folds)
    np.testing.assert_allclose(found, counted(rows, weights, asking, folds), rtol=1e-12)


def test_few_rows_have_neighbours(rng):
    rows = unit_positions(rng.normal(size=(6, 3)).astype(np.float32))
    weights, asking, folds = np.repeat([1.0, 0.0], 3), np.arange(6), np.arange(6) % N_FOLDS
    found = neighbour_ratios(nearest_rows(rows, asking, 1), weights, folds)
    np.testing.assert_allclose(found, counted(rows, weights, asking, folds))


def test_ratios_of_columns_are_a_ridge_regression_without_the_fold(rng):
    memberships = rng.dirichlet(np.full(6, 0.3), size=300).astype(np.float32)
    ratios, folds = rng.normal(size=(300, N_FOLDS + 1)), rng.integers(N_FOLDS, size=300)
    found = column_ratios(memberships, ratios, folds, 2)
    centred = memberships - memberships.mean(axis=0, dtype=np.float64)
    for fold in range(N_FOLDS + 1):
        own = folds != fold
        gram = centred[own].T @ centred[own]
        gram += RATIO_RIDGE * np.trace(gram) / 6 * np.eye(6)
        wanted = centred[own].T @ (ratios[own, fold] - ratios[own, fold].mean())
        np.testing.assert_allclose(found[fold], np.linalg.solve(gram, wanted), rtol=1e-3, atol=1e-4)


# labelled rows whose classes are as frequent as those of others ----------------------------------------------------------


@pytest.fixture(scope="module")
def shifted():
    """Rows of three known classes and of a new one near the second. Of each known class, 400 rows have no label; 800 rows of the
    first one have labels, and 80 of each of the others."""
    rng = np.random.default_rng(0)
    centres = unit_positions(rng.normal(size=(3, 8)).astype(np.float32))
    centres = unit_positions(np.vstack([centres, centres[1] + 0.5 * centres[2]]))
    y, group = np.repeat([0, 1, 2], [800, 80, 80]), np.repeat([0, 1, 2, 3], 400)
    rows = centres[np.append(y, group)] + 0.1 * rng.normal(size=(len(y) + len(group), 8))
    return SimpleNamespace(
        rows=unit_positions(rows.astype(np.float32)), y=np.append(y, np.full(len(group), -1)), group=group
    )


def weights_of(shifted, y, n_labels=3):
    asking = np.flatnonzero(y >= 0)
    return row_weights(nearest_rows(shifted.rows, asking, 1), asking, y, n_labels)


def test_classes_are_weighted_to_be_as_frequent_as_among_rows_without_labels(shifted):
    weights = weights_of(shifted, shifted.y)
    assert not weights[shifted.y < 0].any()
    per_class = [np.unique(weights[shifted.y == label]) for label in range(3)]
    assert [len(each) for each in per_class] == [1, 1, 1]
    first, second, third = (float(each[0]) for each in per_class)
    assert third / first == pytest.approx(
        10, rel=0.35
    )  # one more of each kind is counted, which makes small shares smaller
    assert second / third == pytest.approx(1, abs=0.35)  # though a new class is near it


def test_weights_are_nearly_one_if_classes_are_equally_frequent(shifted):
    kept = np.delete(np.arange(len(shifted.y)), np.arange(80, 800))  # 80 labelled rows of each class
    equal = SimpleNamespace(rows=shifted.rows[kept])
    np.testing.assert_allclose(weights_of(equal, shifted.y[kept])[:240], 1, atol=0.3)


def test_weighted_rows_of_rare_classes_do_not_look_new(shifted):
    n = np.count_nonzero(shifted.y >= 0)
    nearest = nearest_rows(shifted.rows, n + np.arange(1600), 1)

    def looks_new(weights):
        ratios = neighbour_ratios(nearest, weights, np.zeros(n + 1600, dtype=int))[:, -1]
        return ratios.reshape(4, 400).mean(axis=1)  # by class, the last one is new

    with_weights = looks_new(weights_of(shifted, shifted.y))
    without = looks_new((shifted.y >= 0).astype(float))
    assert np.ptp(with_weights[:3]) < 0.5
    assert without[2] - without[0] > 1  # without weights, the test would prove nothing
    assert (with_weights[:3] < with_weights[3] - 0.7).all()


def test_chance_shifts_no_class(rng):
    rows = unit_positions(rng.normal(size=(3000, 6)).astype(np.float32))
    y = np.append(rng.integers(30, size=1500), np.full(1500, -1))
    weights = row_weights(nearest_rows(rows, np.arange(1500), 1), np.arange(1500), y, 30)
    np.testing.assert_array_equal(weights[:1500], 1)


def test_a_class_without_rows_gives_finite_weights(shifted):
    weights = weights_of(shifted, shifted.y, 4)
    np.testing.assert_array_equal(weights, weights_of(shifted, shifted.y))


# the share of new rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_share_of_new_rows_is_found(share, seed):
    rng = np.random.default_rng(seed)
    n_new = round(4000 * share)
    mixed = np.concatenate([rng.normal(size=4000 - n_new), rng.normal(3.5, 1, size=n_new)])
    found = new_share(rng.normal(size=3000), mixed)
    assert share - 0.07 < found < share + 0.03


@pytest.mark.parametrize("n", [50, 200, 3000])
def test_the_share_is_tiny_if_nothing_is_new(n):
    for seed in range(20):
        known, mixed = np.random.default_rng(seed).normal(size=(2, n))
        assert new_share(known, mixed) < 0.03


def test_chance_makes_no_row_new():
    # Two deviations alone would find a share in one of ten draws.
    draws = (np.random.default_rng(seed).normal(size=(2, 3000)) for seed in range(100))
    assert [new_share(known, mixed) for known, mixed in draws] == [0.0] * 100


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_share_of_few_rows_is_a_share(n):
    assert 0 <= new_share(np.arange(n, dtype=float), np.arange(n, dtype=float) + 9) < 1


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_share_of_new_rows_is_found_among_weighted_rows(share):
    rng = np.random.default_rng(0)
    known = rng.normal(
        np.repeat([0, 2], [3000, 300])
    )  # of two classes that are equally frequent among others
    weights = np.repeat([0.5, 5], [3000, 300])
    n_new = round(4000 * share)
    mixed = rng.normal(np.repeat([0, 2, 7], [2000 - n_new // 2, 2000 - n_new // 2, n_new]))
    assert share - 0.07 < new_share(known, mixed, weights / weights.mean()) < share + 0.03
    assert new_share(known, mixed) > share + 0.1  # without weights, the rare class looks new


# how much a row looks new --------------------------------------------------------------------------------------------


def normal_scores(rng, share, n=20_000):
    """Return scores of known rows (n, 1), of mixed rows (n, 1), and which of them are new: normal with the means 0 and 3."""
    new = rng.uniform(size=n) < share
    return rng.normal(size=(n, 1)), rng.normal(3 * new)[:, None], new


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_logits_of_a_mixture_are_found(rng, share):
    known, mixed, new = normal_scores(rng, share)
    weights, shift = novelty_weights(known, mixed, share, np.ones(len(known)))
    # With u the probability of being new, log(u / (1 - u)) is 3 x - 9 / 2 + log(share / (1 - share)).
    assert weights[0] == pytest.approx(3, rel=0.15)
    assert shift == pytest.approx(-4.5 + np.log(share / (1 - share)), rel=0.15)
    u = expit(mixed @ weights + shift)
    assert u.mean() == pytest.approx(share, abs=0.02)
    assert u[new].mean() == pytest.approx(
        (u * u).mean() / u.mean(), abs=0.05
    )  # probabilities keep their word


def test_known_rows_count_with_their_weights(rng):
    known, mixed, _ = normal_scores(rng, 0.3)
    odd = rng.normal(3, 1, size=(20_000, 1))  # rows that are not as others are, and have no weight
    told = novelty_weights(known, mixed, 0.3, np.ones(len(known)))
    again = novelty_weights(
        np.concatenate([known, odd]), mixed, 0.3, np.repeat([1.0, 0.0], [len(known), len(odd)])
    )
    # The penalty on weights is in units of the spread of all rows, so they differ a little.
    assert again[0][0] == pytest.approx(told[0][0], rel=0.02)
    assert again[1] == pytest.approx(told[1], rel=0.02)


def test_weights_of_scores_are_never_negative(rng):
    known, mixed = rng.normal(size=(500, 3)), rng.normal(size=(800, 3))
    mixed[:200, 0] += (
        3  # the first score tells new rows, the second one speaks against them, and the last one is noise
    )
    mixed[:200, 1] -= 3
    weights, _ = novelty_weights(known, mixed, 0.25, np.ones(500))
    assert (weights >= 0).all()
    assert weights[0] > 0.3
    assert weights[1] == 0


def test_scores_that_only_speak_against_new_rows_have_no_weight(rng):
    known, mixed = rng.normal(size=(300, 2)), rng.normal(-1, 1, size=(300, 2))
    weights, shift = novelty_weights(known, mixed, 0.2, np.ones(300))
    assert not weights.any()
    assert expit(shift) == pytest.approx(0.2, abs=0.01)  # every row is as probably new as any other


def test_the_unit_of_a_score_does_not_matter(rng):
    known, mixed = rng.normal(size=(500, 2)), rng.normal(0.8, 1, size=(500, 2))
    mixed[:100] += 3
    weights, shift = novelty_weights(known, mixed, 0.4, np.ones(500))
    scale, offset = np.array([1000, 0.001]), np.array([5, -2])
    other, moved = novelty_weights(known * scale + offset, mixed * scale + offset, 0.4, np.ones(500))
    np.testing.assert_allclose(other * scale, weights, rtol=1e-2)
    assert moved + other @ offset == pytest.approx(shift, rel=1e-2)


def test_scores_that_are_all_equal_have_no_say():
    weights, shift = novelty_weights(np.ones((50, 2)), np.ones((60, 2)), 0.3, np.ones(50))
    assert expit(weights @ [1, 1] + shift) == pytest.approx(0.3, abs=0.01)


# how often rows that look so new are new -----------------------------------------------------------------------------


def test_novelties_become_frequencies_whatever_their_scale(rng):
    known, is_new = rng.normal(size=40_000), rng.uniform(size=60_000) < 0.3
    mixed = rng.normal(size=60_000) + 2.5 * is_new
    flat = [expit(each - 1) for each in (known, mixed)]  # for these densities, expit(2.5 each - 4) is right
    curve = newness_curve(*flat, 0.3, np.ones(40_000))
    said = np.interp(flat[1], *curve)
    assert (np.diff(curve[1]) >= 0).all()
    for part in np.array_split(np.argsort(mixed), 10):
        assert said[part].mean() == pytest.approx(is_new[part].mean(), abs=0.04)
    assert abs(flat[1] - is_new).mean() > abs(said - is_new).mean() + 0.1


def test_rows_that_count_more_make_their_novelty_less_new():
    known, mixed = np.repeat([0.2, 0.4], 500), np.repeat([0.2, 0.4, 0.8], [300, 300, 400])
    equal, shifted = (newness_curve(known, mixed, 0.5, np.repeat(w, 500)) for w in ([1.0, 1.0], [1.8, 0.2]))
    assert np.interp(0.2, *shifted) < np.interp(0.2, *equal)
    assert np.interp(0.4, *shifted) > np.interp(0.4, *equal)
