import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import load, nuswide

TRAIN, TEST = 7, 5
EMPTY = 3  # the row of the training part that has none of the labels


@pytest.fixture
def originals(own_folder, rng, monkeypatch):
    """Twelve pictures in files of the original forms: the folder, counts and labels in the order of features."""
    monkeypatch.setattr(nuswide, "PARTS", {"Train": TRAIN, "Test": TEST})
    counts = rng.integers(40, size=(TRAIN + TEST, 500))
    labels = rng.integers(2, size=(TRAIN + TEST, 21))
    labels[:, 0] = 1
    labels[EMPTY] = 0
    published = dict(zip(nuswide.LABELS, labels.sum(axis=0).tolist(), strict=True))
    monkeypatch.setattr(nuswide, "LABELS", published)

    folder = own_folder / "nuswide"
    features = folder / "Low_Level_Features" / "BoW_int"
    features.mkdir(parents=True)
    parts = {"Train": slice(0, TRAIN), "Test": slice(TRAIN, None)}
    for part, rows in parts.items():
        lines = [" ".join(map(str, row)) + " \n" for row in counts[rows]]  # with a space at the end
        (features / f"BoW_{part}_int.dat").write_text("".join(lines))

    # rows of the ground truth are in the order of Imagelist.txt, in which the two parts are mixed
    lists, truth = folder / "ImageList", folder / "Groundtruth" / "AllLabels"
    lists.mkdir()
    truth.mkdir(parents=True)
    names = np.array([f"actor\\{k:04d}_{rng.integers(10**9)}.jpg" for k in range(TRAIN + TEST)])
    order = rng.permutation(TRAIN + TEST)
    (lists / "Imagelist.txt").write_text("\r\n".join(names[order]) + "\r\n")
    for part, rows in parts.items():
        (lists / f"{part}Imagelist.txt").write_text("\r\n".join(names[rows]) + "\r\n")
    for column, label in enumerate(published):
        (truth / f"Labels_{label}.txt").write_text("".join(f"{value}\n" for value in labels[order, column]))
    (truth / "Labels_zebra.txt").write_text("1\n" * (TRAIN + TEST))  # one of the other sixty
    return folder, counts, labels


def use_part_labels(folder, labels):
    """Put labels in the order of the features in place of those in the order of all pictures."""
    truth = folder / "Groundtruth" / "TrainTestLabels"
    truth.mkdir()
    for column, label in enumerate(nuswide.LABELS):
        (folder / "Groundtruth" / "AllLabels" / f"Labels_{label}.txt").unlink()
        for part, rows in (("Train", labels[:TRAIN]), ("Test", labels[TRAIN:])):
            (truth / f"Labels_{label}_{part}.txt").write_text("".join(f"{row[column]}\n" for row in rows))


@pytest.mark.parametrize("by_part", [False, True])
def test_labels_are_matched_with_the_features_of_their_picture(by_part, originals):
    folder, counts, labels = originals
    if by_part:
        use_part_labels(folder, labels)
    data = load("nuswide")
    kept = np.arange(TRAIN + TEST) != EMPTY
    np.testing.assert_array_equal(data.X, counts[kept])
    np.testing.assert_array_equal(data.y, labels[kept])


def test_queries_are_drawn_by_label_and_counts_become_roots(originals):
    data = load("nuswide")
    assert data.queries_per_label == 100
    ready = data.prepare(data.X)(data.X)
    np.testing.assert_allclose(ready, np.sqrt(data.X / data.X.sum(axis=1, keepdims=True)), rtol=1e-5)


def test_labels_are_the_most_frequent_ones_in_falling_order():
    frequencies = list(nuswide.LABELS.values())
    assert len(frequencies) == 21
    assert frequencies == sorted(frequencies, reverse=True)
    assert sum(nuswide.PARTS.values()) == 269_648


def test_other_numbers_of_labels_are_reported(originals, monkeypatch):
    monkeypatch.setitem(nuswide.LABELS, "reflection", 7_875)
    with pytest.warns(
        UserWarning, match=r"reflection on \d+, not 7,875\): 11 pictures are left, not 195,834"
    ):
        assert len(load("nuswide")) == TRAIN + TEST - 1


def edited(folder, name, change):
    (path,) = folder.rglob(name)
    path.write_text(change(path.read_text()))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "BoW_Train_int.dat",
            lambda text: text[text.index("\n") + 1 :],
            "expected 7 rows of 500, got 6 of 500",
        ),
        ("BoW_Test_int.dat", lambda text: text[: len(text) - 60], "expected 500 counts in every row"),
        ("BoW_Test_int.dat", lambda text: "x" + text, "expected 500 counts in every row"),
        ("BoW_Train_int.dat", lambda text: "-" + text, "expected 500 counts in every row"),
        ("BoW_Test_int.dat", lambda text: "", "expected 5 rows of 500, got 0"),
        ("Labels_lake.txt", lambda text: text + "1\n", "expected 12 rows of 1, got 13 of 1"),
        ("Labels_lake.txt", lambda text: "2" + text[1:], "expected 0 or 1 in every row, got 2 in row 1"),
        ("Imagelist.txt", lambda text: text + "new.jpg", "expected 12 different pictures, got 13, 13"),
        (
            "TestImagelist.txt",
            lambda text: text.replace("0011", "0099"),
            "differ in 2 pictures, such as actor",
        ),
        (
            "TrainImagelist.txt",
            lambda text: text.splitlines()[0] + "\n" + text,
            "different pictures, got 8, 7",
        ),
    ],
)
def test_damaged_file_is_refused_by_name(name, change, message, originals):
    edited(originals[0], name, change)
    with pytest.raises(InputError, match=message) as caught:
        load("nuswide")
    assert name.removeprefix("Test").removeprefix("Train") in str(caught.value)


def test_picture_that_is_listed_twice_is_refused(originals):
    folder = originals[0]
    first, second, *_ = (folder / "ImageList" / "TrainImagelist.txt").read_text().split()
    for name in ("Imagelist.txt", "TrainImagelist.txt"):
        edited(folder, name, lambda text: text.replace(second, first))
    with pytest.raises(
        InputError, match=r"Imagelist\.txt: expected 12 different pictures, got 12, 11 different"
    ):
        load("nuswide")


@pytest.mark.parametrize(
    "name", ["BoW_Test_int.dat", "Labels_tree.txt", "Imagelist.txt", "TrainImagelist.txt"]
)
def test_missing_file_is_named(name, originals):
    (path,) = originals[0].rglob(name)
    path.unlink()
    with pytest.raises(InputError, match=f"^{name} was not found in .*nuswide"):
        load("nuswide")


def test_missing_label_of_a_part_is_named(originals):
    folder, _, labels = originals
    use_part_labels(folder, labels)
    (folder / "Groundtruth" / "TrainTestLabels" / "Labels_tree_Test.txt").unlink()
    with pytest.raises(InputError, match=r"^Labels_tree_Test\.txt was not found in"):
        load("nuswide")
