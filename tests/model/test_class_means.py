"""Many classes are learned by their means and the scatter within them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from supquant.inputs.labels import read_labels
from supquant.model import class_means, label_kernel
from supquant.model.class_means import TEMPERATURES, class_sums, learn_class_means
from supquant.model.kernel_classifier import log_loss
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import MANY_LABELS, LabelKernel
from supquant.row_sums import FeatureCache


def learn(X, y, *settings):
    """Learn from vectors and labels that are read first; return the classifier."""
    return LabelKernel(*settings, random_state=0).learn(X, read_labels(y))[0]


@pytest.fixture(scope="module")
def gaussian():
    """Rows of more than `MANY_LABELS` classes, nearly all of which the Bayes rule recognises."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(MANY_LABELS + 44, 24)) * 1.2
    spread = rng.uniform(0.5, 2, size=24)  # within a class, different in every direction
    means *= spread

    def draw(n):
        y = rng.integers(len(means), size=n)
        return (means[y] + spread * rng.normal(size=(n, 24))).astype(np.float32), y

    (X, y), (Q, asked) = draw(6000), draw(1000)
    squares = np.square((Q[:, None] - means) / spread).sum(axis=2)
    return X, y, Q, asked, float((squares.argmin(axis=1) == asked).mean())


def rows_of(X, y, n_jobs=1):
    labels = read_labels(y)
    blocks = np.array_split(np.arange(len(X)), 3)
    return KernelRows(X, labels, None, blocks, FeatureCache(0), n_jobs)


def test_weights_are_those_of_linear_discriminant_analysis(rng):
    means = rng.normal(size=(5, 4)) * 2
    y = np.arange(200) % 5
    X = (means[y] + rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))).astype(np.float32)
    weights = class_sums(rows_of(np.tile(X, (500, 1)), np.tile(y, 500))).weights(
        1e-9
    )  # with so many rows all means are trusted
    want = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y).decision_function(X)
    got = X @ weights[:-1] + weights[-1]
    np.testing.assert_allclose(
        got - got.mean(axis=1, keepdims=True), want - want.mean(axis=1, keepdims=True), rtol=1e-3, atol=1e-2
    )


