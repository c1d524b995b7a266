"""Copies of an index by `copy` and `pickle`, and in the processes of a pool."""

import copy
import multiprocessing
import pickle
import shutil
import threading

import numpy as np
import pytest

from supquant import CodeIndex, FileFormatError, InputError


@pytest.fixture
def index(real_codec, draw_codes):
    """An index with several parts, removed rows and updated rows."""
    rng = np.random.default_rng(21)
    index = CodeIndex(real_codec).add_codes(draw_codes(real_codec, rng, 3000))
    index.add_codes(draw_codes(real_codec, rng, 200, 3)).remove(range(0, 3200, 9))
    return index.update_codes([1, 50, 3001], draw_codes(real_codec, rng, 3))


def through_pickle(index):
    return pickle.loads(pickle.dumps(index))


WAYS = [copy.copy, copy.deepcopy, through_pickle]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loaded", [False, True])
def test_a_copy_answers_as_the_original_and_changes_alone(
    index, tmp_path, portrait, real_codec, draw_codes, rng, way, loaded
):
    if loaded:
        index.save(tmp_path / "index")
        index = CodeIndex.load(tmp_path / "index")
    expected = portrait(index)
    other = way(index)
    assert type(other) is CodeIndex
    assert portrait(other) == expected
    other.add_codes(draw_codes(real_codec, rng, 50)).remove([1]).update_codes(
        [2], draw_codes(real_codec, rng, 1)
    )
    changed = portrait(other)
    assert portrait(index) == expected
    index.remove([2, 3]).add_codes(draw_codes(real_codec, rng, 5))
    assert portrait(other) == changed
    other.save(tmp_path / "other")
    assert portrait(CodeIndex.load(tmp_path / "other", verify="full")) == changed


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_refuses_filters_of_the_original_and_makes_its_own(
    index, queries, real_codec, draw_codes, rng, way
):
    before = index.filter([1, 2])
    other = way(index)
    for each in (index, other):  # both now have other rows under the same serials
        each.add_codes(draw_codes(real_codec, rng, 10))
    after, own = index.filter([3200]), other.filter([3201])
    for where in (before, after):
        with pytest.raises(InputError, match="another index, or before this one was copied"):
            other.search(queries, where=where)
    with pytest.raises(InputError, match="another index"):
        index.search(queries, where=own)
    assert (index.search(queries, where=after)[1] == 3200).all()
    assert (other.search(queries, where=own)[1] == 3201).all()


@pytest.mark.parametrize("way", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_filter_that_is_copied_with_its_index_works_there(index, queries, tmp_path, way, loaded):
    if loaded:
        index.save(tmp_path / "index")
        index = CodeIndex.load(tmp_path / "index")
    else:
        index.remove([10])  # serials are not row numbers
    where = index.filter([1, 50, 3001])
    index.search(queries, where=where)
    other, its = way((index, where))
    assert np.array_equal(other.search(queries, where=its)[1], index.search(queries, where=where)[1])
    other.remove([50]).compact()
    assert sorted(other.search(queries[:1], where=its)[1][0].tolist()) == [1, 3001]
    with pytest.raises(InputError, match="another index"):
        index.search(queries, where=its)


def test_a_copy_has_its_own_lock(index):
    with index._write_lock:
        for way in WAYS:
            other = way(index)
            thread = threading.Thread(target=other.remove, args=([1],), daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()


def test_masks_of_the_original_fit_its_copies_until_rows_change(index, queries):
    state, mask = index.state, index.ids % 2 == 0
    for way in WAYS:
        other = way(index)
        expected = index.search(queries, where=mask, state=state)[1]
        assert np.array_equal(other.search(queries, where=mask, state=state)[1], expected)
        other.remove([1])
        with pytest.raises(InputError, match="rows were added or removed"):
            other.search(queries, where=mask[1:], state=state)


def test_an_unchanged_loaded_index_is_pickled_as_its_folder(index, tmp_path, portrait):
    index.save(tmp_path / "index")
    loaded = CodeIndex.load(tmp_path / "index")
    small, whole = pickle.dumps(loaded), pickle.dumps(index)
    assert len(small) < 3000 < index.nbytes < len(whole)
    again = pickle.loads(small)
    assert portrait(again) == portrait(index)
    assert len(pickle.dumps(again)) < 3000
    assert len(pickle.dumps(loaded.remove([1]))) > index.nbytes / 2  # changed: with its arrays


def test_a_pickled_folder_that_changed_meanwhile_is_refused(index, tmp_path):
    index.save(tmp_path / "index")
    pickled = pickle.dumps(CodeIndex.load(tmp_path / "index"))
    index.remove([1]).save(tmp_path / "index")
    with pytest.raises(FileFormatError, match="holds another index or none now"):
        pickle.loads(pickled)
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(FileFormatError, match="holds another index or none now"):
        pickle.loads(pickled)


def test_damage_is_not_pickled(index, tmp_path):
    index.save(tmp_path / "index")
    file = max((tmp_path / "index").glob("codes-*"), key=lambda path: path.stat().st_size)
    with file.open("r+b") as stream:
        stream.seek(-1, 2)
        last = stream.read(1)
        stream.seek(-1, 2)
        stream.write(bytes([last[0] ^ 1]))
    loaded = CodeIndex.load(tmp_path / "index")
    loaded.add_codes(np.zeros((1, 3), dtype=int))
    with pytest.raises(FileFormatError, match="codes-"):
        pickle.dumps(loaded)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_index_and_its_filters_go_to_the_processes_of_a_pool(index, queries, tmp_path, method, recwarn):
    index.save(tmp_path / "index")
    loaded = CodeIndex.load(tmp_path / "index")
    with multiprocessing.get_context(method).Pool(1) as pool:
        for each in (index, loaded):
            where = each.filter(range(1, 9))
            for given in (None, where):
                expected = each.search(queries, 5, where=given, n_jobs=1)
                found = pool.apply(CodeIndex.search, (each, queries, 5), {"where": given, "n_jobs": 1})
                assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        back = pool.apply(CodeIndex.remove, (loaded, [1]))  # a changed index comes back
        assert back.ids.tolist() == [id_ for id_ in index.ids.tolist() if id_ != 1]
