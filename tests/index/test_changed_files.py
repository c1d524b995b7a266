"""Files that others change, replace or delete under a loaded index: the right answer, or one error."""

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from supquant import AdditiveCodec, CodeIndex, ProductQuantizer, load_model
from supquant.errors import FileFormatError
from supquant.index import files
from supquant.index.searching import Search

N = 150_000
QUERY = np.zeros((1, 2), dtype=np.float32)


def make_index(n_codewords, ids=None, distinct=None, seed=0, n=N):
    rng = np.random.default_rng(seed)
    codec = AdditiveCodec(np.random.default_rng(1).normal(size=(8, n_codewords, 2)).astype(np.float32))
    codes = rng.integers(0, n_codewords, size=(n, 8), dtype=np.uint8)
    if distinct is not None:
        codes = codes[rng.integers(0, distinct, size=n)]
    named = {None: None, "int": rng.permutation(10 * n)[:n], "str": [f"row {i}" for i in range(n)]}[ids]
    return CodeIndex(codec).add_codes(codes, ids=named)


FORMS = {
    "mapped codes": (256, None, None),
    "integers": (256, "int", None),
    "strings": (16, "str", None),
    "grouped": (256, None, 9, 0, 300_000),
    "few codewords": (16, None, None),
}


@pytest.fixture(scope="module", params=FORMS)
def kept(request, tmp_path_factory):
    """A folder with files of more than a MiB that no test changes, and what the index in it answers."""
    folder = tmp_path_factory.mktemp("kept") / "index"
    index = make_index(*FORMS[request.param])
    index.remove(index.ids[5:40])
    index.save(folder)
    return folder, answers(index)


@pytest.fixture
def saved(kept, tmp_path):
    """A folder with files of more than a MiB, and what the index in it answers."""
    folder, right = kept
    return shutil.copytree(folder, tmp_path / "index"), right


def answers(index):
    scores, ids = index.search(QUERY, 50, n_jobs=1)
    return scores.tolist(), ids.tolist(), index.codes(ids[0]).tolist()


def attempt(index):
    """Return what an index answers, and None; or None, and the text of its `FileFormatError`."""
    try:
        return answers(index), None
    except FileFormatError as error:
        return None, str(error)


