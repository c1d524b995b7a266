"""Groups among rows without labels: clusterings, what they say of rows, and how probably two new rows share a class."""

from types import SimpleNamespace

import numpy as np
import pytest

from supquant.estimators.calibration import fit_curve
from supquant.model import found_classes
from supquant.model.clusters import unit_positions
from supquant.model.found_classes import (
    cluster,
    cluster_likeness,
    find_classes,
    likeness_directions,
    pairs_of_left_out,
)
from supquant.model.novelty import new_share

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


@pytest.fixture(scope="module", params=["as frequent", "twice as frequent"])
def several(request):
    """Clusterings of three draws of rows, 24 of whose 30 groups have labels, and which of the unlabelled rows are new.

    Half of the labelled groups are as frequent or twice as frequent as the other half. Among unlabelled rows, all groups are
    equally frequent.
    """
    odds = np.repeat([2.0 if request.param == "twice as frequent" else 1.0, 1.0], 12)
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        centres, group = rng.normal(size=(30, 16)), rng.integers(30, size=3400)
        y = rng.choice(24, size=2000, p=odds / odds.sum())
        labelled, unlabelled = (
            (centres[of] + 0.6 * rng.normal(size=(len(of), 16))).astype(np.float32) for of in (y, group)
        )
        held = np.arange(2000) < 400
        found.append((find_classes(labelled, y, 24, unlabelled, held, rng, 1), group >= 24))
    return found


def test_rows_of_known_classes_look_equally_new_with_and_without_a_label(several):
    parts = np.array([0.2, 0.4, 0.6, 0.8])
    below = []
    for found, new in several:
        order = np.argsort(found.of_labelled)
        mass = np.cumsum(found.weights[order]) / found.weights.sum()
        limits = found.of_labelled[order][mass.searchsorted(parts)]
        below.append((found.of_unlabelled[found.seen & ~new] <= limits[:, None]).mean(axis=1))
    np.testing.assert_allclose(np.mean(below, axis=0), parts, atol=0.1)


def test_the_share_of_new_rows_is_found_from_clusterings(several):
    shares = [
        new_share(
            found.of_labelled[found.judged], found.of_unlabelled[found.seen], found.weights[found.judged]
        )
        for found, _ in several
    ]
    assert all(0.12 < share < 0.3 for share in shares)  # a fifth is new; without weights, shares are greater


def test_rows_that_nothing_tells_apart_look_equally_new_with_and_without_a_label():
    # Every row is among the neighbours of others: without folds, they would tell which rows have a label.
    apart = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labelled, unlabelled = rng.normal(size=(2, 700, 12)).astype(np.float32)
        held = np.arange(700) < 100
        found = find_classes(labelled, rng.integers(8, size=700), 8, unlabelled, held, rng, 1)
        of_labelled, of_unlabelled = found.of_labelled[found.judged], found.of_unlabelled[found.seen]
        apart.append((of_unlabelled.mean() - of_labelled.mean()) / found.of_unlabelled.std())
    assert abs(np.mean(apart)) < 0.1


# how probably two new rows share a class -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blobs():
    """Positions of 3000 labelled rows of twenty groups that overlap, and of 2250 rows of these and ten more groups."""
    rng = np.random.default_rng(0)
    centres = unit_positions(rng.normal(size=(30, 12)).astype(np.float32))
    y, group = rng.integers(20, size=3000), rng.integers(30, size=2250)

    def rows(of):
        return (centres[of] + 0.17 * rng.normal(size=(len(of), 12))).astype(np.float32)

    return SimpleNamespace(y=y, labelled=rows(y), group=group, unlabelled=rows(group))


def curve_of(blobs, n_jobs=1, **changed):
    told = {**vars(blobs), "novelty": (blobs.group >= 20).astype(np.float32), **changed}
    rng = np.random.default_rng(2)
    out = told.get("out", np.isin(told["y"], [3, 7, 12, 16]))
    labelled = told["labelled"], told["y"], 20, out
    seen = rng.permutation(len(told["novelty"]))
    pairs = pairs_of_left_out(*labelled, told["unlabelled"], seen, told["novelty"][seen], rng, n_jobs)
    return None if pairs is None else fit_curve(*pairs)


