"""Groups among rows without labels: clusterings, the share of new rows, and how much a row looks new."""

from types import SimpleNamespace

import numpy as np
import pytest

from supquant.model import found_classes
from supquant.model.clusters import unit_positions
from supquant.model.found_classes import (
    SMOOTHING,
    cluster,
    cluster_likeness,
    density_ratio,
    find_classes,
    likeness_directions,
    log_ratios,
    new_share,
)

KNOWN, NEW = 5, 3  # of eight groups of rows, those with labels and the others


@pytest.fixture(scope="module")
def drawn():
    """Positions of 500 labelled rows of five groups, and of 900 rows of eight groups."""
    rng = np.random.default_rng(0)
    centres = unit_positions(rng.normal(size=(KNOWN + NEW, 10)).astype(np.float32))
    y, group = rng.integers(KNOWN, size=500), rng.integers(KNOWN + NEW, size=900)

    def rows(of):
        return (centres[of] + 0.1 * rng.normal(size=(len(of), 10))).astype(np.float32)

    return SimpleNamespace(
        y=y, labelled=rows(y), group=group, unlabelled=rows(group), held=np.arange(500) < 120
    )


def find(drawn, n_jobs=1, **changed):
    told = {**vars(drawn), **changed}
    rng = np.random.default_rng(1)
    return find_classes(told["labelled"], told["y"], KNOWN, told["unlabelled"], told["held"], rng, n_jobs)


# clusterings ---------------------------------------------------------------------------------------------------------


def test_centres_of_known_classes_are_first_and_those_of_new_groups_are_found(drawn):
    known, mixed = unit_positions(drawn.labelled), unit_positions(drawn.unlabelled)
    centres = cluster(known, drawn.y, KNOWN, mixed, 6, np.random.default_rng(0))
    assert centres.shape == (KNOWN + 6, 10)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, rtol=1e-5)
    assert (known @ centres[:KNOWN].T).argmax(axis=1).tolist() == drawn.y.tolist()
    nearest = (mixed @ centres.T).argmax(axis=1)
    new = drawn.group >= KNOWN
    assert (nearest[new] >= KNOWN).all()
    for number in np.unique(nearest[new]):  # a found centre is that of one group
        assert len(np.unique(drawn.group[nearest == number])) == 1


def test_many_labelled_rows_keep_the_centre_of_their_class():
    known = np.tile(np.float32([[1, 0]]), (1000, 1))
    mixed = unit_positions(np.repeat(np.float32([[1, 0.3], [-1, 0]]), 5, axis=0))
    centres = cluster(known, np.zeros(1000, dtype=int), 1, mixed, 1, np.random.default_rng(0))
    np.testing.assert_allclose(centres, [[1, 0], [-1, 0]], atol=0.01)


def test_a_class_with_rows_in_no_clustering_has_a_column(drawn):
    found = find(drawn, held=drawn.y == 2)  # then no row of this class takes part
    starts = np.concatenate([[0], found.clusters.ends[:-1]])
    assert (found.clusters.ends - starts > KNOWN).all()
    assert np.isfinite(found.clusters.memberships(drawn.labelled)).all()


def test_new_rows_have_higher_ratios_than_known_ones(drawn):
    found = find(drawn)
    assert found.judged[drawn.held].all()  # held-out rows are out of every clustering
    new = drawn.group >= KNOWN
    assert found.of_unlabelled[new & found.seen].min() > found.of_unlabelled[~new & found.seen].max()
    assert found.of_labelled[found.judged].mean() == pytest.approx(found.of_unlabelled[~new].mean(), abs=0.1)
    per_row = found.clusters.memberships(drawn.unlabelled) @ found.clusters.ratios
    assert np.corrcoef(per_row[found.seen], found.of_unlabelled[found.seen])[0, 1] > 0.97


def test_clusterings_do_not_depend_on_the_number_of_threads(drawn):
    one, three = find(drawn), find(drawn, n_jobs=3)
    for name, array in one.clusters.arrays().items():
        np.testing.assert_array_equal(three.clusters.arrays()[name], array, strict=True)
    np.testing.assert_array_equal(three.of_unlabelled, one.of_unlabelled, strict=True)


@pytest.mark.parametrize("how", ["equal", "zero", "of one labelled class"])
def test_rows_without_labels_that_tell_nothing_are_no_error(drawn, how):
    rows = {
        "equal": drawn.unlabelled[:1],
        "zero": np.zeros((1, 10), np.float32),
        "of one labelled class": drawn.labelled[:1],
    }
    found = find(drawn, unlabelled=np.repeat(rows[how], 300, axis=0))
    assert np.isfinite(found.of_labelled).all()
    assert np.isfinite(found.of_unlabelled).all()
    assert np.isfinite(found.clusters.kernel.anchors).all()


def test_likenesses_keep_products_of_powers_of_memberships(drawn):
    powers = np.abs(np.random.default_rng(0).normal(size=(200, 12))).astype(np.float32)
    directions = likeness_directions(powers, 64)
    assert directions.shape == (12, 12)
    np.testing.assert_allclose((powers @ directions) @ (powers @ directions).T, powers @ powers.T, rtol=1e-4)
    assert likeness_directions(powers, 3).shape == (12, 3)
    assert likeness_directions(0 * powers, 3).shape == (12, 0)


