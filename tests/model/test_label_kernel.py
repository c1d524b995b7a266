"""The classifier that `LabelKernel` learns: what it holds out, what it learns from, and its probabilities."""

import numpy as np
import pytest
import scipy.sparse

from supquant import SupervisedQuantizer
from supquant.codec.probabilities import label_probabilities
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.model import kernel_classifier, label_kernel
from supquant.model.features import learn_features
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import LabelKernel
from supquant.model.spelling import Spelling
from supquant.parallel import BLOCK_ROWS
from supquant.progress import Reporter
from supquant.row_sums import FeatureCache
from supquant.rows import rows_of


def learn(X, y, *settings, **named):
    """Learn from vectors and labels that are read first; return the classifier."""
    return LabelKernel(*settings, **{"random_state": 0, **named}).learn(X, read_labels(y))[0]


def probabilities(learned, X, multilabel=False):
    return label_probabilities(learned.logits(X.astype(np.float32)), multilabel=multilabel)


@pytest.fixture(scope="module")
def several(digits):
    """Digits with several labels per row: whether the digit is even, above four, a multiple of three."""
    y = digits[1]
    return np.stack([y % 2 == 0, y > 4, y % 3 == 0], axis=1).astype(int)


def mean_log_loss(probabilities, y):
    return -np.log(probabilities[np.arange(len(y)), y]).mean()


def test_the_classifier_recognises_rows_that_it_has_not_seen(digits):
    X, y = digits
    p = probabilities(learn(X[::2], y[::2], 200), X[1::2])
    assert (p.shape, p.dtype) == ((898, 10), np.float32)
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert (p.argmax(axis=1) == y[1::2]).mean() > 0.95


def test_logistic_regression_makes_better_probabilities_than_least_squares(digits, monkeypatch):
    X, y = digits
    by_likelihood = mean_log_loss(probabilities(learn(X[::2], y[::2], 30), X[1::2]), y[1::2])
    monkeypatch.setattr(kernel_classifier, "MAX_PASSES", 0)
    by_squares = mean_log_loss(probabilities(learn(X[::2], y[::2], 30), X[1::2]), y[1::2])
    assert by_likelihood < 0.9 * by_squares


def test_iterations_end_with_the_best_on_held_out_rows(digits):
    learned = learn(*digits, 30)
    classifier = learned.classifier
    steps = [step for step in classifier.losses if "iteration" in step]
    best = min(steps, key=lambda step: step["loss"])
    assert classifier.n_iter == best["iteration"] > 0
    losses = np.array([step["loss"] for step in steps])
    gained = losses[1:] <= (1 - kernel_classifier.MIN_PASS_GAIN) * losses[:-1]
    assert gained[:-1].all()
    assert len(steps) == kernel_classifier.MAX_PASSES or not gained[-1]
    p = label_probabilities(learned.held_logits, multilabel=False)
    held = mean_log_loss(p, digits[1][learned.held_rows])
    assert held == pytest.approx(best["loss"], rel=1e-3)


def test_held_out_logits_come_from_a_classifier_that_did_not_see_them(digits, monkeypatch):
    X, y = digits
    # Held-out labels choose these settings and nothing else.
    monkeypatch.setattr(kernel_classifier, "RIDGES", (1e-3,))
    monkeypatch.setattr(kernel_classifier, "TEMPERATURES", (4.0,))
    monkeypatch.setattr(kernel_classifier, "MAX_PASSES", 1)
    monkeypatch.setattr(kernel_classifier, "_best_length", lambda *logits, multilabel: 1.0)
    learned = learn(X, y, 0)
    assert len(learned.held_rows) == 256
    assert (np.diff(learned.held_rows) > 0).all()
    others = np.setdiff1d(np.arange(len(X)), learned.held_rows)

    def learn_with_wrong_labels(rows):
        wrong = y.copy()
        wrong[rows] = (wrong[rows] + 1) % 10
        return learn(X, wrong, 0)

    other = learn_with_wrong_labels(learned.held_rows[:20])
    assert other.classifier.n_iter == learned.classifier.n_iter == 1
    np.testing.assert_array_equal(other.held_logits, learned.held_logits)
    assert not np.array_equal(other.weights, learned.weights)
    other = learn_with_wrong_labels(others[:1])
    assert not np.array_equal(other.held_logits, learned.held_logits)


