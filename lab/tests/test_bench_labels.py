import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.bench import labels
from supquant_lab.bench.data import (
    BAYES_RIGHT,
    MAX_LABELS,
    GaussianClasses,
    bayes_accuracy,
    spread_for,
)


@pytest.mark.parametrize(("n_labels", "dimensions"), [(30, 16), (400, 64)])
def test_the_spread_makes_the_bayes_rule_right_99_times_in_100(n_labels, dimensions):
    spread = spread_for(n_labels, dimensions)
    right = []
    for seed in range(3):
        classes = GaussianClasses(n_labels, dimensions, spread, seed=seed)
        X, drawn = classes.draw(2000, stream=1)
        right.append(np.mean(classes.bayes(X) == drawn.indices))
    assert np.mean(right) == pytest.approx(BAYES_RIGHT, abs=0.008)
    assert bayes_accuracy(n_labels, dimensions, spread / 2) < 0.9


def test_rows_lie_around_the_mean_of_their_class():
    classes = GaussianClasses(4, 3, 10.0)
    X, drawn = classes.draw(8000, stream=0)
    noise = X - classes.means[drawn.indices]
    assert np.abs(noise.mean(axis=0)).max() < 0.06
    assert np.allclose(noise.std(axis=0), 1, atol=0.05)


def test_several_labels_per_row_are_added_up():
    classes = GaussianClasses(50, 8, 10.0, several=True)
    X, drawn = classes.draw(5000, stream=0, every=True)
    Y = drawn.sparse().toarray()
    counts = Y.sum(axis=1)
    assert set(counts) == set(range(1, MAX_LABELS + 1))
    assert Y.sum(axis=0).min() > 0
    assert Y[:, 0].sum() > 2 * Y[:, 40].sum()
    noise = X - (Y @ classes.means) / np.sqrt(counts)[:, None]
    assert np.allclose(noise.std(axis=0), 1, atol=0.05)


def test_every_label_has_a_row_if_asked():
    _, drawn = GaussianClasses(200, 2, 1.0).draw(200, stream=0, every=True)
    assert sorted(drawn.indices) == list(range(200))


def test_other_streams_and_seeds_give_other_rows():
    rows = [
        GaussianClasses(3, 2, 1.0, seed=seed).draw(20, stream=stream)[0]
        for seed, stream in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert np.array_equal(rows[0], rows[3])
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


def test_blocks_keep_matrices_of_many_labels_small():
    assert GaussianClasses(10, 2, 1.0).blocks(2500) == [(0, 1000), (1000, 2000), (2000, 2500)]
    assert GaussianClasses(100_000, 2, 1.0).blocks(600) == [(0, 500), (500, 600)]


def test_items_come_from_fewer_classes_if_there_are_many():
    rng = np.random.default_rng(0)
    case = labels.Case(100, False, 300, 16, 2.0, 16, 0.0, 0)
    among = labels._classes_of_items(case, 300, rng)
    assert len(np.unique(among)) == 30
    assert len(labels._classes_of_items(case, 500, rng)) == 100
    _, drawn = GaussianClasses(100, 2, 1.0).draw(2000, stream=0, among=among)
    assert set(drawn.indices) == set(among)
    some = labels._rows_of(drawn, among[:10], 50, rng)
    assert len(np.unique(some)) == 50
    assert set(drawn.indices[some]) <= set(among[:10])


def test_nothing_to_measure_is_refused():
    with pytest.raises(InputError, match="nothing to measure"):
        labels.bench_labels([])


def test_a_case_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(labels, "MIN_ROWS", 2)
    with pytest.raises(InputError, match=r"could not measure 2 labels, 16 bits: .*n_samples=20"):
        labels.bench_labels([2], rows=20, dimensions=3, bits=[16])
