"""Odd files give the right rows, or one line that says what is wrong: never a silent wrong answer."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from supquant import InputError, open_vectors
from supquant.cli import app

X = np.array([[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]], dtype=np.float32)
HEAD = "id,x0,x1,label\n"
ROWS = "7,0.5,1,a\n8,1.5,2,b\n9,2.5,3,a\n"


def parquet(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


def parquet_of(table: Callable[[], pa.Table]) -> Callable[[Path], None]:
    return lambda path: pq.write_table(table(), path)


def text(content: str, encoding: str = "utf-8") -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content.encode(encoding))


def folder(**files: Callable[[Path], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir()
        for name, each in files.items():
            each(path / name.replace("_", "."))

    return write


def categories() -> pa.Table:
    frame = pd.DataFrame({"v": list(X), "label": pd.Categorical(["a", "b", "a"]), "id": [7, 8, 9]})
    return pa.Table.from_pandas(frame)


def dictionaries() -> pa.Table:
    return pa.table(
        {"v": X.tolist(), "label": pa.array(["a", "b", "a"]).dictionary_encode(), "id": pa.array([7, 8, 9])}
    )


def npz(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), X=X, y=["a", "b", "a"], ids=[7, 8, 9])
    path.with_suffix(".npz").rename(path)


RIGHT: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a line of names": ("a.csv", text(HEAD + ROWS)),
    "a byte order mark": ("a.csv", text(HEAD + ROWS, "utf-8-sig")),
    "CRLF": ("a.csv", text((HEAD + ROWS).replace("\n", "\r\n"))),
    "old Mac line ends": ("a.csv", text((HEAD + ROWS).replace("\n", "\r"))),
    "a blank line at the end": ("a.csv", text(HEAD + ROWS + "\n\n")),
    "a blank line at the start": ("a.csv", text("\n" + HEAD + ROWS)),
    "no line end at the end": ("a.csv", text((HEAD + ROWS).rstrip("\n"))),
    "blanks around values": ("a.csv", text("id , x0, x1 ,label\n" + ROWS.replace(",", " , "))),
    "quotes": ("a.csv", text('"id","x0","x1","label"\n' + ROWS.replace("a", '"a"'))),
    "tabs": ("a.tsv", text((HEAD + ROWS).replace(",", "\t"))),
    "semicolons": ("a.csv", text((HEAD + ROWS).replace(",", ";"))),
    "an index of pandas": ("a.csv", text(",x0,x1,label,id\n0,.5,1,a,7\n1,1.5,2,b,8\n2,2.5,3,a,9\n")),
    "columns in another order": ("a.csv", text("x1,label,x0,id\n1,a,.5,7\n2,b,1.5,8\n3,a,2.5,9\n")),
    "an ending in capitals": ("A.CSV", text(HEAD + ROWS)),
    "gzip": ("a.csv.gz", lambda path: path.write_bytes(gzip.compress((HEAD + ROWS).encode()))),
    "gzip without the ending": (
        "a.csv",
        lambda path: path.write_bytes(gzip.compress((HEAD + ROWS).encode())),
    ),
    "vectors as texts of lists": (
        "a.csv",
        text('id,v,label\n7,"[0.5, 1.0]",a\n8,"[1.5, 2]",b\n9,"[2.5,3]",a\n'),
    ),
    "vectors as NumPy prints them": (
        "a.csv",
        text('id,v,label\n7,"[0.5 1. ]",a\n8,"[1.5\n 2. ]",b\n9,[2.5 3. ],a\n'),
    ),
    "Parquet that is called .csv": ("a.csv", parquet_of(dictionaries)),
    "categories": ("a.parquet", parquet_of(categories)),
    "dictionaries": ("a.parquet", parquet_of(dictionaries)),
    "an .npz file that is called .bin": ("a.bin", npz),
    "doubles in one file, floats in the next": (
        "many",
        folder(
            a_parquet=parquet(v=pa.array(X[:2].tolist()), label=["a", "b"], id=[7, 8]),
            b_parquet=parquet(v=pa.array(X[2:].tolist(), pa.list_(pa.float32())), label=["a"], id=[9]),
        ),
    ),
    "JSON lines with whole numbers first": (
        "a.jsonl",
        text(
            '{"v":[0.5,1],"label":"a","id":7}\n{"v":[1.5,2],"label":"b","id":8}\n\n{"v":[2.5,3],"label":"a","id":9}'
        ),
    ),
}
"""Files with the same three rows."""

WRONG: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "an empty file": ("a.csv", text(""), "is empty"),
    "only blank lines": ("a.csv", text("\n\n"), "is empty"),
    "only names": ("a.csv", text(HEAD), "names but no rows"),
    "a short row": ("a.csv", text(HEAD + "7,0.5,1,a\n8,1.5,2\n"), "Expected 4 columns, got 3"),
    "a blank in a vector": ("a.csv", text(HEAD + "7,0.5,1,a\n8,,2,b\n"), "row 1 has no value in column 'x0'"),
    "a word in a vector": (
        "a.csv",
        text(HEAD + "7,0.5,1,a\n8,1.5,two,b\n"),
        "row 1 has 'two' in column 'x1'",
    ),
    "NaN in a CSV file": ("a.csv", text(HEAD + "7,0.5,1,a\n8,nan,2,b\n"), "row 1 has the value nan"),
    "decimal commas": (
        "a.csv",
        text('id;x0;x1;label\n7;"0,5";"1";a\n8;"1,5";"2";b\n'),
        "name the column|number",
    ),
    "a shortened vector": ("a.csv", text('id,v,label\n7,"[0.5 ... 1. ]",a\n'), "shortened to '...'"),
    "names twice": ("a.csv", text("id,x0,x0,label\n" + ROWS), "two columns called 'x0'"),
    "UTF-16": ("a.csv", text(HEAD + ROWS, "utf-16"), "UTF-16"),
    "Latin-1": ("a.csv", text(HEAD + ROWS.replace("b", "é"), "latin-1"), "not a readable text file"),
    "a blank id": ("a.csv", text(HEAD + "7,0.5,1,a\n,1.5,2,b\n"), "row 1 has no id"),
    "a missing vector": (
        "a.parquet",
        parquet(v=[[1.0], None], label=["a", "b"], id=[1, 2]),
        "row 1 has no vector",
    ),
    "a ragged vector": (
        "a.parquet",
        parquet(v=[[1.0, 2.0], [1.0]], label=["a", "b"], id=[1, 2]),
        "row 1 has a vector of 1 values where the rows before it have 2",
    ),
    "a hole in a vector": (
        "a.parquet",
        parquet(v=[[1.0, 2.0], [1.0, None]], label=["a", "b"], id=[1, 2]),
        "row 1 has a vector with a missing value",
    ),
    "NaN in Parquet": (
        "a.parquet",
        parquet(v=[[1.0, 2.0], [1.0, np.inf]], label=["a", "b"], id=[1, 2]),
        "row 1 has the value inf",
    ),
    "lists of lists": (
        "a.parquet",
        parquet(v=[[[1.0]]], label=["a"], id=[1]),
        "no column is known to hold the vectors",
    ),
    "lists of words": (
        "a.parquet",
        parquet(v=[["x"]], label=["a"], id=[1]),
        "no column is known to hold the vectors",
    ),
    "two columns of vectors": (
        "a.parquet",
        parquet(v=[[1.0]], w=[[1.0]], label=["a"], id=[1]),
        "both 'v' and 'w' hold vectors",
    ),
    "two columns of labels": (
        "a.parquet",
        parquet(v=[[1.0]], label=["a"], category=["a"], id=[1]),
        "both 'label' and 'category' could be the labels",
    ),
    "no labels": (
        "a.parquet",
        parquet(v=[[1.0]], brand=["a"], id=[1]),
        "no column is known to be the labels",
    ),
    "labels that are fractions": (
        "a.parquet",
        parquet(v=[[1.0]], label=[pd.Timestamp(0)], id=[1]),
        "column 'label' .* it holds timestamp",
    ),
    "ids that are fractions": (
        "a.parquet",
        parquet(v=[[1.0]], label=["a"], id=[0.5]),
        "column 'id' .* it holds double",
    ),
    "no rows": ("a.parquet", parquet(v=pa.array([], pa.list_(pa.float32())), label=[], id=[]), "has no rows"),
    "a truncated Parquet file": (
        "a.parquet",
        lambda path: path.write_bytes(b"PAR1 and no more"),
        "not a readable Parquet",
    ),
    "text that is called Parquet": ("a.parquet", text(HEAD + ROWS), "is not a parquet file"),
    "an unknown ending": ("a.xlsx", text("what is this"), "known formats end in .parquet"),
    "a JSON array": ("a.json", text('[{"v": [1], "label": "a", "id": 1}]'), "JSON lines"),
    "broken JSON": ("a.jsonl", text('{"v": [1'), "not a readable file of JSON lines"),
    "an .npy file of one dimension": ("a.npy", lambda path: np.save(path, X[0]), "--labels"),
    "a truncated .npy file": (
        "a.npy",
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"),
        "not a readable .npy|--labels",
    ),
    "a folder without files": ("many", folder(), "folder without files"),
    "a folder of two formats": (
        "many",
        folder(a_csv=text(HEAD + ROWS), b_parquet=parquet_of(dictionaries)),
        "several formats: csv, parquet",
    ),
    "another width in the second file": (
        "many",
        folder(
            a_parquet=parquet(v=[[1.0, 2.0]], label=["a"], id=[1]),
            b_parquet=parquet(v=[[1.0]], label=["a"], id=[2]),
        ),
        "b.parquet, row 0 has a vector of 1 values",
    ),
    "no labels in the second file": (
        "many",
        folder(a_parquet=parquet(v=[[1.0]], label=["a"], id=[1]), b_parquet=parquet(v=[[1.0]], id=[2])),
        "b.parquet has no column 'label'",
    ),
    "an .fbin file that is too short": (
        "a.fbin",
        lambda path: path.write_bytes(b"\x09\0\0\0\x09\0\0\0"),
        "--labels|header says",
    ),
}
"""Files that must be refused, with what is said."""


@pytest.mark.parametrize("case", RIGHT)
def test_odd_files_are_understood(case: str, tmp_path: Path) -> None:
    name, write = RIGHT[case]
    write(tmp_path / name)
    source = open_vectors(tmp_path / name, labels=True, ids=True)
    np.testing.assert_array_equal(source.X, X)
    assert source.labels.tolist() == ["a", "b", "a"]
    assert source.ids is not None
    assert source.ids.tolist() == [7, 8, 9]


@pytest.mark.parametrize("case", WRONG)
def test_invalid_files_are_refused_in_one_line(case: str, tmp_path: Path) -> None:
    name, write, fault = WRONG[case]
    write(tmp_path / name)

    def read() -> None:
        source = open_vectors(tmp_path / name, labels=True, ids=True)
        assert source.X is not None
        assert len(source.labels) == len(source.ids or ())

    with pytest.raises(InputError, match=fault) as error:
        read()
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize("case", WRONG)
def test_the_command_refuses_them_in_one_line(case: str, tmp_path: Path) -> None:
    name, write, _ = WRONG[case]
    write(tmp_path / name)
    result = CliRunner().invoke(app, ["fit", str(tmp_path / name), "-o", str(tmp_path / "m"), "--ids", "id"])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()  # what was guessed comes first
    assert [line.startswith("Error: ") for line in lines] == [False] * (len(lines) - 1) + [True]
    assert not (tmp_path / "m").exists()


def test_blank_labels_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + '7,0.5,1,\n8,1.5,2," "\n9,2.5,3,a\n')
    assert open_vectors(tmp_path / "a.csv", labels=True).labels.tolist() == [None, None, "a"]


def test_blank_labels_in_arrays_are_unknown(tmp_path: Path) -> None:
    y = np.array(["", " ", "a "])
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "y.npy", y)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.update({"X": X, "y": y.astype("S")})
    for source in ("a.npz", "a.h5"):
        assert open_vectors(tmp_path / source, labels=True).labels.tolist() == [None, None, "a"]
    for beside in ("a.npz", "a.h5", "y.npy"):
        assert open_vectors(X, labels=tmp_path / beside).labels.tolist() == [None, None, "a"]


def test_a_label_called_na_is_a_label(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "7,0.5,1,NA\n8,1.5,2,null\n9,2.5,3,nan\n")
    assert open_vectors(tmp_path / "a.csv", labels=True).labels.tolist() == ["NA", "null", "nan"]


@pytest.mark.parametrize("lines", ["a\nb\na", "name\na\nb\na", "a\nb\na\n\n", "name\na\nb\na\n"])
def test_a_label_file_with_an_extra_line_begins_with_a_name(lines: str, tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text(lines)
    assert open_vectors(X, labels=tmp_path / "y.txt").labels.tolist() == ["a", "b", "a"]


def test_a_label_file_with_blank_lines_has_unknown_labels(tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text("3\n\n\n")
    assert open_vectors(X, labels=tmp_path / "y.txt").labels.tolist() == [3, None, None]


def test_a_series_that_pandas_wrote_is_a_label_file(tmp_path: Path) -> None:
    pd.Series(["a", None, "b"], name="category").to_csv(tmp_path / "y.csv")
    assert open_vectors(X, labels=tmp_path / "y.csv").labels.tolist() == ["a", None, "b"]


def test_integers_among_missing_labels_stay_integers() -> None:
    table = pa.table({"v": X.tolist(), "y": [3, None, 4]})
    assert open_vectors(table, labels="y").labels.tolist() == [3, None, 4]


def test_a_pattern_chooses_columns() -> None:
    frame = pd.DataFrame(X, columns=["left", "right"]).assign(price=[1, 2, 3], brand="x")
    np.testing.assert_array_equal(open_vectors(frame, vectors="*", metadata=["price"]).X, X)
    np.testing.assert_array_equal(open_vectors(frame, vectors=["right", "left"]).X, X[:, ::-1])
    with pytest.raises(InputError, match="name the column with vectors="):
        open_vectors(frame)


def test_a_missing_column_is_named_with_those_that_exist() -> None:
    table = pa.table({"v": X.tolist(), "y": [3, None, 4]})
    with pytest.raises(InputError, match="has no column 'colour': its columns are v, y"):
        open_vectors(table, labels="colour")
    with pytest.raises(InputError, match=r"array has no column 'y', and no labels: give a file"):
        open_vectors(X, labels="y")
