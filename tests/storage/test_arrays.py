"""Arrays and settings come back from a file as they were, and are verified when they are read."""

import json
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import safetensors.numpy
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stored_arrays import ARRAYS, SETTINGS, assert_same, reusing_the_folder
from texts import texts

from supquant.errors import FileFormatError, InputError
from supquant.storage import layout, load_arrays, open_arrays, pack_arrays

STORABLE = st.sampled_from([">i4", "<i8", "u1", "<u8", "<f2", "<f4", ">f8", "?", "i1", "<u2", "<i2", "<u4"])


@reusing_the_folder
@given(
    arrays=st.dictionaries(
        texts(max_size=5),
        STORABLE.flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
        ),
        max_size=4,
    ),
    values=st.dictionaries(texts(max_size=5), st.one_of(st.none(), st.integers(), st.booleans(), texts())),
)
def test_arrays_and_settings_come_back_as_they_were(tmp_path, arrays, values):
    path = tmp_path / "file"
    pack_arrays("any", arrays, values).write(path)
    opened = open_arrays(path, "any")
    for found, found_values in (load_arrays(path, "any"), (opened.arrays, opened.settings)):
        assert_same(found, arrays)
        assert found_values == values
    assert_same(safetensors.numpy.load(path.read_bytes()), arrays)


def test_arrays_that_are_not_contiguous_are_stored_by_value(tmp_path):
    array = np.arange(24).reshape(4, 6)
    pack_arrays("any", {"turned": array.T, "strided": array[::2, ::3]}, {}).write(tmp_path / "file")
    found, _ = load_arrays(tmp_path / "file", "any")
    assert np.array_equal(found["turned"], array.T)
    assert np.array_equal(found["strided"], array[::2, ::3])


def test_arrays_are_read_only_views_of_the_file_with_an_aligned_payload(saved):
    arrays, _ = load_arrays(saved, "model")
    for array in arrays.values():
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.flags.aligned


@pytest.mark.parametrize("length", range(0, 64, 7))
def test_the_payload_begins_at_a_multiple_of_64_bytes(tmp_path, length):
    pack_arrays("any", ARRAYS, {"text": "x" * length}).write(tmp_path / "file")
    assert (8 + int.from_bytes((tmp_path / "file").read_bytes()[:8], "little")) % 64 == 0


def test_a_file_can_be_replaced_while_its_arrays_are_in_use(saved):
    arrays, values = load_arrays(saved, "model")
    pack_arrays("model", {name: array + 1 for name, array in arrays.items()}, values).write(saved)
    assert_same(arrays, ARRAYS)
    again, _ = load_arrays(saved, "model")
    assert np.array_equal(again["codes"], ARRAYS["codes"] + 1)


def test_the_same_content_gives_the_same_bytes(saved, tmp_path):
    pack_arrays("model", ARRAYS, SETTINGS).write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_checksums_are_xxh3_of_each_chunk():
    payload = np.random.default_rng(0).integers(0, 256, 3 * 2**16 + 5, dtype=np.uint8)
    pieces = np.split(payload, [7, 2**16, 2**16 + 1, 3 * 2**16])
    expected = [
        xxhash.xxh3_64_hexdigest(payload[i : i + 2**16].tobytes()) for i in range(0, len(payload), 2**16)
    ]
    assert layout.digests_of([piece.data for piece in pieces]) == expected


def damage(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_opening_leaves_the_payload_unread_and_verify_finds_the_damage_every_time(saved):
    damage(saved)
    file = open_arrays(saved, "model")
    for _ in range(2):
        with pytest.raises(
            FileFormatError,
            match=rf"^{saved}: its arrays were altered: the checksum of 64 KiB from byte \d+ on differs",
        ):
            file.verify()


def test_a_payload_found_right_is_not_read_again(saved, monkeypatch):
    read = []
    digest = layout.chunk_digest
    monkeypatch.setattr(layout, "chunk_digest", lambda chunk: read.append(1) or digest(chunk))
    file = open_arrays(saved, "model")
    assert read == []
    file.verify()
    file.verify()
    assert read == [1]


@pytest.fixture
def rows_of_a_file(tmp_path):
    """A mapped file of an array of rows of 1,000 bytes, after another array, and the rows."""
    rows = np.random.default_rng(0).integers(0, 256, (3000, 1000), dtype=np.uint8)
    path = tmp_path / "rows"
    pack_arrays("demo", {"rows": rows, "wide": np.arange(5.0)}, {}).write(path)
    return path, rows


@pytest.mark.parametrize("row", [0, 65, 1234, 2999])
def test_a_row_is_verified_without_reading_the_others(rows_of_a_file, row):
    path, rows = rows_of_a_file
    start = path.stat().st_size - rows.nbytes
    for at in (row * 1000, row * 1000 + 999):
        content = bytearray(path.read_bytes())
        content[start + at] ^= 1
        path.write_bytes(content)
        file = open_arrays(path, "demo")
        assert file.mapped
        file.verify(file.chunks_of({"rows": np.array([(row + 1500) % 3000, 500, 500])}))
        for _ in range(2):
            with pytest.raises(FileFormatError, match="altered"):
                file.verify(file.chunks_of({"rows": np.array([500, row])}))
        with pytest.raises(FileFormatError, match="altered"):
            file.verify()
        content[start + at] ^= 1
        path.write_bytes(content)
        file.verify(
            file.chunks_of({"rows": np.array([row])})
        )  # the file was written to, so it is compared again


def test_each_chunk_is_read_once_until_the_file_is_written_to(rows_of_a_file, monkeypatch):
    path, rows = rows_of_a_file
    read = []
    digest = layout.chunk_digest
    monkeypatch.setattr(layout, "chunk_digest", lambda chunk: read.append(len(chunk)) or digest(chunk))
    file = open_arrays(path, "demo")
    for _ in range(2):
        file.verify(file.chunks_of({"rows": np.array([5, 6, 1500])}))
    assert read == [65536, 65536]
    file.verify()
    file.verify(file.chunks_of({"rows": np.arange(3000)}))
    assert sum(read) == rows.nbytes + 40
    os.utime(path, ns=(0, 0))
    file.verify(file.chunks_of({"rows": np.array([5])}))
    assert sum(read) == rows.nbytes + 40 + 65536


def test_large_files_have_larger_chunks():
    assert layout.chunk_bytes(1) == layout.chunk_bytes(1 << 36) == 1 << 16
    for size in (3 << 36, 1 << 45):
        assert 1 << 19 <= -(-size // layout.chunk_bytes(size)) <= 1 << 20


def test_several_threads_may_verify_at_once(saved):
    file = open_arrays(saved, "model")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: file.verify(), range(8))) == [None] * 8
    damage(saved)
    file = open_arrays(saved, "model")

    def fails(_):
        with pytest.raises(FileFormatError):
            file.verify()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fails, range(8)))


