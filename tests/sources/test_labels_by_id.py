"""Tables that name items by their ids and give their labels."""

import numpy as np
import pandas
import pytest

from supquant import InputError, open_vectors
from supquant.sources import read_labels_by_id

FRAME = pandas.DataFrame({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "label": ["one", None, "two"]})


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather", "jsonl"])
def test_ids_and_labels_are_read_from_every_kind_of_table(tmp_path, kind):
    path = tmp_path / f"labels.{kind}"
    if kind in ("csv", "tsv"):
        FRAME.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    else:
        (FRAME.to_parquet if kind == "parquet" else FRAME.to_feather)(path)
    ids, labels, notes = read_labels_by_id(path)
    assert ids.tolist() == ["a", "b", "c"]
    assert labels.tolist() == ["one", None, "two"]
    assert len(notes) == 2
    ids, labels, notes = read_labels_by_id(path, "text", "id")
    assert labels.tolist() == ["x", "y", "z"]
    assert notes == ()


def test_numbers_are_integers_if_all_of_them_are_canonical(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n007,3\n8,\n")
    ids, labels, _ = read_labels_by_id(path)
    assert ids.tolist() == ["007", "8"]
    assert labels.tolist() == [3, None]
    path.write_text("5,cat\n6,dog\n")  # without names
    ids, labels, _ = read_labels_by_id(path, "1", "0")
    assert (ids.dtype, ids.tolist(), labels.tolist()) == (np.int64, [5, 6], ["cat", "dog"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\n", "has no rows"),
        ("id,label,y\n1,2,3\n", "both 'label' and 'y' could be the labels"),
        ("name,label\nx,2\n", "no column is known to be the ids"),
        ("id,id\n1,2\n", "two columns called 'id'"),
        ("", "is empty"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels_by_id(path)
    with pytest.raises(InputError, match="no such file"):
        read_labels_by_id(tmp_path / "none.csv")
    np.save(tmp_path / "labels.npy", np.arange(3))
    with pytest.raises(InputError, match="is not a table"):
        read_labels_by_id(tmp_path / "labels.npy")


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_the_current_folder(name):
    with pytest.raises(InputError, match="the name of a file is empty"):
        open_vectors(name)
