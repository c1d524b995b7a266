import gzip
import pickle

import numpy as np
import pytest

from supquant import datasets
from supquant.datasets import load, mnist
from supquant.datasets.dataset import centred_unit_length, root_of_frequencies
from supquant.errors import InputError


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path))
    monkeypatch.setattr(mnist, "_packaged_file", lambda: None)
    return tmp_path


def test_digits_are_scaled_to_one_and_know_their_shape():
    digits = load("digits")
    ready = digits.prepare(digits.X[:100])(digits.X)
    assert ready.dtype == np.float32
    assert (ready.min(), ready.max()) == (0, 1)
    assert digits.image_shape == (8, 8)


def test_sample_keeps_rows_with_their_labels_and_repeats():
    digits = load("digits")
    sample, again = digits.sample(200, seed=3), digits.sample(200, seed=3)
    np.testing.assert_array_equal(sample.X, again.X)
    rows = [np.flatnonzero((row == digits.X).all(axis=1))[0] for row in sample.X]
    np.testing.assert_array_equal(digits.y[rows], sample.y)


@pytest.mark.parametrize("n_rows", [0, 1798])
def test_sample_of_impossible_size_is_refused(n_rows):
    with pytest.raises(InputError, match=f"1797 rows of digits, got {n_rows}"):
        load("digits").sample(n_rows)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "coco30k", "coco30k-noperson"])
def test_missing_file_says_where_it_was_looked_for_and_how_to_get_it(name, own_folder):
    with pytest.raises(InputError, match="was not found in") as caught:
        load(name)
    assert str(own_folder) in str(caught.value)
    assert "arrays X" in str(caught.value)


def test_cache_folder_is_used_without_the_environment_variable(monkeypatch):
    monkeypatch.delenv("SUPQUANT_DATA", raising=False)
    assert "supquant" in str(datasets.data_folder())


def test_mnist_pixels_are_divided_by_255(own_folder):
    np.savez(own_folder / "mnist.npz", X=np.full((4, 784), 255, dtype=np.uint8), y=[0, 1, 0, 1])
    data = load("mnist")
    assert data.prepare(data.X)(data.X).max() == 1


def test_mnist_is_found_in_the_installed_package(own_folder, monkeypatch):
    parts = tuple((np.full((2, 784), k / 256, dtype=np.float32), np.array([k, k])) for k in range(3))
    packaged = own_folder / "mnist.pkl.gz"
    packaged.write_bytes(gzip.compress(pickle.dumps(parts)))
    monkeypatch.setattr(mnist, "_packaged_file", lambda: packaged)
    data = load("mnist")
    np.testing.assert_array_equal(data.X[:, 0], [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(data.y, [0, 0, 1, 1, 2, 2])


def test_packaged_pickle_may_hold_nothing_but_arrays(own_folder, monkeypatch):
    packaged = own_folder / "mnist.pkl.gz"
    packaged.write_bytes(gzip.compress(pickle.dumps(print)))
    monkeypatch.setattr(mnist, "_packaged_file", lambda: packaged)
    with pytest.raises(pickle.UnpicklingError, match=r"must not hold builtins\.print"):
        load("mnist")


def test_centring_uses_the_training_rows_alone():
    rng = np.random.default_rng(0)
    training, others = rng.normal(size=(50, 6)), rng.normal(5, size=(20, 6)).astype(np.float16)
    ready = centred_unit_length(training)(others)
    expected = others - training.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(ready, expected, rtol=1e-5)
    assert ready.dtype == np.float32


def test_rows_of_zeros_stay_zero():
    zeros = np.zeros((1, 3))
    assert not centred_unit_length(zeros)(zeros).any()
    assert not root_of_frequencies(zeros)(zeros).any()


def test_coco_without_person_drops_the_label_and_the_rows_left_empty(own_folder):
    y = np.zeros((4, 18), dtype=np.uint8)
    y[0, 0] = y[1, [0, 3]] = y[2, 4] = y[3, 0] = 1
    np.savez(
        own_folder / "coco30k_bow.npz", X=np.arange(4)[:, None] * np.ones((1, 500), dtype=np.uint16), y=y
    )
    data = load("coco30k-noperson")
    assert data.y.shape == (2, 17)
    np.testing.assert_array_equal(data.X[:, 0], [1, 2])
    np.testing.assert_allclose(np.square(data.prepare(data.X)(data.X)).sum(axis=1), 1, rtol=1e-5)


def test_any_npz_file_is_taken_as_it_is(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, X=np.array([[1.5], [200.0]]), y=["cat", "dog"])
    data = load(path)
    np.testing.assert_array_equal(data.prepare(data.X)(data.X), [[1.5], [200.0]])
    assert data.y.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(3)}, "has no y; it holds X"),
        ({"data": np.eye(3)}, "has no X and no y"),
        ({"X": np.eye(3), "y": [0, 1]}, "3"),
        ({"X": np.full((2, 2), np.nan), "y": [0, 1]}, "NaN"),
        ({"X": np.eye(2), "y": np.array([{}, {}])}, "plain arrays"),
    ],
)
def test_unfit_npz_file_is_refused(arrays, message, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_foreign_npz_file_is_refused(content, tmp_path):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.npz"):
        load(tmp_path / "bad.npz")


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="digits, mnist, cifar10"):
        load("imagenette")


def test_missing_npz_file_is_refused():
    with pytest.raises(InputError, match="no such file"):
        load("nowhere.npz")