def test_weights_are_learned_from_all_rows_with_the_settings_that_held_out_rows_chose(digits, monkeypatch):
    monkeypatch.setattr(kernel_classifier, "RIDGES", (1e-5,))
    X, y = digits
    learned = learn(X, y, 0)
    rows = KernelRows(X, read_labels(y), None, [np.arange(len(X))], FeatureCache(0), 1)
    sums = rows.normal_equations()
    solved = sums.factor(1e-5).solve(sums.products)
    # Weights begin at least squares of all rows with the chosen ridge, and take `n_iter` steps.
    assert learned.classifier.n_iter > 0
    monkeypatch.setattr(kernel_classifier, "MAX_PASSES", 0)
    start = learn(X, y, 0)
    assert start.classifier.n_iter == 0
    scales = [np.abs(start.weights - t * solved).max() for t in kernel_classifier.TEMPERATURES]
    assert min(scales) < 1e-2 < sorted(scales)[1]
    # Held-out rows have a lower loss than under the weights that were learned without them.
    held = KernelRows(X, read_labels(y), None, [learned.held_rows], FeatureCache(0), 1)
    without, with_them = (
        kernel_classifier.log_loss(scores, held.all_indicators(), multilabel=False)
        for scores in (learned.held_logits, held.logits(learned.weights.astype(np.float64)))
    )
    assert with_them < 0.95 * without


def test_held_out_rows_are_no_anchors(digits):
    X, y = digits
    learned = learn(X[:300], y[:300], 10_000)
    assert len(learned.kernel.anchors) == 300 - 100
    held = X[learned.held_rows]
    squares = ((held[:, None] - learned.kernel.anchors) ** 2).sum(axis=2)
    assert squares.min() > 0


def test_anchors_and_bandwidth_follow_the_rows(digits):
    X, y = digits[0][:400], digits[1][:400]
    kernel = learn(X, y).kernel
    assert len(kernel.anchors) == 400 - 400 // 3
    distances = np.sqrt(((X[:, None] - kernel.anchors) ** 2).sum(axis=2))
    assert kernel.bandwidth == pytest.approx(distances.mean() / 2, rel=0.02)
    assert learn(X, y, 20, bandwidth=3.0).kernel.bandwidth == 3
    assert learn(X, y, 0).kernel is None


@pytest.mark.parametrize("multilabel", [False, True])
def test_the_classifier_does_not_depend_on_the_number_of_threads(rng, multilabel):
    X = rng.normal(size=(2 * BLOCK_ROWS + 1500, 5)).astype(np.float32)
    y = (X[:, :3] + rng.normal(size=(len(X), 3)) > 0).astype(int)
    y = y if multilabel else y.argmax(axis=1)
    one, two = (learn(X, y, 40, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.held_logits, two.held_logits)
    assert one.classifier.losses == two.classifier.losses
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.kernel.anchors, two.kernel.anchors)


def test_rows_without_room_in_the_cache_give_the_same_classifier(digits, monkeypatch):
    want = learn(*digits, 50)
    monkeypatch.setattr("supquant.model.label_kernel.CACHE_BYTES", 0)
    np.testing.assert_array_equal(learn(*digits, 50).weights, want.weights)


def test_several_labels_have_probabilities_of_their_own(digits, several):
    X = digits[0]
    learned = learn(X[::2], several[::2], 300)
    p = probabilities(learned, X[1::2], multilabel=True)
    assert ((p > 0.5) == several[1::2]).mean() > 0.93
    assert p.sum(axis=1).std() > 0.5  # rows have between zero and three labels
    sparse = learn(X[::2], scipy.sparse.csr_array(several[::2]), 300)
    np.testing.assert_array_equal(sparse.weights, learned.weights)


