from dataclasses import replace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab import datasets
from supquant_lab.datasets import arrays, imagenet, load
from supquant_lab.datasets.dataset import centred_unit_length, root_of_frequencies
from supquant_lab.datasets.files import checksum
from supquant_lab.problem import pose


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


@pytest.mark.parametrize("name", [name for name in datasets.NAMES if name != "digits"])
def test_missing_file_says_where_it_was_looked_for_and_how_to_get_it(name, own_folder):
    with pytest.raises(InputError, match="was not found in") as caught:
        load(name)
    assert str(own_folder) in str(caught.value)
    assert "ut there" in str(caught.value)


def test_cache_folder_is_used_without_the_environment_variable(monkeypatch):
    monkeypatch.delenv("SUPQUANT_DATA", raising=False)
    assert datasets.data_folder().parent == datasets.cache_folder()
    assert datasets.cache_folder().name == "supquant"


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


@pytest.fixture
def four_pictures(own_folder, monkeypatch):
    X = (np.arange(4)[:, None] * np.ones((1, 500))).astype(np.uint16)
    y = np.zeros((4, 18), dtype=np.uint8)
    y[0, 0] = y[1, [0, 3]] = y[2, 4] = y[3, 0] = 1
    np.savez(own_folder / "coco30k_bow.npz", X=X, y=y)
    monkeypatch.setattr(arrays, "COCO30K", replace(arrays.COCO30K, checksum=checksum(X, y)))


def test_coco_draws_a_hundred_queries_per_label(four_pictures):
    assert load("coco30k").queries_per_label == load("coco30k-noperson").queries_per_label == 100


def test_coco_without_person_drops_the_label_and_the_rows_left_empty(four_pictures):
    data = load("coco30k-noperson")
    assert data.y.shape == (2, 17)
    np.testing.assert_array_equal(data.X[:, 0], [1, 2])
    np.testing.assert_allclose(np.square(data.prepare(data.X)(data.X)).sum(axis=1), 1, rtol=1e-5)


def test_other_data_under_the_name_of_coco_are_refused(four_pictures, monkeypatch):
    monkeypatch.setattr(arrays, "COCO30K", replace(arrays.COCO30K, checksum="0" * 32))
    with pytest.raises(InputError, match=r"coco30k_bow\.npz does not hold the published data") as caught:
        load("coco30k")
    assert "uint16 (4, 500), uint8 (4, 18)" in str(caught.value)


EMBEDDED = ["BANKING77", "TINYIMAGENET"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embeddings_are_taken_as_they_are_in_float32(name, own_folder, monkeypatch):
    published = getattr(arrays, name)
    X, y = np.array([[0.5, -3.0], [7.0, 0.1]], dtype=np.float16), np.array([1, 0])
    np.savez(own_folder / published.name, X=X, y=y)
    monkeypatch.setattr(arrays, name, replace(published, checksum=checksum(X, y)))
    data = load(name.lower())
    ready = data.prepare(data.X[:1])(data.X)
    assert ready.dtype == np.float32
    np.testing.assert_array_equal(ready, X.astype(np.float32))
    np.testing.assert_array_equal(data.y, [1, 0])


@pytest.mark.parametrize("name", EMBEDDED)
def test_other_data_under_the_name_of_embeddings_are_refused(name, own_folder):
    file_name = getattr(arrays, name).name
    np.savez(own_folder / file_name, X=np.eye(2, dtype=np.float16), y=np.arange(2))
    with pytest.raises(InputError, match=f"{file_name} does not hold the published data"):
        load(name.lower())


def test_tiny_imagenet_has_the_cut_of_imagenet_under_a_name_of_its_own(own_folder, monkeypatch):
    X, y = np.zeros((10_000, 1), dtype=np.float16), np.arange(10_000) % 200
    np.savez(own_folder / "tinyimagenet_effnet.npz", X=X, y=y)
    monkeypatch.setattr(arrays, "TINYIMAGENET", replace(arrays.TINYIMAGENET, checksum=checksum(X, y)))
    whole, cut = load("tinyimagenet"), load("tinyimagenet-1500")
    assert (whole.name, whole.cut) == ("tinyimagenet", None)
    assert (cut.name, cut.cut) == ("tinyimagenet-1500", imagenet.CUT)
    np.testing.assert_array_equal(cut.y, whole.y)
    problem = pose(cut)
    assert (problem.cut, len(problem.queries), len(problem.database)) == (1500, 1000, 9000)


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("mnist", (70000, 784), (70000,)),
        ("cifar10", (60000, 512), (60000,)),
        ("coco30k", (30000, 500), (30000, 18)),
        ("coco30k-noperson", (15925, 500), (15925, 17)),
        ("banking77", (13083, 384), (13083,)),
        ("tinyimagenet", (110000, 256), (110000,)),
        ("tinyimagenet-1500", (110000, 256), (110000,)),
    ],
)
def test_published_files_pass_their_checks(name, shape, labels, data_folder):
    data = load(name)
    assert (data.X.shape, data.y.shape) == (shape, labels)


def test_checksum_sees_values_shapes_and_types():
    arrays = [
        np.arange(6, dtype=np.uint8),
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.arange(6, dtype=np.int8),
        np.arange(1, 7, dtype=np.uint8),
    ]
    assert len({checksum(array) for array in arrays}) == 4
    assert checksum(arrays[1].T.copy().T) == checksum(arrays[1])  # not the order in memory


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
