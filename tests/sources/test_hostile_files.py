"""Files that were damaged or made to do harm: each is one `InputError` that names it, and no process ends or fills the memory."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from supquant import InputError, open_vectors
from supquant.sources import matrices

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
Y = [f"label {row % 3}" for row in range(40)]


def npy(shape: str, content: bytes = b"1234", closing: str = "}") -> bytes:
    """Return an .npy file with a header that states a shape."""
    header = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, {closing}".encode().ljust(117) + b"\n"
    )
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + content


def npz(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def nested(opening: str, closing: str, depth: int) -> bytes:
    return f'{{"v": {opening * depth}1{closing * depth}}}\n'.encode()


MADE = {
    "a header that does not end": ("a.npy", npy("(3, 1)", closing="(")),
    "a header of petabytes": ("a.npy", npy("(1000000000000000, 1)")),
    "a header beyond all integers": ("a.npy", npy(f"(1{'0' * 40}, 1)")),
    "a header of petabytes in an archive": ("a.npz", npz(X=npy("(1000000000000000, 1)"))),
    "a header that does not end in an archive": ("a.npz", npz(X=npy("(3, 1)", closing="("))),
    "rows of 2^31 - 1 dimensions": ("a.fvecs", struct.pack("<i", 2**31 - 1) + bytes(400)),
    "lists in lists": ("a.jsonl", nested("[", "]", 100_000)),
    "objects in objects": ("a.jsonl", nested('{"a":', "}", 100_000)),
    "lists after a bracket in a text": ("a.jsonl", b'{"a": "\\"]}", "v": ' + nested("[", "]", 300)[6:]),
    "a text that is not UTF-8": ("a.jsonl", b'{"v": [1], "label": "\xff"}\n'),
}


@pytest.mark.parametrize("case", MADE)
def test_files_that_were_made_to_do_harm_are_refused(case: str, tmp_path: Path) -> None:
    name, content = MADE[case]
    (tmp_path / name).write_bytes(content)
    program = """
import sys
from supquant import InputError, open_vectors
try:
    source = open_vectors(sys.argv[1], labels=True if sys.argv[1].endswith("jsonl") else None)
    source.X, source.labels
except InputError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / name], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{tmp_path / name}"), run.stdout
    assert len(run.stdout.splitlines()) == 1


@pytest.mark.parametrize("header", [npy("(1000000000000000,)"), npy("(3,)", closing="(")])
def test_labels_in_such_a_file_are_refused(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "y.npy").write_bytes(header)
    with pytest.raises(InputError, match=r"y\.npy is not a readable \.npy file"):
        open_vectors(X, labels=tmp_path / "y.npy")


def test_an_array_that_expands_beyond_belief_is_refused(tmp_path: Path, monkeypatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((5000, 1000), np.float32))
    assert open_vectors(tmp_path / "a.npz").shape == (5000, 1000)
    monkeypatch.setattr(matrices, "MAX_BYTES", 10_000_000)
    with pytest.raises(
        InputError, match=r"'X' of 20,000,128 bytes takes .* in the file; expected at least 1 in 500"
    ):
        open_vectors(tmp_path / "a.npz")


def test_json_of_one_hundred_levels_is_read(tmp_path: Path) -> None:
    row = {"v": [1.0, 2.0], "text": "[" * 500 + '\\"{', "deep": json.loads("[" * 98 + "]" * 98)}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert open_vectors(tmp_path / "a.jsonl", "v").X.tolist() == [[1, 2]]


def csv() -> bytes:
    return "".join(["id,x0,x1,label\n", *(f"{i},{X[i, 0]},{X[i, 1]},{Y[i]}\n" for i in range(40))]).encode()


def written(write) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


TABLE = pa.table({"v": pa.array(X.tolist(), pa.list_(pa.float32())), "label": Y, "id": range(40)})
SOUND = {
    "a.parquet": lambda: written(lambda file: pq.write_table(TABLE, file, row_group_size=15)),
    "a.arrow": lambda: written(lambda file: pyarrow.feather.write_feather(TABLE, file)),
    "a.npz": lambda: written(lambda file: np.savez_compressed(file, X=X, y=np.array(Y), ids=np.arange(40))),
    "a.npy": lambda: written(lambda file: np.save(file, X)),
    "a.csv.gz": lambda: gzip.compress(csv()),
    "a.jsonl": lambda: b"".join(
        json.dumps({"v": X[i].tolist(), "label": Y[i], "id": i}).encode() + b"\n" for i in range(40)
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_damaged_files_are_refused_or_read(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sound = SOUND[name]()
    path = tmp_path / name
    refused = []
    for trial in range(150):
        content = bytearray(sound)
        for _ in range(3):
            # damage is most harmful in headers, which are at the ends
            places = (rng.integers(len(sound)), rng.integers(200), len(sound) - 1 - rng.integers(200))
            place = int(places[trial % 3]) % len(content)
            if trial % 2:
                content[place] = int(rng.integers(256))
            else:
                content[place : place + 4] = bytes(rng.integers(0, 256, size=4, dtype=np.uint8))
        path.write_bytes(content)
        try:
            source = open_vectors(path, labels=None if name == "a.npy" else True)
            assert source.X.shape == source.shape
            assert source.labels is None or len(source.labels) == len(source)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all(str(path) in each and len(each.splitlines()) == 1 for each in refused)
