"""Fits on a GPU, with NumPy in its place: what is computed there agrees with the CPU, and what is small stays here."""

from dataclasses import replace

import numpy as np
import pytest
from noisy_classes import draw_classes
from stand_in_gpu import stand_in_gpu

from supquant import LabelKernel, SupervisedQuantizer
from supquant.assignment import ItemSearch
from supquant.codec.gaussian_map import GaussianMap
from supquant.inputs.labels import read_labels
from supquant.kernels import device, fitting
from supquant.model import device_rows
from supquant.model.device_rows import DeviceRows, device_cache
from supquant.model.kernel_rows import KernelRows, block_map
from supquant.model.on_device import on_gpu
from supquant.model.position import learn_metric, principal_directions, within_scatter
from supquant.model.words import FREE_WORD, LABEL_WORD, LABELLED, POSITION_WORD, item_search
from supquant.row_sums import FeatureCache
from supquant.rows import ArrayRows, CentredRows, Rows


@pytest.fixture
def some_gpu(monkeypatch):
    monkeypatch.setattr(device, "why_no_gpu", lambda: "")
    monkeypatch.setattr(device, "cuda", lambda: stand_in_gpu)


@pytest.fixture
def for_all(some_gpu, monkeypatch):
    """A chosen GPU that takes small work, too."""
    monkeypatch.setattr(fitting, "MIN_WORK", 0)
    monkeypatch.setattr(device_rows, "MIN_FEATURES", 0)
    with device.use_device("cuda"):
        yield


def labels_of(kind, y):
    if kind == "several":
        return (np.arange(5) == y[:, None] % 5) | (np.arange(5) == y[:, None] // 2)
    return [label if kind == "all" or label < 8 else None for label in y.tolist()]


@pytest.mark.parametrize("kind", ["all", "some", "several"])
def test_a_fit_has_the_quality_of_the_cpu_and_the_same_bits_again(kind, some_gpu, monkeypatch):
    X, y = draw_classes(10, 1500, 24)
    model = SupervisedQuantizer(4, n_codewords=64, random_state=0)
    on_cpu = model.fit(X, labels_of(kind, y)).summary_
    monkeypatch.setattr(fitting, "MIN_WORK", 0)
    monkeypatch.setattr(device_rows, "MIN_FEATURES", 0)
    with device.use_device("cuda"):
        codes = model.fit(X, labels_of(kind, y)).training_codes_
        weights = model.codec_.map.weights
        assert type(weights) is type(model.codec_.map.metric) is np.ndarray
        np.testing.assert_array_equal(model.fit(X, labels_of(kind, y)).training_codes_, codes)
        np.testing.assert_array_equal(model.codec_.map.weights, weights)
    assert model.summary_.map_labelled == pytest.approx(on_cpu.map_labelled, abs=0.002)
    assert model.summary_.map_unlabelled == pytest.approx(on_cpu.map_unlabelled, abs=0.005)


def test_a_large_fit_goes_there_and_a_small_one_stays_here(some_gpu, monkeypatch):
    factors = []
    monkeypatch.setattr(
        device,
        "cuda",
        lambda: (
            factors.append(1)
            or replace_names(
                stand_in_gpu, cholesky=lambda m: factors.append("factor") or stand_in_gpu.cholesky(m)
            )
        ),
    )
    X, y = draw_classes(10, 1200, 24)
    with device.use_device("cuda"):
        SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y)
        assert "factor" not in factors
        monkeypatch.setattr(device_rows, "MIN_FEATURES", 1000 * 1000)
        SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y)
        assert "factor" in factors


def replace_names(namespace, **names):
    return type(namespace)(**{**vars(namespace), **names})


def rows_pair(X, y, kernel, *, n_sampled=0, cache_bytes=1 << 30):
    blocks = np.array_split(np.arange(len(X)), 3)
    own = X, read_labels(y), kernel, blocks
    return [
        kind(*own, FeatureCache(cache_bytes), 1, n_sampled=n_sampled) for kind in (KernelRows, DeviceRows)
    ]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 30])