def in_place(path, bytes_):
    """Write to a file as ``cp`` does: the inode stays."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(bytes_)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))  # as if a second had passed


def test_the_same_bytes_written_in_place_do_no_harm(saved):
    folder, right = saved
    index = CodeIndex.load(folder, verify="full")
    for path in folder.iterdir():
        in_place(path, path.read_bytes())
    assert answers(index) == right


def test_other_bytes_written_in_place_never_give_another_answer(saved):
    folder, right = saved
    refused = 0
    for path in sorted(folder.glob("*.safetensors")):
        before = path.read_bytes()
        for used_before in (False, True):
            index = CodeIndex.load(folder)
            if used_before:
                assert answers(index) == right
            changed = np.frombuffer(before, dtype=np.uint8).copy()
            changed[len(changed) // 2 :] ^= 255  # also codes that no codebook has, and rows that do not exist
            in_place(path, changed.tobytes())
            found, refusal = attempt(index)
            assert found == right or path.name in refusal  # right is what was in memory already
            refused += refusal is not None
            in_place(path, before)
            assert answers(index) == right
    assert refused


def test_a_cut_file_is_an_error_and_not_the_end_of_the_process(saved, works_in_child):
    folder, _ = saved

    def cut():
        for path in sorted(folder.glob("*.safetensors")):
            content = path.read_bytes()
            for used_before in (False, True):
                index = CodeIndex.load(folder)
                if used_before:
                    index.search(QUERY, 50, n_jobs=1)
                os.truncate(path, 4096)
                try:
                    index.search(QUERY, 50, n_jobs=1)
                    index.codes(index.ids[:5])
                except FileFormatError as error:
                    assert path.name in str(error), error  # noqa: PT017, it may also go well
                path.write_bytes(content)

    assert works_in_child(cut)


def test_an_index_in_memory_does_not_need_its_files(saved):
    folder, right = saved
    index = CodeIndex.load(folder, mapped=False)
    for path in folder.iterdir():
        in_place(path, b"")
    assert answers(index) == right


def test_an_index_read_into_memory_is_checked_at_once(saved):
    folder, _ = saved
    path = next(folder.glob("codes-*"))
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    CodeIndex.load(folder)
    with pytest.raises(FileFormatError, match=path.name):
        CodeIndex.load(folder, mapped=False)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_change_during_a_search_is_noticed_after_it(tmp_path, monkeypatch, prepared):
    make_index(256).save(tmp_path / "index")
    index = CodeIndex.load(tmp_path / "index", verify="full")
    path = next((tmp_path / "index").glob("codes-*"))
    if prepared:
        index.search(QUERY, n_jobs=1)
    lowest = Search.lowest

    def change_then_scan(*arguments):
        before = path.read_bytes()
        in_place(path, before[:-1] + bytes([before[-1] ^ 1]))
        return lowest(*arguments)

    monkeypatch.setattr(Search, "lowest", change_then_scan)
    with pytest.raises(FileFormatError, match=path.name):
        index.search(QUERY, n_jobs=1)


def test_files_that_are_replaced_or_deleted_do_not_matter(saved):
    folder, right = saved
    index = CodeIndex.load(folder, verify="full")
    for path in folder.iterdir():
        other = path.with_name("other")
        other.write_bytes(b"something else")
        other.replace(path)
    assert answers(index) == right
    shutil.rmtree(folder)
    assert answers(index) == right


def test_a_model_is_independent_of_its_file(tmp_path, clusters):
    X, _ = clusters
    one, other = (ProductQuantizer(2, n_codewords=8, random_state=seed).fit(X) for seed in (0, 1))
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    loaded = load_model(tmp_path / "one")
    in_place(tmp_path / "one", (tmp_path / "other").read_bytes())
    np.testing.assert_array_equal(loaded.encode(X), one.encode(X))
    in_place(tmp_path / "one", b"")
    np.testing.assert_array_equal(loaded.encode(X), one.encode(X))


# descriptors, pipes and devices ----------------------------------------------------------------------------------------------


DESCRIPTORS = Path("/proc/self/fd")


def n_descriptors():
    return len(list(DESCRIPTORS.iterdir()))


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_loaded_index_keeps_one_descriptor_for_each_large_file_it_still_needs(tmp_path):
    index = make_index(256, "int")
    for n in (20_000, 5_000, 1_000, 200):
        index.add_codes(np.zeros((n, 8), dtype=np.uint8), ids=np.arange(n) + 10**9 * n)
    index.remove(index.ids[:30])
    index.save(tmp_path / "index")
    assert len(list((tmp_path / "index").iterdir())) > 8
    before = n_descriptors()
    loaded = CodeIndex.load(tmp_path / "index", verify="full")
    assert n_descriptors() - before == 2  # codes and ids of the largest segment
    del loaded
    assert n_descriptors() == before
    in_memory = CodeIndex.load(tmp_path / "index", mapped=False)
    assert n_descriptors() == before
    assert len(in_memory) == len(index)


@pytest.mark.parametrize("kind", ["manifest.json", "codec-*", "codes-*", "ids-*", "live-*"])
def test_a_pipe_in_the_folder_is_refused_at_once(tmp_path, kind):
    index = make_index(256, "int", n=100)
    index.remove(index.ids[:3]).save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob(kind)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match=rf"{path.name}: is a pipe or a device, expected a file"):
        CodeIndex.load(tmp_path / "index")


def test_a_pipe_a_device_and_a_folder_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null", tmp_path):
        with pytest.raises(FileFormatError, match=r": is a (pipe or a device|folder), expected a file"):
            load_model(path)


# readers beside writers ------------------------------------------------------------------------------------------------------


def test_a_reader_finds_the_index_when_writers_go_back_and_forth(tmp_path, monkeypatch):
    """Whenever the reader has read the manifest of one index, the other is saved; before it reads again, the first one is."""
    one, other = make_index(16, n=100), make_index(16, n=90, seed=3)
    folder = tmp_path / "index"
    one.save(folder)
    read, overtaken = files.read_manifest, []

    def read_and_be_overtaken(path):
        with monkeypatch.context() as patch:
            patch.setattr(files, "read_manifest", read)
            one.save(folder, overwrite=True)
            found = read(path)
            if len(overtaken) < 20:
                other.save(folder, overwrite=True)
                overtaken.append(found)
        return found

    monkeypatch.setattr(files, "read_manifest", read_and_be_overtaken)
    assert answers(CodeIndex.load(folder)) == answers(one)
    assert len(overtaken) == 20


def test_a_missing_file_is_reported(tmp_path):
    make_index(16, n=100).save(tmp_path / "index")
    path = next((tmp_path / "index").glob("codes-*"))
    path.unlink()
    with pytest.raises(FileFormatError, match=f"{path.name}: the manifest names it, but it is not there"):
        CodeIndex.load(tmp_path / "index")


def test_readers_beside_processes_that_save_two_indexes_in_turn_never_fail(tmp_path):
    one, other = make_index(16, n=100), make_index(16, n=90, seed=3)
    folder = tmp_path / "index"
    one.save(folder)
    right = [answers(one), answers(other)]
    stop = threading.Event()

    def save_in_turn():
        while not stop.is_set():
            other.save(folder, overwrite=True)
            one.save(folder, overwrite=True)

    writers = [threading.Thread(target=save_in_turn) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(150):
            assert answers(CodeIndex.load(folder)) in right
    finally:
        stop.set()
        for writer in writers:
            writer.join()
