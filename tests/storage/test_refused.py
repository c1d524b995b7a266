"""Files that are damaged, foreign or forged are refused."""

import os
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from stored_arrays import entry, reusing_the_folder
from texts import texts

from supquant.errors import FileFormatError, InputError
from supquant.storage import layout, load_arrays, open_arrays, pack_arrays, writing


@reusing_the_folder
@given(data=st.data())
def test_a_file_with_any_byte_changed_is_refused(saved, data):
    content = bytearray(saved.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    altered = saved.with_name("altered")
    altered.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"^{altered}: "):
        load_arrays(altered, "model")


def test_a_file_with_any_one_bit_changed_is_refused(saved):
    content = saved.read_bytes()
    altered = saved.with_name("altered")
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        altered.write_bytes(changed)
        with pytest.raises(FileFormatError):
            load_arrays(altered, "model")


def test_a_file_cut_anywhere_is_refused(saved):
    content = saved.read_bytes()
    cut = saved.with_name("cut")
    for length in range(len(content)):
        cut.write_bytes(content[:length])
        for read in (load_arrays, open_arrays):
            with pytest.raises(FileFormatError, match=f"^{cut}: "):
                read(cut, "model")


def test_a_file_with_bytes_appended_is_refused(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(FileFormatError, match="bytes of arrays"):
        load_arrays(saved, "model")


@reusing_the_folder
@given(content=st.binary(max_size=300), length=st.none() | st.integers(0, 300))
def test_foreign_bytes_are_refused(tmp_path, content, length):
    foreign = tmp_path / "foreign"
    foreign.write_bytes(content if length is None else length.to_bytes(8, "little") + content)
    with pytest.raises(FileFormatError):
        load_arrays(foreign, "model")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts(max_size=3)
    | st.sampled_from([10**30, 2**63]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ENTRIES = JSON | st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F64", "BF16", None, ["U8"]]),
        "shape": st.lists(st.sampled_from([0, 1, 3, -1, True, 2.0, 2**62, 10**30]), max_size=70) | JSON,
        "data_offsets": st.lists(st.integers(-1, 10), max_size=3) | JSON,
    }
)


@reusing_the_folder
@given(entries=st.dictionaries(texts(max_size=2), ENTRIES, max_size=3), size=st.integers(0, 10))
def test_a_header_that_lies_is_refused_even_with_a_right_checksum(tmp_path, entries, size):
    lying = tmp_path / "lying"
    payload = bytes(size)
    lying.write_bytes(
        writing._make_head("model", "{}", entries, layout.digests_of([memoryview(payload)]))[0] + payload
    )
    try:
        arrays, _ = load_arrays(lying, "model")
    except FileFormatError:
        return
    assert sum(array.nbytes for array in arrays.values()) == size


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"a": entry([8], 0, 8), "b": entry([8], 0, 8)},
            "array 'b' begins at byte 0 of the arrays, expected 8",
        ),
        (
            {"a": entry([2], 0, 2), "b": entry([3], 5, 8)},
            "array 'b' begins at byte 5 of the arrays, expected 2",
        ),
        ({"a": entry([9], 0, 9)}, "8 bytes of arrays, expected 9"),
        ({"a": entry([7], 0, 8)}, "does not fill"),
        ({"a": entry([8], 0, 8, "BF16")}, "has dtype 'BF16'"),
        ({"a": entry([-2, -4], 0, 8)}, "has shape"),
        ({"a": entry([True, 8], 0, 8)}, "has shape"),
        ({"a": entry([8] + [1] * 99, 0, 8)}, "a shape NumPy cannot hold"),
        ({"a": entry([8], 0, 8), "b": entry([0, 10**30], 8, 8)}, "a shape NumPy cannot hold"),
        ({"a": entry([8], 0, 8) | {"more": 1}}, "not described as in safetensors"),
    ],
)
def test_arrays_that_do_not_tile_the_payload_are_refused(tmp_path, entries, message):
    path = tmp_path / "lying"
    path.write_bytes(
        writing._make_head("model", "{}", entries, layout.digests_of([memoryview(bytes(8))]))[0] + bytes(8)
    )
    with pytest.raises(FileFormatError, match=message):
        load_arrays(path, "model")


@pytest.mark.parametrize("header", [b"[" * 100_000, b"[]", b"1" * 5000, b"\xff\xfe", b"{", b"null"])
def test_a_header_that_is_no_json_object_is_refused(tmp_path, header):
    path = tmp_path / "odd"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(FileFormatError, match="its header is not"):
        load_arrays(path, "model")


def test_a_safetensors_file_of_others_is_refused_as_such(tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file({"weights": np.ones(3)}, path)
    with pytest.raises(FileFormatError, match="none that supquant wrote"):
        load_arrays(path, "model")


def test_a_later_format_is_refused_with_both_versions(saved, monkeypatch):
    monkeypatch.setattr(layout, "VERSION", "2")
    with pytest.raises(FileFormatError, match="format version '1', this supquant reads version '2'"):
        load_arrays(saved, "model")


def test_another_kind_is_refused_with_both_names(saved):
    with pytest.raises(FileFormatError, match="holds a 'model', expected a 'segment'"):
        load_arrays(saved, "segment")


def memory_of_refusal(path, match):
    """Return the peak of the bytes that a refused file took, and check that its error is short."""
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=match) as raised:
            load_arrays(path, "model")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(raised.value)) < 1000
    return peak


@pytest.mark.parametrize("payload_size", [0, 5_000_000])
def test_a_header_much_longer_than_the_arrays_is_not_parsed(tmp_path, payload_size):
    """Ten million bytes of brackets took a quarter of a gigabyte."""
    header = b"[" + b"[]," * 4_000_000 + b"[]]"
    path = tmp_path / "long"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(payload_size))
    assert memory_of_refusal(path, "a header of") < 2 * path.stat().st_size


@pytest.mark.parametrize("field", ["name", "dtype", "shape", "offsets", "kind", "version"])
def test_errors_do_not_repeat_long_values(tmp_path, monkeypatch, field):
    long = "x" * 3_000_000
    described = entry([8], 0, 8)
    kind, name = "model", "a"
    if field == "name":
        name, described = long, {}
    elif field == "dtype":
        described |= {"dtype": long}
    elif field == "shape":
        described |= {"shape": [long]}
    elif field == "offsets":
        described |= {"data_offsets": [0] * 200_000}
    elif field == "kind":
        kind = long
    else:
        monkeypatch.setattr(layout, "VERSION", long)
    head, _ = writing._make_head(kind, "{}", {name: described}, layout.digests_of([memoryview(bytes(8))]))
    monkeypatch.undo()
    path = tmp_path / "lying"
    path.write_bytes(head + bytes(8))
    assert memory_of_refusal(path, f"^{path}: ") < 40 * path.stat().st_size


def test_settings_too_long_to_be_read_are_not_written(tmp_path):
    with pytest.raises(InputError, match="settings are too long"):
        pack_arrays("model", {}, {"text": "x" * 5_000_000})
    pack_arrays("model", {"array": np.zeros(1_000_000)}, {"text": "x" * 5_000_000}).write(tmp_path / "model")
    assert len(load_arrays(tmp_path / "model", "model")[1]["text"]) == 5_000_000


def test_a_pipe_and_a_folder_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (load_arrays, open_arrays):
        with pytest.raises(FileFormatError, match="pipe: is a pipe or a device, expected a file"):
            read(tmp_path / "pipe", "model")
        with pytest.raises(FileFormatError, match=f"^{tmp_path}: is a folder, expected a file"):
            read(tmp_path, "model")
