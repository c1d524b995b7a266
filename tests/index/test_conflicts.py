"""Who may save to a folder, and how an index takes in what others saved."""

import json
import os
import shutil
import threading

import pytest

from supquant import CodeIndex
from supquant.errors import FileFormatError, InputError, SaveConflictError
from supquant.index.manifest import manifest_bytes


@pytest.fixture
def saved(tied_codec, draw_codes, rng, tmp_path):
    """Return an index of 300 rows that was saved to a folder, and the folder."""
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 300), ids=range(300))
    index.save(tmp_path / "index")
    return index, tmp_path / "index"


def test_a_save_over_what_another_process_saved_is_refused_and_says_who_and_when(
    saved, works_in_child, contents
):
    index, folder = saved
    assert works_in_child(lambda: CodeIndex.load(folder).remove([0]).save(folder))
    before = contents(folder)
    record = json.loads((folder / "manifest.json").read_text())["saved"]
    assert record["pid"] != os.getpid()
    assert record["revision"] == 2
    with pytest.raises(SaveConflictError, match="has changed since this index was") as raised:
        index.remove([1]).save(folder)
    who = f"process {record['pid']} on {os.uname().nodename} saved it at {record['time']}, as revision 2"
    assert who in str(raised.value)
    assert contents(folder) == before
    index.save(folder, overwrite=True)
    assert 0 in CodeIndex.load(folder).ids
    index.remove([2]).save(folder)  # from now on, the index knows the folder
    assert len(CodeIndex.load(folder)) == 298


def test_a_new_index_is_not_saved_over_another(saved, tied_codec, contents):
    _, folder = saved
    before = contents(folder)
    with pytest.raises(SaveConflictError, match="holds another index already: process"):
        CodeIndex(tied_codec).save(folder)
    assert contents(folder) == before
    CodeIndex(tied_codec).save(folder, overwrite=True)
    assert len(CodeIndex.load(folder)) == 0


def test_what_was_saved_again_without_a_change_is_no_conflict(saved):
    index, folder = saved
    manifest = (folder / "manifest.json").read_bytes()
    CodeIndex.load(folder).save(folder)
    assert (folder / "manifest.json").read_bytes() == manifest, "who changed it last is lost"
    CodeIndex.load(folder).remove([0]).save(folder)
    CodeIndex.load(folder).add_codes(index.codes([0]), ids=[0]).save(folder)
    with pytest.raises(SaveConflictError):
        index.save(folder)  # the row is at another place


def test_an_index_knows_every_folder_it_was_saved_to(saved, tmp_path):
    index, folder = saved
    index.save(tmp_path / "other")
    index.remove([0]).save(folder)
    index.save(tmp_path / "other")
    shutil.rmtree(folder)
    index.save(folder)
    for place in (folder, tmp_path / "other"):
        assert len(CodeIndex.load(place)) == 299


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"revision": "2"},
        {"revision": -1},
        {"pid": True},
        {"host": 3},
        {"time": "x" * 1000},
        {"more": 1},
    ],
)
def test_a_forged_record_of_a_save_is_refused(saved, record):
    _, folder = saved
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["digest"]
    manifest["saved"] = manifest["saved"] | record if record else record
    (folder / "manifest.json").write_bytes(manifest_bytes(manifest))
    with pytest.raises(FileFormatError, match="'saved' is"):
        CodeIndex.load(folder)


@pytest.mark.usefixtures("restless_threads")
def test_threads_that_save_one_index_never_conflict(saved, draw_codes, rng):
    index, folder = saved
    codes = draw_codes(index.codec, rng, 4)
    failures = []

    def work(number):
        try:
            for step in range(12):
                index.add_codes(codes, ids=[1000 * number + 10 * step + i for i in range(4)])
                index.save(folder)
        except BaseException as error:  # noqa: BLE001, a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    index.save(folder)
    assert set(CodeIndex.load(folder, verify="full").ids) == set(index.ids)


def test_processes_that_reload_after_a_conflict_lose_nothing(saved, fork):
    index, folder = saved

    def work(number):
        mine = CodeIndex.load(folder)
        for step in range(8):
            while True:
                mine.add_codes(index.codes([step]), ids=[1000 * number + step])
                try:
                    mine.save(folder)
                    break
                except SaveConflictError:
                    mine.reload(discard=True)

    children = [fork(lambda number=number: work(number)) for number in (1, 2, 3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    expected = {1000 * number + step for number in (1, 2, 3) for step in range(8)}
    assert set(index.reload().ids) == expected | set(range(300))
    assert json.loads((folder / "manifest.json").read_text())["saved"]["revision"] == 25


# reload ------------------------------------------------------------------------------------------------------------------


def test_reload_brings_the_state_of_the_folder(saved, portrait):
    index, folder = saved
    loaded = CodeIndex.load(folder)
    index.remove(range(100)).add_codes(index.codes([200]), ids=[777]).save(folder)
    assert loaded.reload() is loaded
    assert portrait(loaded) == portrait(index)
    loaded.remove([777]).save(folder)
    assert portrait(index.reload()) == portrait(loaded)


def test_reload_keeps_changes_unless_they_are_given_up(saved):
    index, folder = saved
    with pytest.raises(InputError, match="has changes that are not in"):
        index.remove([5]).reload()
    assert len(index) == 299
    assert len(index.reload(discard=True)) == 300
    with pytest.raises(InputError, match="has no folder"):
        CodeIndex(index.codec).reload()
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        index.reload()
    assert len(index) == 300


def test_reload_refuses_another_codec(saved, real_codec):
    index, folder = saved
    CodeIndex(real_codec).save(folder, overwrite=True)
    with pytest.raises(InputError, match="another codec"):
        index.reload()
    assert len(index) == 300


def test_filters_outlive_a_reload_only_if_nothing_changed(saved, queries):
    index, folder = saved
    some = index.filter([3, 4])
    index.reload()
    assert set(index.search(queries, 2, where=some)[1].ravel()) == {3, 4}
    CodeIndex.load(folder).remove([0]).save(folder)
    index.reload()
    with pytest.raises(InputError, match="filter"):
        index.search(queries, 2, where=some)
