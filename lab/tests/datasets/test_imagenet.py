import hashlib
import os
import select
import signal

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import cache_folder, imagenet, load
from supquant_lab.problem import pose

WIDTH = 8


@pytest.fixture
def pictures(own_folder, rng, monkeypatch):
    """Thirty training and ten validation rows in place of the published ones: X, y, folder."""
    monkeypatch.setattr(imagenet, "DIMENSIONS", WIDTH)
    monkeypatch.setattr(imagenet, "TRAINING_ROWS", 30)
    monkeypatch.setattr(imagenet, "VALIDATION_ROWS", 10)
    folder = own_folder / "imagenet"
    folder.mkdir()
    X = rng.normal(size=(40, WIDTH)).astype(np.float32)
    X[:, 0] = np.arange(40)  # identifies a row
    return X, np.arange(40) % 5, folder


SHARDS = {"train-00": slice(0, 11), "train-01": slice(11, 30), "val": slice(30, 40)}


def write_npy(folder, X, y):
    for name, rows in SHARDS.items():
        part, dash, number = name.partition("-")
        np.save(folder / f"{name}.npy", X[rows])
        np.save(folder / f"{part}_labels{dash}{number}.npy", y[rows])


def write_hdf5(folder, X, y):
    h5py = pytest.importorskip("h5py")
    for name, rows in SHARDS.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["features"], file["labels"] = X[rows], y[rows]


both_forms = pytest.mark.parametrize("write", [write_npy, write_hdf5])


@both_forms
def test_shards_are_joined_training_rows_mixed_validation_rows_last(write, pictures):
    X, y, folder = pictures
    write(folder, X, y)
    data = load("imagenet")
    assert isinstance(data.X, np.memmap)
    assert (data.n_queries_last, data.cut) == (10, 1500)
    rows = data.X[:, 0].astype(int)
    assert sorted(rows[:30]) == list(range(30))
    assert (rows[:30] != np.arange(30)).sum() > 20
    np.testing.assert_array_equal(rows[30:], np.arange(30, 40))
    np.testing.assert_array_equal(data.X, X[rows])
    np.testing.assert_array_equal(data.y, y[rows])
    np.testing.assert_array_equal(data.prepare(data.X[:2])(data.X[:2]), X[rows[:2]])


def test_order_of_rows_is_the_same_for_both_forms(pictures):
    X, y, folder = pictures
    write_hdf5(folder, X, y)
    one = load("imagenet").X[:]
    write_npy(folder, X, y)
    np.testing.assert_array_equal(load("imagenet").X, one)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rows_of_any_width_are_used_as_they_lie_in_the_joined_file(dtype, pictures):
    X, y, folder = pictures
    write_npy(folder, X.astype(dtype), y)
    dataset = load("imagenet")
    assert dataset.X.dtype == np.float32
    assert np.shares_memory(pose(dataset).X, dataset.X)


def test_shards_are_joined_once(pictures, monkeypatch):
    X, y, folder = pictures
    write_npy(folder, X, y)
    events = []
    first = load("imagenet", callback=events.append)
    assert [event.step for event in events] == [1, 2, 3]
    monkeypatch.setattr(imagenet, "_join", None)
    np.testing.assert_array_equal(load("imagenet").X, first.X)


def test_shards_that_changed_are_joined_again(pictures):
    X, y, folder = pictures
    write_npy(folder, X, y)
    load("imagenet")
    labels = y[SHARDS["train-01"]][::-1]
    np.save(folder / "train_labels-01.npy", labels)
    os.utime(folder / "train_labels-01.npy", ns=(0, 0))
    data = load("imagenet")
    rows = data.X[:, 0].astype(int)
    np.testing.assert_array_equal(
        data.y[np.isin(rows, range(11, 30))], labels[rows[np.isin(rows, range(11, 30))] - 11]
    )


def test_a_killed_join_is_never_mistaken_for_a_complete_one(pictures, own_folder, telling_child):
    X, y, folder = pictures
    write_npy(folder, X, y)

    def stop_half_way(tell):
        def wait(progress):
            if progress.step == 2:
                tell("half way")
                signal.pause()

        load("imagenet", callback=wait)

    child, lines = telling_child(stop_half_way)
    assert lines.readline() == "half way\n"
    os.kill(child, signal.SIGKILL)
    assert lines.read() == ""  # it has ended
    (left,) = cache_folder().glob("imagenet-*.unfinished")
    assert (left / "X.npy").stat().st_size > 40 * WIDTH * 4
    data = load("imagenet")
    np.testing.assert_array_equal(data.X, X[data.X[:, 0].astype(int)])
    assert not left.exists()


def test_second_process_waits_for_the_first(pictures, telling_child):
    X, y, folder = pictures
    write_npy(folder, X, y)
    heard, say = os.pipe()

    def load_when_told(tell):
        os.read(heard, 1)
        tell("loading")
        tell(load("imagenet").X.shape)

    _, lines = telling_child(load_when_told)

    def start_another(progress):
        if progress.step == 1:
            os.write(say, b".")
            assert lines.readline() == "loading\n"
            assert not select.select([lines], [], [], 0.5)[0]  # nothing more is told meanwhile

    load("imagenet", callback=start_another)
    assert lines.read() == "(40, 8)\n"
    os.close(heard)
    os.close(say)