@pytest.mark.parametrize("n_rows", [2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("n_anchors", [None, 0, 1])
def test_a_few_rows_are_enough(rng, n_rows, n_anchors):
    X, y = rng.normal(size=(n_rows, 3)).astype(np.float32), np.arange(n_rows) % 2
    learned = learn(X, y, n_anchors)
    assert np.isfinite(learned.logits(X)).all()
    n_held = n_rows // 3 if n_rows >= 8 else 0
    assert learned.held_logits.shape == (n_held, 2)
    assert len(learned.held_rows) == n_held
    assert n_rows >= 8 or (learned.classifier.ridge, learned.classifier.n_iter) == (1e-3, 0)


@pytest.mark.parametrize("multilabel", [False, True])
def test_a_label_that_no_row_carries_gets_little_probability(clusters, multilabel):
    X, y = clusters
    labels = read_labels(np.eye(3, dtype=int)[y] if multilabel else y)
    wider = Labels(
        np.arange(5),
        multilabel,
        labels.indices,
        scipy.sparse.csr_array(np.eye(5, dtype=bool)[y]) if multilabel else None,
    )
    learned, _ = LabelKernel(50, random_state=0).learn(X, wider)
    p = probabilities(learned, X, multilabel)
    assert p.shape == (300, 5)
    assert np.isfinite(p).all()
    assert p[:, 3:].max() < 0.2


def test_a_label_of_every_row_is_no_obstacle(clusters):
    X, y = clusters
    always = np.hstack([np.eye(3, dtype=int)[y], np.ones((300, 1), int)])
    assert probabilities(learn(X, always, 50), X, multilabel=True)[:, 3].min() > 0.8


def test_a_class_that_is_held_out_entirely_is_no_obstacle(clusters):
    X, y = clusters
    held = learn(X, y, 20).held_rows
    y = y.copy()
    y[held[:3]] = 7
    learned = learn(X, y, 20)
    np.testing.assert_array_equal(learned.held_rows, held)
    assert np.isfinite(learned.held_logits).all()
    assert np.isfinite([step["loss"] for step in learned.classifier.losses]).all()


@pytest.mark.parametrize("n_anchors", [None, 0])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((40, 3)),
        np.zeros((40, 1)),
        np.repeat(np.arange(4.0), 10)[:, None],
        np.tile(np.eye(2), (20, 1)) * 1e-6,
        np.tile(np.eye(2), (20, 1)) * 1e6,
    ],
)
def test_odd_vectors_get_finite_probabilities(X, n_anchors):
    p = probabilities(learn(X, np.arange(40) % 2, n_anchors), X)
    assert np.isfinite(p).all()
    if len(np.unique(X)) == 1:
        np.testing.assert_allclose(p, 0.5, atol=0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int32])
def test_every_real_dtype_is_taken(digits, dtype):
    X, y = (digits[0][:200] * 16).astype(dtype), digits[1][:200]  # whole numbers up to 16
    want = learn(X.astype(np.float32), y, 20)
    np.testing.assert_array_equal(learn(X, y, 20).weights, want.weights)


def test_a_memory_map_is_read(clusters, tmp_path):
    X, y = clusters
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(learn(mapped, y, 20).weights, learn(X, y, 20).weights)


def test_the_seed_chooses_held_out_rows_and_anchors(clusters):
    first, same, other = (learn(*clusters, 20, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.held_rows, same.held_rows)
    np.testing.assert_array_equal(first.weights, same.weights)
    assert not np.array_equal(first.held_rows, other.held_rows)
    assert not np.array_equal(first.kernel.anchors, other.kernel.anchors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_anchors": -1}, "n_anchors must be an integer of at least 0, got -1"),
        ({"n_anchors": 2.5}, "n_anchors"),
        ({"bandwidth": 0}, "bandwidth must be a finite number above 0, got 0"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_a_bad_parameter_is_refused(clusters, settings, message):
    quantizer = SupervisedQuantizer(2, n_codewords=16, features=LabelKernel(10).set_params(**settings))
    with pytest.raises(InputError, match=message):
        quantizer.fit(*clusters)


def test_of_many_rows_only_some_are_learned_from(digits, monkeypatch):
    X, y = digits[0][:600], digits[1][:600]
    monkeypatch.setattr(label_kernel, "MAX_ROWS", 150)
    learned = learn(X, y)
    assert len(learned.kernel.anchors) == 400
    rng = np.random.default_rng(0)
    order = rng.permutation(600)
    seen = order[: 200 + 150]
    shuffled = y.copy()
    shuffled[order[350:]] = rng.permutation(shuffled[order[350:]])  # nothing is learned from these rows
    np.testing.assert_array_equal(learn(X, shuffled).weights, learned.weights)
    assert (probabilities(learned, X[seen]).argmax(axis=1) == y[seen]).mean() > 0.9


@pytest.mark.parametrize("n_unknown", [0, 40])
def test_features_of_items_are_made_from_the_outputs_of_the_classifier(digits, n_unknown):
    X, y = digits[0][:400], [*digits[1][: 400 - n_unknown].tolist(), *[None] * n_unknown]
    rows = learn_features(
        rows_of(X),
        read_labels(y, n_rows=400, missing=True),
        LabelKernel(random_state=0),
        Spelling(np.arange(10, dtype=np.int32)[:, None]),
        new_classes=None,
        rng=np.random.default_rng(0),
        n_jobs=1,
        reporter=Reporter(),
    )
    exact = rows.map(X)
    used = rows.map.n_features - rows.map.n_position  # the last ones, c, are zero: items do not need them
    np.testing.assert_allclose(rows.features_of_all[:, :used], exact[:, :used], atol=2e-3)
    assert not rows.features_of_all[: 400 - n_unknown, used:].any()