def test_rows_whose_likenesses_are_large_share_a_class_more_probably(blobs):
    products, probabilities = curve_of(blobs)
    assert (np.diff(products) > 0).all()
    assert (np.diff(probabilities) >= 0).all()
    assert probabilities[0] < 0.05
    assert probabilities[-1] > 0.7


def test_the_curve_of_left_out_classes_holds_for_new_ones(blobs):
    curve = curve_of(blobs)
    found = find_classes(
        blobs.labelled, blobs.y, 20, blobs.unlabelled, np.zeros(3000, dtype=bool), np.random.default_rng(3), 1
    )
    new = blobs.group >= 20
    powers = found_classes.cluster_powers(found.clusters.memberships(blobs.unlabelled[new]))
    alike = (powers @ powers.T) / len(found.clusters.ends)
    same = blobs.group[new][:, None] == blobs.group[new]
    others = ~np.eye(len(alike), dtype=bool)
    order = np.argsort(alike[others])
    expected, happened = np.interp(alike[others], *curve)[order], same[others][order]
    for part in np.array_split(np.arange(len(order)), 20):
        assert expected[part].mean() == pytest.approx(happened[part].mean(), abs=0.12)


def test_queries_do_not_find_themselves(blobs):
    y = np.random.default_rng(0).permutation(
        blobs.y
    )  # then a row is like itself and like no other one of its class
    assert curve_of(blobs, y=y)[1].max() < 0.4


def test_the_curve_does_not_depend_on_the_number_of_threads(blobs):
    np.testing.assert_array_equal(curve_of(blobs, n_jobs=3), curve_of(blobs), strict=True)


@pytest.mark.parametrize("n_out", [0, 1, 3000])
def test_there_is_no_curve_if_no_row_can_ask_or_answer_or_all_are_left_out(blobs, n_out):
    assert curve_of(blobs, out=np.arange(3000) < n_out) is None


def test_there_is_no_curve_if_no_row_is_new(blobs):
    assert curve_of(blobs, novelty=np.zeros(2250, dtype=np.float32)) is None


def test_items_that_are_hardly_new_share_no_class_with_a_new_query(blobs):
    products, probabilities = curve_of(blobs, novelty=np.full(2250, 1e-4, dtype=np.float32))
    assert np.isfinite(probabilities).all()
    assert products.max() < 1e-3  # a product is also one with the novelty of the item


@pytest.fixture
def clustered(monkeypatch):
    """The unlabelled rows of every ensemble of clusterings, of unit length."""
    told = []
    present = found_classes.clusterings

    def listen(known, y, n_labels, mixed, *others):
        told.append(mixed)
        return present(known, y, n_labels, mixed, *others)

    monkeypatch.setattr(found_classes, "clusterings", listen)
    return told


def test_left_out_classes_are_found_among_unlabelled_rows_alone(blobs, clustered):
    curve_of(blobs)
    # With labelled rows of left-out classes next to them, these would be denser than new classes, and found more easily.
    np.testing.assert_array_equal(clustered[0], unit_positions(blobs.unlabelled))


def test_if_all_unlabelled_rows_are_new_labelled_ones_show_the_left_out_classes(blobs, clustered):
    new = blobs.unlabelled[blobs.group >= 20]
    curve = curve_of(blobs, unlabelled=new, novelty=np.ones(len(new), dtype=np.float32))
    assert curve is not None
    added = clustered[0][len(new) :]
    assert len(added) == round(len(new) * 4 / 20)  # four of twenty classes are left out
    left_out = unit_positions(blobs.labelled[np.isin(blobs.y, [3, 7, 12, 16])])
    assert (added[:, None] == left_out).all(axis=2).any(axis=1).all()