@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_sums_over_rows_there_are_those_of_the_cpu(rng, for_all, several, anchored, cache_bytes):
    X = rng.normal(size=(90, 6)).astype(np.float32)
    X[7] = 1e30  # infinitely far from all anchors
    if not anchored:
        X[7] = 0
    y = rng.integers(0, 2, (90, 20)) if several else np.arange(90) % 20
    kernel = block_map(GaussianMap(X[10:40], 2.0)) if anchored else None
    here, there = rows_pair(X, y, kernel, n_sampled=2, cache_bytes=cache_bytes)
    W = rng.normal(size=(here.width, 20))
    np.testing.assert_allclose(there.logits(W).get(), here.logits(W), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(there.gradient(W).get(), here.gradient(W), rtol=1e-4, atol=1e-4)
    ours, theirs = here.normal_equations(), there.normal_equations()
    np.testing.assert_allclose(np.triu(theirs.gram.get()), np.triu(ours.gram), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(theirs.products.get(), ours.products, rtol=1e-4, atol=1e-4)
    both = theirs.merged(theirs)
    np.testing.assert_allclose(both.gram.get(), 2 * theirs.gram.get())
    for ridge in (1e-1, 1e-7):  # with a factor in float32, and in float64
        solved = both.factor(ridge).solve(both.products).get()
        matrix = both.gram.get()
        matrix[np.diag_indices(len(matrix) - 1)] += ridge * matrix.diagonal()[:-1].mean()
        np.testing.assert_allclose(matrix @ solved, both.products.get(), rtol=1e-3, atol=1e-3)


def test_an_indefinite_matrix_has_no_factor_there(for_all, rng):
    _, rows = rows_pair(rng.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 2, None)
    equations = rows.normal_equations()
    gram = equations.gram
    gram[0, 0] = -1e9
    assert replace(equations, gram=gram).factor(1e-3) is None


def test_what_a_classifier_learned_there_is_here(rng, for_all):
    learned, rows = LabelKernel(20, random_state=0).learn(
        rng.normal(size=(100, 3)).astype(np.float32), read_labels(np.arange(100) % 2)
    )
    assert isinstance(rows, DeviceRows)
    for each in (learned.classifier.weights, learned.classifier.held_weights, learned.held_logits):
        assert type(each) is np.ndarray


def test_which_rows_go_there(some_gpu, monkeypatch):
    class Elsewhere(Rows):
        shape = (10_000, 1000)
        __getitem__ = take = map_blocks = sum_blocks = None

    X = np.zeros((10_000, 1000), dtype=np.float32)
    far = GaussianMap(np.full((1000, 1000), 1e30, dtype=np.float32), 1.0)
    assert device_cache(X, None, 5) is None  # no GPU is chosen
    with device.use_device("cuda"):
        assert device_cache(X, None, 5) is not None
        assert device_cache(CentredRows(ArrayRows(X), np.zeros(1000)), None, 5) is not None
        assert device_cache(Elsewhere(), None, 5) is None
        assert device_cache(X[:5000], None, 5) is None
        assert device_cache(X, block_map(far), 5) is None


def test_products_and_eigenvectors_there_are_those_of_the_cpu(rng, some_gpu, monkeypatch):
    X, y = draw_classes(6, 400, 12)
    labels = read_labels(y)

    def learned():
        directions = principal_directions(X, 1)
        scatter = within_scatter(directions(X), labels)
        return directions, scatter, learn_metric(directions, X, scatter, 1.0)

    ours, scatter, metric = learned()
    monkeypatch.setattr(fitting, "MIN_WORK", 0)
    with device.use_device("cuda"):
        theirs, their_scatter, their_metric = learned()
        np.testing.assert_allclose(their_metric.placed(X[:0]), np.zeros((0, theirs.vectors.shape[1])))
        turned = theirs.vectors.T @ ours.vectors  # eigenvectors have either sign
        np.testing.assert_allclose(np.abs(turned), np.eye(len(turned)), atol=1e-3)
        np.testing.assert_allclose(turned.T @ their_scatter @ turned, scatter, rtol=1e-3, atol=1e-6)
        placed = their_metric.placed(X)
        assert type(placed) is np.ndarray
    np.testing.assert_allclose(placed @ placed.T, metric.placed(X) @ metric.placed(X).T, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("M", [1, 2, 4])
def test_codes_found_there_are_those_of_the_cpu(rng, for_all, M, quick):
    codebooks = rng.normal(size=(M, 16, 9)).astype(np.float32)
    vectors = rng.normal(size=(70, 9)).astype(np.float32)
    search = ItemSearch.of(codebooks, 3, np.float32([10, 0.5]), beam=4, quick=quick)
    want = search.search(vectors)
    np.testing.assert_array_equal(on_gpu(search).search(vectors), want)
    start = rng.integers(16, size=want.shape, dtype=np.uint8)
    np.testing.assert_array_equal(on_gpu(search).search(vectors, start), search.search(vectors, start))


def test_codes_of_labels_found_there_are_those_of_the_cpu(rng, for_all):
    words = np.full((3, 8), FREE_WORD)
    words[0], words[1:, :4] = LABEL_WORD, POSITION_WORD
    codebooks = rng.normal(size=(3, 8, 13)).astype(np.float32)
    vectors = rng.normal(size=(50, 13)).astype(np.float32)
    search = item_search(codebooks, words, 8, 8, LABELLED, np.float32([10, 0.5]))
    want = search.search(vectors)
    np.testing.assert_array_equal(on_gpu(search).search(vectors), want)
    np.testing.assert_array_equal(
        on_gpu(search).search(vectors, want[::-1]), search.search(vectors, want[::-1])
    )
    alone = item_search(codebooks[:1], words[:1], 8, 8, LABELLED, np.float32([10, 0.5]))
    np.testing.assert_array_equal(on_gpu(alone).search(vectors), alone.search(vectors))