def test_failed_join_leaves_nothing_behind(pictures):
    X, y, folder = pictures
    X[13, 2] = np.nan
    write_npy(folder, X, y)
    with pytest.raises(
        InputError, match=r"train-01\.npy: row 2 holds a number that is not finite in float32"
    ):
        load("imagenet")
    assert [path.suffix for path in cache_folder().iterdir()] == [".lock"]


def test_full_disk_is_an_error_that_names_the_file(pictures, monkeypatch):
    X, y, folder = pictures
    write_npy(folder, X, y)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(imagenet.os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"no room for 0\.0 GB: No space left on device.*X\.npy"):
        load("imagenet")


def test_other_numbers_of_rows_are_reported(pictures, monkeypatch):
    X, y, folder = pictures
    write_npy(folder, X, y)
    monkeypatch.setattr(imagenet, "TRAINING_ROWS", 1_281_167)
    with pytest.warns(
        UserWarning, match="holds 30 training and 10 validation rows, published were 1,281,167"
    ):
        load("imagenet")


def test_float64_beyond_float32_is_refused(pictures):
    X, y, folder = pictures
    X = X.astype(np.float64)
    X[0, 1] = 1e200
    write_npy(folder, X, y)
    with pytest.raises(InputError, match=r"train-00\.npy: row 0 .* not finite in float32"):
        load("imagenet")


def test_sums_are_checked_where_there_are_any(pictures):
    X, y, folder = pictures
    write_npy(folder, X, y)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    text = "".join(f"{value}  {name}\n" for name, value in sums.items())
    (folder / "SHA256SUMS").write_text(text)
    assert load("imagenet").X.shape == (40, WIDTH)
    content = bytearray((folder / "train_labels-01.npy").read_bytes())
    content[-8] ^= 1
    (folder / "train_labels-01.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"train_labels-01\.npy is damaged: SHA-256"):
        load("imagenet")
    (folder / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(InputError, match=r"SHA256SUMS: expected lines of a SHA-256"):
        load("imagenet")


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


def several_arrays(path):
    with path.open("wb") as file:
        np.savez(file, X=np.zeros((20, 8)), y=np.zeros(20))


def set_array(array):
    return lambda path: np.save(path, array)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-01.npy", cut_short, "is damaged, short, or not an .npy file"),
        ("val_labels.npy", cut_short, "is damaged, short, or not an .npy file"),
        ("train-00.npy", lambda path: path.write_bytes(b""), "is damaged, short, or not an .npy file"),
        ("train-00.npy", several_arrays, "holds several arrays"),
        ("train-01.npy", set_array(np.zeros((19, 7), dtype="f4")), "expected 8 features per row, got 7"),
        ("train-01.npy", set_array(np.zeros((19, 8), dtype=int)), "of floats, got .19, 8. int64"),
        ("train-01.npy", set_array(np.zeros(19)), "of floats, got .19,."),
        ("val_labels.npy", set_array(np.zeros(9, dtype=int)), "expected 10 integer labels, got .9,."),
        ("val_labels.npy", set_array(np.zeros(10)), "expected 10 integer labels, got .10,. float64"),
        ("train_labels-00.npy", lambda path: path.unlink(), "has no labels next to it: expected"),
    ],
)
def test_damaged_npy_shard_is_refused_by_name(name, change, message, pictures):
    X, y, folder = pictures
    write_npy(folder, X, y)
    change(folder / name)
    with pytest.raises(InputError, match=message) as caught:
        load("imagenet")
    assert name in str(caught.value)


def test_label_that_training_rows_do_not_have_is_refused(pictures):
    X, y, folder = pictures
    write_npy(folder, X, np.where(np.arange(40) > 36, 7, y))
    with pytest.raises(InputError, match="got 5 classes, and 1 more in val"):
        load("imagenet")


def test_too_many_classes_are_refused(pictures, monkeypatch):
    X, y, folder = pictures
    write_npy(folder, X, y)
    monkeypatch.setattr(imagenet, "CLASSES", 4)
    with pytest.raises(InputError, match=r"at most 4 classes.* got 5 classes"):
        load("imagenet")


def test_damaged_hdf5_shard_is_refused_by_name(pictures):
    h5py = pytest.importorskip("h5py")
    X, y, folder = pictures
    write_hdf5(folder, X, y)
    with h5py.File(folder / "train-01.h5", "a") as file:
        del file["labels"]
    with pytest.raises(InputError, match=r"train-01\.h5 has no data set labels; it holds features"):
        load("imagenet")
    cut_short(folder / "train-00.h5")
    with pytest.raises(InputError, match=r"train-00\.h5 is damaged, short, or not an HDF5 file"):
        load("imagenet")


@pytest.mark.parametrize("part", ["train", "val"])
def test_missing_part_is_named(part, pictures):
    X, y, folder = pictures
    write_npy(folder, X, y)
    for path in folder.glob(f"{part}*"):
        path.unlink()
    with pytest.raises(InputError, match=rf"^imagenet with {part}\*\.npy \(or \.h5\) was not found"):
        load("imagenet")
