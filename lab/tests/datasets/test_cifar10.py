import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import cache_folder, cifar10, load
from supquant_lab.datasets.files import checksum
from supquant_lab.gist import gist_descriptors


class Python2Pickler(pickle._Pickler):
    """Writes as the published files were written: protocol 2, texts and bytes alike as strings of Python 2."""

    def __init__(self, file):
        super().__init__(file, protocol=2)

    def save_string(self, value):
        content = value if isinstance(value, bytes) else value.encode("latin1")
        self.write(b"T" + len(content).to_bytes(4, "little") + content)
        self.memoize(value)

    def save_global(self, obj, name=None):
        if getattr(obj, "__name__", "") == "_reconstruct":
            self.write(b"cnumpy.core.multiarray\n_reconstruct\n")
        else:
            super().save_global(obj, name)


Python2Pickler.dispatch = {
    **pickle._Pickler.dispatch,
    bytes: Python2Pickler.save_string,
    str: Python2Pickler.save_string,
}


def batch(images, labels):
    content = io.BytesIO()
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)
    batch = {"batch_label": "one", "labels": labels.tolist(), "data": planes, "filenames": ["a.png"]}
    Python2Pickler(content).dump(batch)
    return content.getvalue()


@pytest.fixture
def pictures(rng, monkeypatch):
    """Twelve pictures, two a batch, in place of the published ones: images, labels, files by name."""
    images = rng.integers(256, size=(12, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    files = {
        name: batch(images[2 * k : 2 * k + 2], labels[2 * k : 2 * k + 2])
        for k, name in enumerate(cifar10.BATCHES)
    }
    monkeypatch.setattr(cifar10, "LABELS_CHECKSUM", checksum(labels))
    for name, content in files.items():
        monkeypatch.setitem(cifar10.BATCHES, name, hashlib.md5(content).hexdigest())
    return images, labels, files


def write_folder(folder, files):
    (folder / cifar10.FOLDER).mkdir()
    for name, content in files.items():
        (folder / cifar10.FOLDER / name).write_bytes(content)


def write_archive(folder, files):
    """Write the archive in another order than that of the rows, as the published one is."""
    with tarfile.open(folder / cifar10.ARCHIVE, "w:gz") as archive:
        for name, content in sorted(files.items(), reverse=True):
            member = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        archive.addfile(tarfile.TarInfo(f"{cifar10.FOLDER}/readme.html"))


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_original_files_become_gist_with_their_pictures(write, own_folder, pictures):
    images, labels, files = pictures
    write(own_folder, files)
    data = load("cifar10")
    np.testing.assert_array_equal(data.images, images)
    np.testing.assert_array_equal(data.y, labels)
    np.testing.assert_array_equal(data.X, gist_descriptors(images))
    np.testing.assert_allclose(np.linalg.norm(data.prepare(data.X)(data.X), axis=1), 1, rtol=1e-5)


def test_pictures_in_an_npz_file_are_read(own_folder, pictures):
    images, labels, _ = pictures
    np.savez(own_folder / "cifar10.npz", X=images, y=labels.astype(np.int64))
    data = load("cifar10")
    np.testing.assert_array_equal(data.images, images)
    assert data.X.shape == (12, 512)


def test_gist_is_made_once_for_the_same_pictures(own_folder, pictures, monkeypatch):
    images, labels, _ = pictures
    np.savez(own_folder / "cifar10.npz", X=images, y=labels)
    events = []
    first = load("cifar10", callback=events.append).X
    assert [event.stage for event in events] == ["gist"]
    assert len(list(cache_folder().iterdir())) == 1
    monkeypatch.setattr(cifar10, "gist_descriptors", None)
    np.testing.assert_array_equal(load("cifar10").X, first)


def test_gist_is_made_again_for_other_pictures_and_other_recipes(own_folder, pictures, monkeypatch):
    images, labels, _ = pictures
    np.savez(own_folder / "cifar10.npz", X=images, y=labels)
    load("cifar10")
    np.savez(own_folder / "cifar10.npz", X=images[::-1], y=labels)
    load("cifar10")
    monkeypatch.setattr(cifar10, "RECIPE", 0)
    load("cifar10")
    assert len(list(cache_folder().iterdir())) == 3


@pytest.fixture
def gist_file(own_folder, pictures, monkeypatch):
    X, y = gist_descriptors(pictures[0]).astype(np.float16), pictures[1]
    np.savez(own_folder / "cifar10_gist.npz", X=X, y=y)
    monkeypatch.setattr(cifar10, "GIST_CHECKSUM", checksum(X, y))
    return X


def test_gist_file_is_taken_where_there_is_one(gist_file, own_folder, pictures):
    data = load("cifar10")
    np.testing.assert_array_equal(data.X, gist_file)
    assert data.images is None
    write_archive(own_folder, pictures[2])
    data = load("cifar10")
    np.testing.assert_array_equal(data.X, gist_file)
    np.testing.assert_array_equal(data.images, pictures[0])


def test_the_sample_is_not_loaded_as_data(own_folder, pictures):
    np.savez(own_folder / "cifar10_sample.npz", images=pictures[0], gist=np.zeros((12, 512)), index=range(12))
    with pytest.raises(InputError, match="was not found in"):
        load("cifar10")


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_damaged_batch_is_refused_by_name(write, own_folder, pictures):
    files = pictures[2]
    damaged = bytearray(files["data_batch_3"])
    damaged[-100] ^= 1
    write(own_folder, {**files, "data_batch_3": bytes(damaged)})
    with pytest.raises(InputError, match="data_batch_3 is damaged: md5"):
        load("cifar10")


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_missing_batch_is_named(write, own_folder, pictures):
    files = {name: content for name, content in pictures[2].items() if name != "test_batch"}
    write(own_folder, files)
    with pytest.raises(InputError, match=r"has no file .*test_batch"):
        load("cifar10")


@pytest.mark.parametrize("length", [0, 10, 3000])
def test_short_archive_is_refused_by_name(length, own_folder, pictures):
    write_archive(own_folder, pictures[2])
    path = own_folder / cifar10.ARCHIVE
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=r"cifar-10-python\.tar\.gz is damaged or not an archive"):
        load("cifar10")


def test_batch_may_hold_nothing_but_arrays(own_folder, pictures, monkeypatch):
    evil = pickle.dumps(len)  # print is replaced by some packages
    monkeypatch.setitem(cifar10.BATCHES, "data_batch_1", hashlib.md5(evil).hexdigest())
    write_folder(own_folder, {**pictures[2], "data_batch_1": evil})
    with pytest.raises(InputError, match=r"data_batch_1 is not .*must not hold builtins\.len"):
        load("cifar10")


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (
            np.zeros((12, 32, 32), dtype=np.uint8),
            np.arange(12) % 10,
            r"expected pictures X \(12, 32, 32, 3\)",
        ),
        (np.zeros((12, 32, 32, 3)), np.arange(12) % 10, "float64"),
        (np.zeros((12, 32, 32, 3), dtype=np.uint8), np.zeros(12), "does not hold the published data"),
    ],
)
def test_other_npz_file_is_refused_by_name(images, labels, message, own_folder, pictures):
    np.savez(own_folder / "cifar10.npz", X=images, y=labels)
    with pytest.raises(InputError, match=message) as caught:
        load("cifar10")
    assert "cifar10.npz" in str(caught.value)


def test_real_gist_file_has_the_labels_of_the_pictures(data_folder):
    assert checksum(load("cifar10").y) == cifar10.LABELS_CHECKSUM
