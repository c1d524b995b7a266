import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import textwrap
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from supquant.errors import FileFormatError, InputError
from supquant.storage import (
    layout,
    load_arrays,
    open_arrays,
    pack_arrays,
    write_file_atomically,
    writing,
)

ARRAYS = {
    "codes": np.arange(51, dtype=np.uint8).reshape(17, 3),
    "codebooks": np.linspace(-1, 1, 24).reshape(2, 3, 4),
    "none": np.zeros((0, 5), dtype=np.float32),
}
SETTINGS = {
    "n_codewords": 256,
    "nested": {"list": [1, 2.5, None, True]},
    "text": 'señal " \\ supquant.header',
}

reusing_the_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    pack_arrays("model", ARRAYS, SETTINGS).write(path)
    return path


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array, dtype=found[name].dtype).tobytes()


STORABLE = st.sampled_from([">i4", "<i8", "u1", "<u8", "<f2", "<f4", ">f8", "?", "i1", "<u2", "<i2", "<u4"])


@reusing_the_folder
@given(
    arrays=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        STORABLE.flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
        ),
        max_size=4,
    ),
    values=st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.integers(), st.booleans(), st.text())
    ),
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


def test_checksums_are_xxh3_of_each_mebibyte():
    payload = np.random.default_rng(0).integers(0, 256, 3 * 2**20 + 5, dtype=np.uint8)
    pieces = np.split(payload, [7, 2**20, 2**20 + 1, 3 * 2**20])
    expected = [
        xxhash.xxh3_64_hexdigest(payload[i : i + 2**20].tobytes()) for i in range(0, len(payload), 2**20)
    ]
    assert layout.digests_of([piece.data for piece in pieces]) == expected


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
    | st.text(max_size=3)
    | st.sampled_from([10**30, 2**63]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
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
@given(entries=st.dictionaries(st.text(max_size=2), ENTRIES, max_size=3), size=st.integers(0, 10))
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


def entry(shape, begin, end, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


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


def damage(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_opening_leaves_the_payload_unread_and_verify_finds_the_damage_every_time(saved):
    damage(saved)
    file = open_arrays(saved, "model")
    for _ in range(2):
        with pytest.raises(
            FileFormatError, match=f"^{saved}: its arrays were altered: the checksum of MiB 0"
        ):
            file.verify()


def test_a_payload_found_right_is_not_read_again(saved, monkeypatch):
    read = []
    checksums = layout.digests_of
    monkeypatch.setattr(layout, "digests_of", lambda pieces: read.append(1) or checksums(pieces))
    file = open_arrays(saved, "model")
    assert read == []
    file.verify()
    file.verify()
    assert read == [1]


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


def test_bytes_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    write_file_atomically(path, b"old")
    write_file_atomically(path, b"ne", memoryview(b"w"))
    assert path.read_bytes() == b"new"

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="could not save, nothing was changed: No space left on device"):
        write_file_atomically(path, b"newer")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synced_around_the_renaming(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, Path.replace

    def record_sync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def record_replace(self, target):
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr("os.fsync", record_sync)
    monkeypatch.setattr("pathlib.Path.replace", record_replace)
    write_file_atomically(tmp_path / "file", b"content")
    assert done == ["file", "rename", "folder"]


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


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_saving_leaves_the_old_file_and_nothing_else(saved, monkeypatch, failing, failure):
    before = saved.read_bytes()

    def fail(*args):
        raise failure

    monkeypatch.setattr(failing, fail)
    with pytest.raises(type(failure)) as raised:
        pack_arrays("model", {"other": np.zeros(3)}, {}).write(saved)
    if isinstance(failure, OSError):
        assert raised.value.errno == errno.ENOSPC
        assert "could not save, nothing was changed: No space left on device" in str(raised.value)
        assert str(saved) in str(raised.value)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(saved):
    """The system itself refuses to write on: a limit on file size stands in for the full disk."""
    before = saved.read_bytes()
    program = """
        import resource, sys
        import numpy as np
        from supquant.storage import pack_arrays
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            pack_arrays("model", {"big": np.ones(1_000_000)}, {}).write(sys.argv[1])
        except OSError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(saved)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "could not save, nothing was changed: File too large" in result.stdout
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


WRITE_AND_WAIT = """
    import os, sys, time
    from supquant.storage import write_file_atomically

    def wait(_):
        print("writing", flush=True)
        time.sleep(60)

    os.fsync = wait
    write_file_atomically(sys.argv[1], b"not synced")
"""


@pytest.fixture
def begin_writing(tmp_path):
    """Return a function that starts a process which writes a file and does not end. The process is killed after the test."""
    started = []

    def begin(path):
        command = [sys.executable, "-c", textwrap.dedent(WRITE_AND_WAIT), str(path)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "writing\n"
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_what_a_killed_save_left_is_deleted_by_the_next_save_of_the_same_file(tmp_path, begin_writing):
    path, other = tmp_path / "model", tmp_path / "other"
    killed, working = begin_writing(path), begin_writing(path)
    elsewhere = begin_writing(other)
    for process in (killed, elsewhere):
        process.kill()
        process.wait()
    assert len(list(tmp_path.glob(".supquant-*.tmp"))) == 3
    write_file_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert len(list(tmp_path.glob(".supquant-*.tmp"))) == 2, (
        "that of a writer at work, and that of another file"
    )
    working.kill()
    working.wait()
    write_file_atomically(path, b"again")
    write_file_atomically(other, b"other")
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_writers_of_one_file_never_take_each_others_for_abandoned(tmp_path):
    path = tmp_path / ("n" * 250)  # the longest name there may be

    def write(number):
        for _ in range(40):
            write_file_atomically(path, bytes([number]) * 1000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert path.read_bytes() in [bytes([number]) * 1000 for number in range(4)]
    assert list(path.parent.iterdir()) == [path]


def test_a_file_deleted_before_its_writer_locked_it_is_made_again(tmp_path, monkeypatch):
    lock, deleted = fcntl.flock, []

    def delete_and_lock(file, operation):
        if not deleted:
            deleted.append(Path(file.name))
            deleted[0].unlink()
        lock(file, operation)

    monkeypatch.setattr("fcntl.flock", delete_and_lock)
    write_file_atomically(tmp_path / "file", b"content")
    assert len(deleted) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_sync_of_the_folder_says_that_the_file_was_replaced(tmp_path, monkeypatch):
    sync = os.fsync

    def fail_for_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fail_for_folders)
    with pytest.raises(
        OSError, match="saved, but the sync failed, and a crash may undo it: Input/output error"
    ):
        write_file_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_saved_file_has_the_permissions_of_any_new_file(saved):
    plain = saved.with_name("plain")
    plain.touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_saving_through_a_link_keeps_the_link(saved):
    link = saved.with_name("link")
    link.symlink_to(saved)
    pack_arrays("model", {}, {"replaced": True}).write(link)
    assert link.is_symlink()
    assert load_arrays(saved, "model") == ({}, {"replaced": True})


def test_settings_are_readable_by_safetensors_alone(saved):
    with safetensors.safe_open(saved, framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["supquant.kind"] == "model"
    assert metadata["supquant.version"] == "1"
    assert json.loads(metadata["supquant.settings"]) == SETTINGS


# forged headers ------------------------------------------------------------------------------------------------------------


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
