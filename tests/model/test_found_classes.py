"""Groups among rows without labels: clusterings, the share of new rows, and how much a row looks new."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from supquant.estimators.calibration import fit_curve
from supquant.model import found_classes
from supquant.model.clusters import unit_positions
from supquant.model.found_classes import (
    N_FOLDS,
    N_NEIGHBOURS,
    RATIO_RIDGE,
    class_weights,
    cluster,
    cluster_likeness,
    column_ratios,
    find_classes,
    likeness_directions,
    neighbour_ratios,
    new_share,
    newness_curve,
    novelty_weights,
    pairs_of_left_out,
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


# how new a row looks -------------------------------------------------------------------------------------------------


def counted(rows, counts, asking, folds):
    """`neighbour_ratios` as a plain loop."""
    found = np.empty((len(asking), N_FOLDS + 1))
    for number, own in enumerate(asking):
        others = np.argsort(-(rows @ rows[own]), kind="stable")
        others = others[others != own]
        for fold in range(N_FOLDS + 1):
            nearest = others[folds[others] != fold][:N_NEIGHBOURS]
            found[number, fold] = np.log((1 + counts[1, nearest].sum()) / (1 + counts[0, nearest].sum()))
    return found


def test_neighbours_are_counted_without_the_row_and_its_fold(rng):
    rows = unit_positions(rng.normal(size=(1200, 6)).astype(np.float32))
    counts = np.array(
        [np.append(rng.uniform(0.2, 2, size=700), np.zeros(500)), np.repeat([0.0, 1.0], [700, 500])]
    )
    asking, folds = rng.permutation(1200)[:600], rng.integers(N_FOLDS, size=1200)
    found = neighbour_ratios(rows, counts, asking, folds, 2)
    np.testing.assert_allclose(found, counted(rows, counts, asking, folds), rtol=1e-12)


def test_few_rows_have_neighbours(rng):
    rows = unit_positions(rng.normal(size=(6, 3)).astype(np.float32))
    found = neighbour_ratios(rows, np.eye(2)[:, [0, 0, 0, 1, 1, 1]], np.arange(6), np.arange(6) % N_FOLDS, 1)
    np.testing.assert_allclose(
        found, counted(rows, np.eye(2)[:, [0, 0, 0, 1, 1, 1]], np.arange(6), np.arange(6) % N_FOLDS)
    )


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


# labelled rows whose classes are as frequent as those of others ----------------------------------------------------------


@pytest.fixture(scope="module")
def shifted():
    """Memberships in columns of three known classes and of a found one: of labelled rows, most of them of the first class, and of
    rows without labels, of which a quarter is new and the others are equally of the three classes."""
    rng = np.random.default_rng(0)

    def memberships(of):
        logits = 4 * np.eye(4)[of] + rng.normal(size=(len(of), 4))
        return (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)

    y = np.repeat([0, 1, 2], [1600, 200, 200])
    return SimpleNamespace(
        y=y, known=memberships(y), mixed=memberships(np.repeat([0, 1, 2, 3], [500, 500, 500, 500]))
    )


def test_weights_make_classes_as_frequent_as_among_rows_without_labels(shifted):
    weights = class_weights(shifted.known, shifted.y, 3, shifted.mixed)
    assert weights.mean() == pytest.approx(1)
    shares = np.bincount(shifted.y, weights) / len(shifted.y)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)


def test_rows_of_one_class_have_one_weight(shifted):
    weights = class_weights(shifted.known, shifted.y, 3, shifted.mixed)
    for label in range(3):
        assert len(np.unique(weights[shifted.y == label])) == 1


def test_weights_are_one_if_classes_are_equally_frequent(shifted):
    rows = np.random.default_rng(1).permutation(2000)
    known = rows[rows < 1500] // 500  # as many of each class
    mixed = shifted.mixed[:1500]
    weights = class_weights(mixed[np.argsort(known, kind="stable")], np.sort(known), 3, mixed)
    np.testing.assert_allclose(weights, 1, atol=0.02)


def test_weighted_rows_of_rare_classes_do_not_look_new(shifted):
    rows, kinds = unit_positions(np.concatenate([shifted.known, shifted.mixed])), np.repeat([0.0, 1.0], 2000)
    weights = class_weights(shifted.known, shifted.y, 3, shifted.mixed)

    def looks_new(weights):
        counts = np.stack([np.append(weights, np.zeros(2000)), kinds])
        asking = 2000 + np.arange(2000)
        ratios = neighbour_ratios(rows, counts, asking, np.zeros(4000, dtype=int), 1)[:, -1]
        return ratios.reshape(4, 500).mean(axis=1)  # by class, the last one is new

    with_weights, without = looks_new(weights), looks_new(np.ones(2000))
    assert np.ptp(with_weights[:3]) < 0.4
    assert without[1] - without[0] > 1  # without weights, the test would prove nothing
    assert (with_weights[:3] < with_weights[3] - 0.7).all()


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0)])
def test_rows_have_equal_weights_if_there_is_nothing_to_compare(n, m):
    known, mixed = np.full((n, 3), 1 / 3, np.float32), np.full((m, 3), 1 / 3, np.float32)
    np.testing.assert_array_equal(class_weights(known, np.zeros(n, dtype=int), 2, mixed), np.ones(n))


def test_a_class_without_rows_gives_finite_weights(shifted):
    weights = class_weights(shifted.known, shifted.y, 4, shifted.mixed)
    assert np.isfinite(weights).all()
    assert (weights > 0).all()


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