def test_an_open_file_knows_its_size_and_digest(saved):
    file = open_arrays(saved, "model")
    assert file.nbytes == sum(array.nbytes for array in ARRAYS.values())
    assert file.digest == pack_arrays("model", ARRAYS, SETTINGS).digest


@pytest.mark.parametrize(
    "other",
    [
        ("segment", ARRAYS, SETTINGS),
        ("model", ARRAYS | {"codes": ARRAYS["codes"] + 1}, SETTINGS),
        ("model", ARRAYS | {"codes": ARRAYS["codes"].T}, SETTINGS),
        ("model", ARRAYS, SETTINGS | {"n_codewords": 255}),
    ],
    ids=["kind", "value", "shape", "setting"],
)
def test_the_digest_changes_with_anything_in_the_file(other):
    assert pack_arrays(*other).digest != pack_arrays("model", ARRAYS, SETTINGS).digest


def test_a_packed_file_is_the_one_that_is_saved(saved, tmp_path):
    pack_arrays("model", ARRAYS, SETTINGS).write(tmp_path / "packed")
    assert (tmp_path / "packed").read_bytes() == saved.read_bytes()


def test_big_arrays_are_saved_and_opened_without_a_copy(tmp_path):
    array = np.zeros((64, 2**20), dtype=np.uint8)
    tracemalloc.start()
    try:
        pack_arrays("any", {"array": array}, {}).write(tmp_path / "big")
        open_arrays(tmp_path / "big", "any")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "nowhere", "model")
    with pytest.raises(FileNotFoundError, match="could not save"):
        pack_arrays("model", ARRAYS, SETTINGS).write(tmp_path / "nowhere" / "model")


@pytest.mark.parametrize(
    ("arrays", "values", "message"),
    [
        ({"words": np.array(["a"])}, {}, "array 'words' of dtype <U1"),
        ({"things": np.array([{}], dtype=object)}, {}, "array 'things' of dtype object"),
        ({"z": np.array([1j])}, {}, "array 'z' of dtype complex128"),
        ({"__metadata__": np.zeros(1)}, {}, "__metadata__"),
        ({}, {"weight": float("nan")}, "settings must be JSON"),
        ({}, {"array": np.zeros(1)}, "settings must be JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(saved, arrays, values, message):
    before = saved.read_bytes()
    with pytest.raises(InputError, match=message):
        pack_arrays("model", arrays, values).write(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_settings_are_readable_by_safetensors_alone(saved):
    with safetensors.safe_open(saved, framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["supquant.kind"] == "model"
    assert metadata["supquant.version"] == "1"
    assert json.loads(metadata["supquant.settings"]) == SETTINGS


def test_arrays_that_were_read_do_not_change_with_the_file(saved):
    arrays, _ = load_arrays(saved, "model")
    with saved.open("r+b") as file:
        file.truncate(0)
    assert_same(arrays, ARRAYS)


def test_a_mapped_file_that_was_written_to_is_compared_again(tmp_path):
    array = np.arange(200_000)
    pack_arrays("any", {"array": array}, {}).write(tmp_path / "big")
    file = open_arrays(tmp_path / "big", "any")
    assert file.mapped
    file.verify()
    whole = (tmp_path / "big").read_bytes()

    def write(content, seconds):
        with (tmp_path / "big").open("r+b") as opened:
            opened.truncate(0)
            opened.write(content)
        os.utime(tmp_path / "big", ns=(0, seconds * 10**9))

    write(whole, 1)
    file.verify()
    write(whole[:-1] + b"\7", 2)
    for _ in range(2):
        with pytest.raises(FileFormatError, match="its arrays were altered"):
            file.verify()
    write(whole[:-1], 3)
    with pytest.raises(FileFormatError, match="was changed in place while it was in use"):
        file.verify()
    write(whole, 4)
    file.verify()
    assert np.array_equal(file.arrays["array"], array)