def test_rows_of_one_new_group_are_more_alike_than_rows_of_two(drawn):
    found = find(drawn)
    new = drawn.group >= KNOWN
    directions = cluster_likeness(found.clusters, drawn.unlabelled, new.astype(np.float32))
    powers = found_classes.cluster_powers(found.clusters.memberships(drawn.unlabelled[new]))
    alike = (powers @ directions) @ (powers @ directions).T
    same = drawn.group[new][:, None] == drawn.group[new]
    assert alike[same].mean() > 3 * alike[~same].mean()
    assert alike.max() <= 1 + 1e-3  # the mean over clusterings


def test_few_directions_of_likeness_are_those_in_which_new_rows_differ(drawn, monkeypatch):
    monkeypatch.setattr(found_classes, "MAX_LIKENESS", NEW)
    found = find(drawn)
    new = drawn.group >= KNOWN
    directions = cluster_likeness(found.clusters, drawn.unlabelled, new.astype(np.float32))
    lengths = np.square(
        found_classes.cluster_powers(found.clusters.memberships(drawn.unlabelled)) @ directions
    ).sum(axis=1)
    assert lengths[new].mean() > 3 * lengths[~new].mean()


# how much more often unlabelled rows are members ---------------------------------------------------------------------


def test_a_row_does_not_count_itself(rng):
    known, mixed = (rng.dirichlet(np.full(6, 0.3), size=n).astype(np.float32) for n in (40, 30))
    ratios, of_known, of_mixed = log_ratios(known, mixed)
    prior = SMOOTHING * 6

    def ratio(known, mixed):
        share = np.maximum(mixed.mean(axis=0, dtype=np.float64), 1e-12)
        mean = (known.sum(axis=0, dtype=np.float64) + prior * share) / (len(known) + prior)
        return np.log(share / mean)

    np.testing.assert_allclose(ratios, ratio(known, mixed), rtol=1e-6, atol=1e-9)
    for i, row in enumerate(known):
        assert of_known[i] == pytest.approx(row @ ratio(np.delete(known, i, axis=0), mixed), abs=1e-6)
    for i, row in enumerate(mixed):
        assert of_mixed[i] == pytest.approx(row @ ratio(known, np.delete(mixed, i, axis=0)), abs=1e-6)


def test_a_row_that_is_alone_in_its_column_looks_equally_new_with_and_without_a_label():
    many, one = np.tile(np.float32([[1, 0]]), (20, 1)), np.tile(np.float32([[1, 0]]), (20, 1))
    one[3] = 0, 1
    assert log_ratios(one, many)[1][3] == pytest.approx(log_ratios(many, one)[2][3], abs=0.1)


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 5), (5, 1)])
def test_with_one_row_of_a_kind_nothing_is_told(n, m):
    ratios, of_known, of_mixed = log_ratios(np.ones((n, 3), np.float32) / 3, np.ones((m, 3), np.float32) / 3)
    assert (ratios.shape, of_known.shape, of_mixed.shape) == ((3,), (n,), (m,))
    assert not np.concatenate([ratios, of_known, of_mixed]).any()


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


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_share_of_few_rows_is_a_share(n):
    assert 0 <= new_share(np.arange(n, dtype=float), np.arange(n, dtype=float) + 9) < 1


# how much a row looks new --------------------------------------------------------------------------------------------


def test_weights_of_scores_are_never_negative(rng):
    known, mixed = rng.normal(size=(500, 3)), rng.normal(size=(800, 3))
    mixed[:200, 0] += (
        3  # the first score tells new rows, the second one speaks against them, and the last one is noise
    )
    mixed[:200, 1] -= 3
    weights, _ = density_ratio(known, mixed)
    assert (weights >= 0).all()
    assert weights[0] > 0.3
    assert weights[1] == 0


def test_scores_that_only_speak_against_new_rows_have_no_weight(rng):
    weights, shift = density_ratio(rng.normal(size=(300, 2)), rng.normal(-1, 1, size=(300, 2)))
    assert not weights.any()
    assert shift == 0


def test_the_ratio_of_two_normal_densities_is_found(rng):
    weights, shift = density_ratio(rng.normal(0, 1, size=(20_000, 1)), rng.normal(1, 1, size=(30_000, 1)))
    assert weights[0] == pytest.approx(1, abs=0.05)  # log ratio of densities: x - 1 / 2
    assert shift == pytest.approx(-0.5, abs=0.05)


def test_the_unit_of_a_score_does_not_matter(rng):
    known, mixed = rng.normal(size=(500, 2)), rng.normal(0.8, 1, size=(500, 2))
    weights, shift = density_ratio(known, mixed)
    scale, offset = np.array([1000, 0.001]), np.array([5, -2])
    other, moved = density_ratio(known * scale + offset, mixed * scale + offset)
    np.testing.assert_allclose(other * scale, weights, rtol=1e-3)
    assert moved + other @ offset == pytest.approx(shift, rel=1e-2)