def test_means_of_few_rows_are_pulled_towards_the_overall_mean(rng):
    """The posterior mean adds as many rows at the mean of all as the variance within classes over that of means."""
    L, d, spread = 4000, 6, 0.5
    y = np.concatenate([np.arange(L), rng.integers(L // 2, size=3 * L)])
    means = 3 + spread * rng.normal(size=(L, d))
    X = (means[y] + rng.normal(size=(len(y), d))).astype(np.float32)
    sums = class_sums(rows_of(X, y))
    counts = np.bincount(y)
    trust = counts / (counts + 1 / spread**2)
    drawn = (sums.sums / counts[:, None] - X.mean(axis=0)) * trust[:, None]
    np.testing.assert_allclose(sums.weights(1e-9)[:-1].T, drawn, atol=0.15)
    assert np.square(sums.weights(1e-9)[:-1].T - drawn).mean() < 0.002 < np.square(drawn).mean()


def test_frequencies_count_only_as_far_as_they_differ_by_more_than_chance(rng):
    def frequencies(counts):
        return np.exp(class_means.ClassSums(np.eye(1), np.zeros((len(counts), 1)), counts).log_frequencies())

    alike = frequencies(rng.poisson(10, size=5000).astype(float))
    assert alike.max() < 1.5 * alike.min()
    uneven = np.repeat([100.0, 10_000.0], 50)
    np.testing.assert_allclose(frequencies(uneven), uneven / uneven.sum(), rtol=0.02)
    assert (frequencies(np.array([0.0, 4, 8])) > 0).all()


def test_sums_do_not_depend_on_the_number_of_threads(gaussian):
    X, y, *_ = gaussian
    one, two = (class_sums(rows_of(X, y, n_jobs)) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.gram, two.gram)
    np.testing.assert_array_equal(one.sums, two.sums)
    np.testing.assert_array_equal(one.counts, np.bincount(y))


def test_a_class_without_rows_is_treated_as_one_around_the_overall_mean(rng):
    y = np.arange(400) % 4
    X = (8 * rng.normal(size=(4, 3))[y] + rng.normal(size=(400, 3))).astype(np.float32)
    rows = rows_of(X, y)
    some = KernelRows(X, rows.labels, None, [np.flatnonzero(y != 2)], FeatureCache(0), 1)
    sums = class_sums(some)
    weights = sums.weights(1e-2)
    np.testing.assert_array_equal(weights[:, 2], 0)
    weights[-1] += sums.log_frequencies()
    scores = (X @ weights[:-1] + weights[-1])[y != 2]
    assert 2 not in scores.argmax(axis=1)


def test_a_class_with_held_out_rows_only_does_not_change_the_temperature(gaussian):
    X, y, *_ = gaussian
    rare = np.concatenate([y, np.full(1, y.max() + 1)])
    with_rare = np.concatenate([X, X[:1]])
    kept, held = np.arange(5000), np.arange(5000, len(rare))

    def chosen(X, y, held):
        parts = [KernelRows(X, read_labels(y), None, [rows], FeatureCache(0), 1) for rows in (kept, held)]
        return min(
            (each for each in class_means.learn_class_means(*parts).losses if "temperature" in each),
            key=lambda each: each["loss"],
        )["temperature"]

    assert chosen(with_rare, rare, held) == chosen(X, y, held[:-1])


def test_many_classes_are_recognised_nearly_as_well_as_by_the_bayes_rule(gaussian):
    X, y, Q, asked, bayes = gaussian
    learned = learn(X, y)
    assert learned.kernel is None
    right = (np.unique(y)[learned.logits(Q).argmax(axis=1)] == asked).mean()
    assert bayes > 0.95
    assert right > 0.95 * bayes


def test_probabilities_are_calibrated_before_any_logistic_regression(gaussian, rng, monkeypatch):
    monkeypatch.setattr(class_means, "MAX_PASS_WORK", 0)
    X, y, Q, asked, _ = gaussian
    X, Q = (each + 2 * rng.normal(size=each.shape) for each in (X, Q))  # much harder to tell apart
    learned = learn(X, y)
    assert learned.classifier.n_iter == 0
    p = softmax(learned.logits(Q.astype(np.float32)), axis=1)
    right = (np.unique(y)[p.argmax(axis=1)] == asked).mean()
    assert 0.1 < right < 0.8
    assert abs(p.max(axis=1).mean() - right) < 0.05


def test_few_classes_have_anchors(gaussian):
    X, y, *_ = gaussian
    few = y < 20
    assert learn(X[few], y[few]).kernel is not None


def test_many_classes_that_are_not_linearly_separable_get_anchors(rng, monkeypatch):
    """Each class lies at two opposite places, so that all class means are the same."""
    places = rng.normal(size=(40, 12)) * 2
    y = rng.integers(40, size=6000)
    X = (places[y] * rng.choice([-1, 1], size=(6000, 1)) + 0.5 * rng.normal(size=(6000, 12))).astype(
        np.float32
    )
    monkeypatch.setattr(label_kernel, "MANY_LABELS", 20)
    learned = learn(X[:5000], y[:5000])
    assert len(learned.kernel.anchors) == label_kernel.ANCHORS_OF_MANY_LABELS

    def right(learned):
        return (learned.logits(X[5000:]).argmax(axis=1) == y[5000:]).mean()

    assert right(learned) > 0.95
    assert right(learn(X[:5000], y[:5000], 0)) < 0.3
    monkeypatch.setattr(label_kernel, "MAX_ANCHORED_LABELS", 30)  # a query would have too many weights
    assert learn(X[:5000], y[:5000]).kernel is None


def test_anchors_are_tried_on_a_sample_of_the_classes(gaussian, monkeypatch):
    X, y, *_ = gaussian
    seen = []
    monkeypatch.setattr(label_kernel, "TRIAL_CLASSES", 50)
    monkeypatch.setattr(label_kernel, "held_out_loss", lambda *rows: seen.append(rows) or 1.0)
    learn(X, y)
    for kept, held in seen:
        assert kept.labels.n_labels == 50
        assert len(kept) + len(held) == len(kept.X) == len(kept.labels) < len(X) / 4
        assert not set(np.concatenate(kept.blocks)) & set(np.concatenate(held.blocks))
    kept, _ = seen[0]
    for number in range(50):  # rows with one number have one class
        own = kept.X[kept.labels.indices == number]
        assert len({y[np.flatnonzero((row == X).all(axis=1))[0]] for row in own}) == 1


def test_the_temperature_search_stops_after_the_best_one(rng):
    """Means of few rows are noisy, so the best temperature is well below one."""
    L, d = 40, 30
    means = 1.2 * rng.normal(size=(L, d))
    y = np.arange(4 * L) % L
    X, Q = (means[y] + rng.normal(size=(len(y), d)) * 2 for _ in range(2))
    sums, held = class_sums(rows_of(X.astype(np.float32), y)), rows_of(Q.astype(np.float32), y)
    scores = Q @ sums.weights(1e-3)[:-1] + sums.weights(1e-3)[-1]
    every = {
        T: -log_softmax(T * scores + sums.log_frequencies(), axis=1)[np.arange(len(y)), y].mean()
        for T in TEMPERATURES
    }
    best = min(every, key=every.__getitem__)
    assert TEMPERATURES[0] > best > TEMPERATURES[-1]
    tried = class_means._losses_by_temperature(sums, 1e-3, held)
    assert list(tried) == list(TEMPERATURES[: TEMPERATURES.index(best) + 2])
    for temperature, loss in tried.items():
        assert loss == pytest.approx(every[temperature], rel=1e-4)


def test_logistic_regression_lowers_the_loss_of_new_rows(rng, monkeypatch):
    """Classes of two clusters each are not normal: their means alone do not give the best weights."""
    centres = rng.normal(size=(20, 12))
    numbers = rng.integers(20, size=3000)
    X = (centres[numbers] + 0.7 * rng.normal(size=(3000, 12))).astype(np.float32)
    every = rows_of(X, numbers // 2)
    kept, held, new = (
        replace(every, blocks=[np.arange(*part)]) for part in ((0, 1600), (1600, 2000), (2000, 3000))
    )

    def learned_loss():
        learned = learn_class_means(kept, held)
        return learned.n_iter, log_loss(
            new.logits(learned.weights), new.all_indicators(), multilabel=False
        ) / len(new)

    steps, loss = learned_loss()
    monkeypatch.setattr(class_means, "MAX_PASSES", 0)
    no_steps, loss_of_means = learned_loss()
    assert steps > no_steps == 0
    assert loss < 0.98 * loss_of_means
