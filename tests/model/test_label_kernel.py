import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant.codec.probabilities import label_probabilities
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.model import descent, kernel_classifier, label_kernel, least_squares
from supquant.model.features import fit_meaning
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import LabelKernel
from supquant.model.label_map import LabelMap
from supquant.model.spelling import Spelling
from supquant.parallel import BLOCK_ROWS
from supquant.row_sums import FeatureCache


@parametrize_with_checks([LabelKernel(8), LabelKernel(0, n_directions=2, n_jobs=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def several(digits):
    """Digits with several labels a row: whether the digit is even, above four, a multiple of three."""
    y = digits[1]
    return np.stack([y % 2 == 0, y > 4, y % 3 == 0], axis=1).astype(int)


def mean_log_loss(probabilities, y):
    return -np.log(probabilities[np.arange(len(y)), y]).mean()


def test_features_are_two_kinds_of_probabilities_and_coordinates(digits):
    X, y = digits
    kernel = LabelKernel(200, n_directions=7, random_state=0).fit(X[::2], y[::2])
    features = kernel.transform(X[1::2])
    assert (features.shape, features.dtype) == ((898, 27), np.float32)
    p, h, k = features[:, :10], features[:, 10:20], features[:, 20:]
    for probabilities in (p, h):
        assert probabilities.min() >= 0
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        assert (probabilities.argmax(axis=1) == y[1::2]).mean() > 0.95
    centred = X[::2].astype(np.float64) - X[::2].mean(axis=0, dtype=np.float64)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    scale = np.sqrt((singular[:7] ** 2).sum() / len(centred))
    want = (X[1::2] - X[::2].mean(axis=0)) @ directions[:7].T / scale
    np.testing.assert_allclose(np.abs(k), np.abs(want), atol=1e-3)
    assert (kernel.transform(X[::2])[:, 20:] ** 2).sum(axis=1).mean() == pytest.approx(1, abs=1e-4)


def test_likelihood_makes_better_probabilities_than_least_squares(digits):
    X, y = digits
    features = LabelKernel(30, random_state=0).fit(X[::2], y[::2]).transform(X[1::2])
    by_likelihood, by_squares = (
        mean_log_loss(part, y[1::2]) for part in np.split(features[:, :20], 2, axis=1)
    )
    assert by_likelihood < 0.9 * by_squares


def test_iterations_end_with_the_best_on_held_out_rows(digits):
    kernel = LabelKernel(30, random_state=0).fit(*digits)
    steps = [step for step in kernel.losses_ if "iteration" in step]
    best = min(steps, key=lambda step: step["loss"])
    assert kernel.n_iter_ == best["iteration"] > 0
    losses = np.array([step["loss"] for step in steps])
    gained = losses[1:] <= (1 - descent.LEAST_PASS_GAIN) * losses[:-1]
    assert gained[:-1].all()
    assert len(steps) == kernel_classifier.MOST_PASSES or not gained[-1]
    p = label_probabilities(kernel.held_logits_, multilabel=False)
    held = mean_log_loss(p, digits[1][kernel.held_rows_])
    assert held == pytest.approx(best["loss"], rel=1e-3)


def test_held_out_logits_come_from_a_classifier_that_did_not_see_them(digits, monkeypatch):
    X, y = digits
    # Held-out labels choose these settings and nothing else.
    monkeypatch.setattr(kernel_classifier, "RIDGES", (1e-3,))
    monkeypatch.setattr(least_squares, "TEMPERATURES", (4.0,))
    monkeypatch.setattr(kernel_classifier, "MOST_PASSES", 1)
    monkeypatch.setattr(descent, "_best_length", lambda *logits, multilabel: 1.0)
    kernel = LabelKernel(0, random_state=0).fit(X, y)
    assert len(kernel.held_rows_) == 256
    assert (np.diff(kernel.held_rows_) > 0).all()
    others = np.setdiff1d(np.arange(len(X)), kernel.held_rows_)

    def refit_with_wrong_labels(rows):
        wrong = y.copy()
        wrong[rows] = (wrong[rows] + 1) % 10
        return LabelKernel(0, random_state=0).fit(X, wrong)

    other = refit_with_wrong_labels(kernel.held_rows_[:20])
    assert other.n_iter_ == kernel.n_iter_ == 1
    np.testing.assert_array_equal(other.held_logits_, kernel.held_logits_)
    assert not np.array_equal(other.map_.weights, kernel.map_.weights)
    assert not np.array_equal(other.map_.smooth, kernel.map_.smooth)
    other = refit_with_wrong_labels(others[:1])
    assert not np.array_equal(other.held_logits_, kernel.held_logits_)


def test_the_map_is_learned_from_all_rows_as_the_held_out_ones_chose(digits, monkeypatch):
    monkeypatch.setattr(kernel_classifier, "RIDGES", (1e-5,))
    X, y = digits
    kernel = LabelKernel(0, random_state=0).fit(X, y)
    rows = KernelRows(X, read_labels(y), None, [np.arange(len(X))], FeatureCache(0), 1)
    sums = rows.normal_equations()

    def solved(ridge):
        return sums.factor(ridge).solve(sums.products)

    # Smooth weights are least squares of all rows with more ridge, times one of the temperatures.
    scales = [np.abs(kernel.map_.smooth - t * solved(1e-3)).max() for t in least_squares.TEMPERATURES]
    assert min(scales) < 1e-3 < sorted(scales)[1]
    # Weights begin at least squares of all rows with the chosen ridge, and take `n_iter_` steps.
    assert kernel.n_iter_ > 0
    monkeypatch.setattr(kernel_classifier, "MOST_PASSES", 0)
    start = LabelKernel(0, random_state=0).fit(X, y)
    assert start.n_iter_ == 0
    scales = [np.abs(start.map_.weights - t * solved(1e-5)).max() for t in least_squares.TEMPERATURES]
    assert min(scales) < 1e-2 < sorted(scales)[1]
    # Held-out rows have a lower loss than by the weights that were learned without them.
    held = KernelRows(X, read_labels(y), None, [kernel.held_rows_], FeatureCache(0), 1)
    without, with_them = (
        least_squares.log_loss(scores, held.all_indicators(), multilabel=False)
        for scores in (kernel.held_logits_, held.logits(kernel.map_.weights.astype(np.float64)))
    )
    assert with_them < 0.95 * without


def test_held_out_rows_are_no_anchors(digits):
    X, y = digits
    kernel = LabelKernel(10_000, random_state=0).fit(X[:300], y[:300])
    assert len(kernel.map_.kernel.anchors) == 300 - 100
    held = X[kernel.held_rows_]
    squares = ((held[:, None] - kernel.map_.kernel.anchors) ** 2).sum(axis=2)
    assert squares.min() > 0


def test_anchors_and_bandwidth_follow_the_rows(digits):
    X, y = digits[0][:400], digits[1][:400]
    kernel = LabelKernel(random_state=0).fit(X, y).map_.kernel
    assert len(kernel.anchors) == 400 - 400 // 3
    distances = np.sqrt(((X[:, None] - kernel.anchors) ** 2).sum(axis=2))
    assert kernel.bandwidth == pytest.approx(distances.mean() / 2, rel=0.02)
    assert LabelKernel(20, bandwidth=3.0, random_state=0).fit(X, y).map_.kernel.bandwidth == 3
    assert LabelKernel(0, random_state=0).fit(X, y).map_.kernel is None


@pytest.mark.parametrize("n_anchors", [0, 30])
@pytest.mark.parametrize("multilabel", [False, True])
def test_transform_gives_what_fit_transform_gave(digits, several, n_anchors, multilabel):
    X, y = digits[0], several if multilabel else digits[1]
    kernel = LabelKernel(n_anchors, random_state=0)
    features = kernel.fit_transform(X, y)
    np.testing.assert_allclose(kernel.transform(X), features, atol=1e-5)
    np.testing.assert_allclose(clone(kernel).fit(X, y).transform(X), features, atol=1e-5)


@pytest.mark.parametrize("multilabel", [False, True])
def test_features_do_not_depend_on_the_number_of_threads(rng, multilabel):
    X = rng.normal(size=(2 * BLOCK_ROWS + 1500, 5)).astype(np.float32)
    y = (X[:, :3] + rng.normal(size=(len(X), 3)) > 0).astype(int)
    one, two = (LabelKernel(40, n_jobs=n_jobs, random_state=0) for n_jobs in (1, 2))
    y = y if multilabel else y.argmax(axis=1)
    np.testing.assert_array_equal(one.fit_transform(X, y), two.fit_transform(X, y))
    np.testing.assert_array_equal(one.held_logits_, two.held_logits_)
    assert one.losses_ == two.losses_
    for name, array in one.map_.arrays().items():
        np.testing.assert_array_equal(array, two.map_.arrays()[name])


def test_rows_without_room_in_the_cache_get_the_same_features(digits, monkeypatch):
    want = LabelKernel(50, random_state=0).fit_transform(*digits)
    monkeypatch.setattr("supquant.model.label_kernel.CACHE_BYTES", 0)
    np.testing.assert_array_equal(LabelKernel(50, random_state=0).fit_transform(*digits), want)


def test_several_labels_have_probabilities_of_their_own(digits, several):
    X = digits[0]
    kernel = LabelKernel(300, random_state=0).fit(X[::2], several[::2])
    p, h = np.split(kernel.transform(X[1::2])[:, :6], 2, axis=1)
    for probabilities in (p, h):
        assert ((probabilities > 0.5) == several[1::2]).mean() > 0.93
        assert probabilities.sum(axis=1).std() > 0.5  # rows have between no and three labels
    assert kernel.map_.multilabel
    sparse = LabelKernel(300, random_state=0).fit(X[::2], scipy.sparse.csr_array(several[::2]))
    np.testing.assert_array_equal(sparse.map_.weights, kernel.map_.weights)


@pytest.mark.parametrize("n_anchors", [0, 30])
@pytest.mark.parametrize("multilabel", [False, True])
def test_the_map_is_the_same_after_a_file(digits, several, n_anchors, multilabel):
    X, y = digits[0], several if multilabel else digits[1]
    label_map = LabelKernel(n_anchors, random_state=0).fit(X, y).map_
    arrays = {name: array.copy() for name, array in label_map.arrays().items()}
    again = LabelMap.from_arrays(arrays)
    assert isinstance(again, LabelMap)
    assert (again.n_inputs, again.n_labels, again.n_directions) == (64, y.max() + 1 if y.ndim == 1 else 3, 32)
    assert again.multilabel is multilabel
    np.testing.assert_array_equal(again(X[:100]), label_map(X[:100]))


def test_labels_that_were_read_already_are_taken(clusters):
    X, y = clusters
    want = LabelKernel(20, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    found = LabelKernel(20, random_state=0).fit(X, read_labels(np.array(["a", "b", "c"])[y]))
    np.testing.assert_array_equal(found.map_.weights, want.map_.weights)
    np.testing.assert_array_equal(found.classes_, ["a", "b", "c"])
    with pytest.raises(InputError, match="each of the 299 rows of X, got 300"):
        LabelKernel(20).fit(X[:299], read_labels(y))


@pytest.mark.parametrize("n_rows", [2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("n_anchors", [None, 0, 1])
def test_a_few_rows_are_enough(rng, n_rows, n_anchors):
    X, y = rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
    kernel = LabelKernel(n_anchors, random_state=0)
    features = kernel.fit_transform(X, y)
    assert features.shape == (n_rows, 2 * 2 + 3)
    assert np.isfinite(features).all()
    n_held = n_rows // 3 if n_rows >= 8 else 0
    assert kernel.held_logits_.shape == (n_held, 2)
    assert len(kernel.held_rows_) == n_held
    assert n_rows >= 8 or (kernel.ridge_, kernel.n_iter_) == (1e-3, 0)


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
    features = LabelKernel(50, random_state=0).fit_transform(X, wider)
    assert features.shape == (300, 18)
    assert np.isfinite(features).all()
    assert features[:, 3:5].max() < 0.2


def test_a_label_of_every_row_is_no_obstacle(clusters):
    X, y = clusters
    always = np.hstack([np.eye(3, dtype=int)[y], np.ones((300, 1), int)])
    features = LabelKernel(50, random_state=0).fit_transform(X, always)
    assert features[:, 3].min() > 0.8


def test_a_class_that_is_held_out_entirely_is_no_obstacle(clusters):
    X, y = clusters
    held = LabelKernel(20, random_state=0).fit(X, y).held_rows_
    y = y.copy()
    y[held[:3]] = 7
    kernel = LabelKernel(20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(kernel.held_rows_, held)
    assert np.isfinite(kernel.held_logits_).all()
    assert np.isfinite([step["loss"] for step in kernel.losses_]).all()


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
def test_odd_vectors_get_finite_features(X, n_anchors):
    kernel = LabelKernel(n_anchors, random_state=0)
    features = kernel.fit_transform(X, np.arange(40) % 2)
    assert features.shape == (40, 4 + X.shape[1])
    assert np.isfinite(features).all()
    if len(np.unique(X)) == 1:
        np.testing.assert_allclose(features[:, :4], 0.5, atol=0.1)
        np.testing.assert_array_equal(features[:, 4:], 0)


def test_no_directions_give_probabilities_alone(clusters):
    assert LabelKernel(10, n_directions=0, random_state=0).fit_transform(*clusters).shape == (300, 6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int32])
def test_every_real_dtype_is_taken(digits, dtype):
    X, y = (digits[0][:200] * 16).astype(dtype), digits[1][:200]  # whole numbers up to 16
    want = LabelKernel(20, random_state=0).fit_transform(X.astype(np.float32), y)
    np.testing.assert_array_equal(LabelKernel(20, random_state=0).fit_transform(X, y), want)


def test_a_memory_map_is_read(clusters, tmp_path):
    X, y = clusters
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    want = LabelKernel(20, random_state=0).fit_transform(X, y)
    np.testing.assert_array_equal(LabelKernel(20, random_state=0).fit_transform(mapped, y), want)


def test_the_seed_chooses_held_out_rows_and_anchors(clusters):
    first, same, other = (LabelKernel(20, random_state=seed).fit(*clusters) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.held_rows_, same.held_rows_)
    np.testing.assert_array_equal(first.map_.weights, same.map_.weights)
    assert not np.array_equal(first.held_rows_, other.held_rows_)
    assert not np.array_equal(first.map_.kernel.anchors, other.map_.kernel.anchors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_anchors": -1}, "n_anchors must be an integer of at least 0, got -1"),
        ({"n_anchors": 2.5}, "n_anchors"),
        ({"bandwidth": 0}, "bandwidth must be a finite number above 0, got 0"),
        ({"n_directions": -1}, "n_directions"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    kernel = LabelKernel(10, random_state=0).fit(*clusters)
    before = dict(vars(kernel))
    kernel.set_params(**settings)
    with pytest.raises(InputError, match=message):
        kernel.fit(*clusters)
    assert vars(kernel) == before | settings


def test_bad_input_is_refused(clusters):
    X, y = clusters
    kernel = LabelKernel(10, random_state=0)
    with pytest.raises(NotFittedError, match="not fitted"):
        kernel.transform(X)
    with pytest.raises(InputError, match="NaN"):
        kernel.fit(np.full((300, 8), np.nan), y)
    with pytest.raises(InputError, match="got 299"):
        kernel.fit(X, y[:299])
    with pytest.raises(InputError, match="single class"):
        kernel.fit(X, np.zeros(300, int))
    with pytest.raises(InputError, match="X has 5 features, but LabelKernel is expecting 8"):
        kernel.fit(X, y).transform(np.zeros((3, 5)))


def test_of_many_rows_a_part_is_learned_from_and_all_are_mapped(digits, monkeypatch):
    X, y = digits[0][:600], digits[1][:600]
    monkeypatch.setattr(label_kernel, "MOST_ROWS", 150)
    kernel = LabelKernel(random_state=0)
    features = kernel.fit_transform(X, y)
    assert len(kernel.map_.kernel.anchors) == 400
    np.testing.assert_allclose(features, kernel.transform(X), rtol=1e-5, atol=1e-6)
    rng = np.random.default_rng(0)
    order = rng.permutation(600)
    learned = order[: 200 + 150]
    shuffled = y.copy()
    shuffled[order[350:]] = rng.permutation(shuffled[order[350:]])  # rows that nothing is learned from
    other = LabelKernel(random_state=0).fit(X, shuffled)
    np.testing.assert_array_equal(other.map_.weights, kernel.map_.weights)
    assert (features[learned, :10].argmax(axis=1) == y[learned]).mean() > 0.9


@pytest.mark.parametrize("n_unknown", [0, 40])
def test_features_of_items_are_made_from_the_outputs_of_the_classifier(digits, n_unknown):
    X, y = digits[0][:400], [*digits[1][: 400 - n_unknown].tolist(), *[None] * n_unknown]
    labels = read_labels(y, n_rows=400, missing=True)
    fitted = fit_meaning(
        X,
        labels,
        LabelKernel(random_state=0),
        Spelling(np.arange(10, dtype=np.int32)[:, None]),
        new_classes=None,
        rng=np.random.default_rng(0),
        n_jobs=1,
    )
    assert len(fitted.outputs) == 400 - n_unknown
    found, exact = fitted.item_features(X, labels.known, 2), fitted.map(X)
    used = fitted.map.n_features - fitted.map.n_position  # the last ones, c, are zero: items do not need them
    np.testing.assert_allclose(found[:, :used], exact[:, :used], atol=2e-3)
    assert not found[: 400 - n_unknown, used:].any()
