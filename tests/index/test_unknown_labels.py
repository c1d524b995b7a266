"""Labels that the model of an index does not know: refused, ignored, or added to the model together with the rows."""

import copy
import os
import pickle
import threading
from functools import partial

import numpy as np
import pytest
from everywhere import everywhere, put_somewhere

from supquant import CodeIndex, InputError, ProductQuantizer, PublishedQuantizer, SupervisedQuantizer
from supquant.errors import SaveConflictError
from supquant.index import files
from supquant.index.searchable import SearchOptions
from supquant.inputs.labels import read_labels
from supquant.sources import open_vectors

KNOWN = 6  # digits from 6 on are new

CHANGES = {
    "add": lambda index, ids, X, y, **options: index.add(X, y, ids, **options),
    "update": lambda index, ids, X, y, **options: index.update(ids, X, y, **options),
    "upsert": lambda index, ids, X, y, **options: index.upsert(ids, X, y, **options),
}
IDS = {"add": np.arange(1000, 1040), "update": np.arange(30, 70), "upsert": np.arange(80, 120)}


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    known = np.flatnonzero(y < KNOWN)[:400]
    return SupervisedQuantizer(3, n_codewords=32, max_iter=2, random_state=0).fit(X[known], y[known])


@pytest.fixture
def index(request, model, digits):
    """An index of 100 items; with `everywhere`, also behind a client and in shards."""
    return put_somewhere(request, CodeIndex(model).add(digits[0][1000:1100], ids=range(100)))


@pytest.fixture
def items(digits):
    """Forty items with their labels, some of which are new."""
    X, y = digits
    assert {6, 7, 8, 9} < set(y[1200:1240].tolist())
    return X[1200:1240], y[1200:1240]


def extended(model, X, y):
    return model.codec_.extended(X[y >= KNOWN], y[y >= KNOWN])


@everywhere
@pytest.mark.parametrize("change", CHANGES)
def test_extend_stores_items_with_their_new_labels(index, model, items, change):
    ids, (X, y) = IDS[change], items
    CHANGES[change](index, ids, X, y, unknown_labels="extend")
    codec = extended(model, X, y)
    np.testing.assert_array_equal(index.codes(ids), codec.encode_items(X, y))
    assert (index.codes(ids) != codec.encode_items(X)).any()
    # a search has the answers of an index whose model knew the labels before
    expected = CodeIndex(codec).add_codes(index.codes(index.ids), index.ids)
    for mine, other in zip(index.search(X, 20), expected.search(X, 20), strict=True):
        np.testing.assert_array_equal(mine, other)


@everywhere
@pytest.mark.parametrize("change", CHANGES)
def test_ignore_takes_rows_with_unknown_labels_as_rows_without_a_label(index, model, items, change):
    ids, (X, y) = IDS[change], items
    CHANGES[change](index, ids, X, y, unknown_labels="ignore")
    expected = model.codec_.encode_items(X, [label if label < KNOWN else None for label in y.tolist()])
    np.testing.assert_array_equal(index.codes(ids), expected)
    assert (expected != model.codec_.encode_items(X)).any()
    np.testing.assert_array_equal(index.search(X, 5)[0].shape, (40, 5))


@everywhere
@pytest.mark.parametrize("change", CHANGES)
def test_an_error_names_the_labels_and_all_choices_and_nothing_changes(index, items, change):
    ids, (X, y) = IDS[change], items
    before = index.ids, index.codes(index.ids)
    for options in ({}, {"unknown_labels": "error"}):
        with pytest.raises(
            InputError, match="4 unknown labels: 6, 7, 8, 9; the 6 known ones are 0, 1"
        ) as error:
            CHANGES[change](index, ids, X, y, **options)
        assert all(f"'{mode}'" in str(error.value) for mode in ("error", "ignore", "extend"))
    with pytest.raises(InputError, match="unknown_labels must be 'error' or 'ignore' or 'extend', got 'add'"):
        CHANGES[change](index, ids, X, y, unknown_labels="add")
    for mine, was in zip((index.ids, index.codes(index.ids)), before, strict=True):
        np.testing.assert_array_equal(mine, was)


@everywhere
def test_labels_that_were_added_are_known_from_then_on(index, items):
    X, y = items
    index.add(X, y, range(1000, 1040), unknown_labels="extend")
    index.add(X, y, range(2000, 2040))
    np.testing.assert_array_equal(index.codes(range(1000, 1040)), index.codes(range(2000, 2040)))


@everywhere
def test_a_refused_change_does_not_extend_the_model(index, items):
    X, y = items
    with pytest.raises(InputError, match="in the index already"):
        index.add(X[:2], y[:2] + 50, [5, 6], unknown_labels="extend")
    with pytest.raises(InputError, match="one id for every row, got 3 ids for 2 rows"):
        index.add(X[:2], y[:2] + 50, [500, 600, 700], unknown_labels="extend")
    with pytest.raises(InputError, match="label for each"):
        index.add(X[:3], y[:2] + 50, [500, 600, 700], unknown_labels="extend")
    with pytest.raises(InputError, match="1 unknown label: 50"):
        index.add(X[:1], [50], [500])


def test_a_model_that_was_given_to_an_index_does_not_change(index, model, items):
    index.add(*items, range(1000, 1040), unknown_labels="extend")
    assert len(index.codec.classes) == 10
    assert len(model.classes_) == KNOWN


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_new_labels_anywhere_in_a_source_are_added_before_the_first_block(model, items, monkeypatch, rows):
    monkeypatch.setattr("supquant.sources.source.BLOCK_BYTES", rows * 64 * 4)
    X, y = items
    index = CodeIndex(model).add(open_vectors(X, labels=y), unknown_labels="extend")
    np.testing.assert_array_equal(index.codes(index.ids), extended(model, X, y).encode_items(X, y))
    ignoring = CodeIndex(model).add(open_vectors(X, labels=y), unknown_labels="ignore")
    alone = CodeIndex(model).add(X, y, unknown_labels="ignore")
    np.testing.assert_array_equal(ignoring.codes(ignoring.ids), alone.codes(alone.ids))


def test_rows_without_a_label_stay_so(model, items):
    X, y = items
    labels = [None if row % 3 == 0 else label for row, label in enumerate(y.tolist())]
    index = CodeIndex(model).add(X, labels, unknown_labels="extend")
    labelled = np.array([label is not None for label in labels])
    codec = extended(model, X[labelled], y[labelled])
    np.testing.assert_array_equal(index.codes(index.ids), codec.encode_items(X, labels))


# models that cannot be extended ----------------------------------------------------------------------------------------


def test_codes_without_labels_cannot_be_extended(digits):
    X, y = digits
    index = CodeIndex(ProductQuantizer(2, n_codewords=16, max_iter=1).fit(X[:200]))
    with pytest.raises(InputError, match=r"only a model of SupervisedQuantizer .* AdditiveCodec"):
        index.add(X[:5], y[:5], unknown_labels="extend")
    for mode in ("error", "ignore"):
        with pytest.raises(InputError, match="learned without labels"):
            index.add(X[:5], y[:5], unknown_labels=mode)
        assert len(index.add(X[:5], unknown_labels=mode)) > 0


def test_labels_of_the_published_method_can_be_ignored_but_not_added(digits):
    X, y = digits
    published = PublishedQuantizer(2, n_codewords=16, features=None, max_iter=1).fit(X[y < 8], y[y < 8])
    index = CodeIndex(published)
    with pytest.raises(InputError, match="only a model of SupervisedQuantizer"):
        index.add(X[:20], y[:20], unknown_labels="extend")
    with pytest.raises(InputError, match=r"2 unknown labels: 8, 9; .*'ignore'"):
        index.add(X[:20], y[:20])
    index.add(X[:20], y[:20], unknown_labels="ignore")
    new = y[:20] >= 8
    np.testing.assert_array_equal(index.codes(np.flatnonzero(new)), published.encode(X[:20][new]))
    np.testing.assert_array_equal(
        index.codes(np.flatnonzero(~new)), published.encode(X[:20][~new], y[:20][~new])
    )


def test_of_several_labels_per_row_unknown_ones_can_only_be_ignored(digits):
    X, y = digits
    listed = [["even"] if digit % 2 == 0 else ["odd", "big"][: 1 + (digit > 4)] for digit in y.tolist()]
    sq = SupervisedQuantizer(2, n_codewords=16, max_iter=1).fit(X[:300], listed[:300])
    index, new = CodeIndex(sq), [["even"], ["odd", "prime"], ["prime"], []]
    with pytest.raises(InputError, match="only if every item has one label"):
        index.add(X[:4], new, unknown_labels="extend")
    with pytest.raises(InputError, match="1 unknown label: 'prime'; the 3 known ones"):
        index.add(X[:4], new)
    index.add(X[:4], new, unknown_labels="ignore")
    np.testing.assert_array_equal(index.codes(range(4)), sq.encode(X[:4], [["even"], None, None, []]))


# several writers -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("restless_threads")
def test_threads_that_add_labels_at_once_lose_none(index, digits):
    X, y = digits
    rows = {new: np.flatnonzero(y == new)[:12] for new in range(KNOWN, 10)}
    failures = []

    def work(new):
        try:
            for start in range(0, 12, 3):
                some = rows[new][start : start + 3]
                index.upsert(1000 + some, X[some], y[some], unknown_labels="extend", n_jobs=1)
        except BaseException as error:  # noqa: BLE001, a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(new,)) for new in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(index.codec.classes.tolist()) == list(range(10))
    every = np.concatenate(list(rows.values()))
    np.testing.assert_array_equal(index.codes(1000 + every), index.codec.encode_items(X[every], y[every]))
    for new, own in rows.items():  # the first rows of a label are what it was learned from
        place = index.codec.classes.tolist().index(new)
        alone = index.codec.map.with_classes(
            index.codec.map.positions(X[own[:3]]), read_labels([new] * 3, fewest=1)
        ).means[-1]
        np.testing.assert_allclose(index.codec.map.means[place], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("restless_threads")
def test_a_search_sees_new_rows_and_new_labels_together(index, digits):
    X, y = digits
    new = np.flatnonzero(y == 9)[:5]
    found, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            search = index._start_search(SearchOptions())
            found.add((len(search.codec.classes), search.snapshot.n_live))

    reader = threading.Thread(target=look)
    reader.start()
    expected = {(KNOWN, 100)}
    for step in range(5):
        index.add(X[new], [100 + step] * 5, range(1000 + 5 * step, 1005 + 5 * step), unknown_labels="extend")
        expected.add((KNOWN + 1 + step, 105 + 5 * step))
    stop.set()
    reader.join()
    assert found <= expected
    assert len(found) > 1


def test_processes_that_add_labels_at_once_lose_none(index, digits, fork, tmp_path):
    X, y = digits
    folder = tmp_path / "index"
    index.save(folder)

    def work(new):
        mine, rows = CodeIndex.load(folder), np.flatnonzero(y == new)[:8]
        for start in range(0, 8, 2):
            some = rows[start : start + 2]
            while True:
                mine.add(X[some], y[some], 1000 + some, unknown_labels="extend", n_jobs=1)
                try:
                    mine.save(folder)
                    break
                except SaveConflictError:
                    mine.reload(discard=True)

    children = [fork(partial(work, new)) for new in (6, 7, 8, 9)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    codec = index.reload().codec
    assert sorted(codec.classes.tolist()) == list(range(10))
    rows = np.concatenate([np.flatnonzero(y == new)[:8] for new in (6, 7, 8, 9)])
    assert len(index) == 100 + len(rows)
    np.testing.assert_array_equal(index.codes(1000 + rows), codec.encode_items(X[rows], y[rows]))


def test_a_save_has_the_rows_and_their_labels_or_neither(index, items, tmp_path, monkeypatch):
    folder = tmp_path / "index"
    index.save(folder)
    index.add(*items, range(1000, 1040), unknown_labels="extend")
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_file_atomically", _fail)
        with pytest.raises(OSError, match="the disk is full"):
            index.save(folder)
    old = CodeIndex.load(folder, verify="full")
    assert (len(old), len(old.codec.classes)) == (100, KNOWN)
    index.save(folder)
    new = CodeIndex.load(folder, verify="full")
    assert (len(new), new.codec.classes.tolist()) == (140, index.codec.classes.tolist())
    assert len(list(folder.glob("codec-*"))) == 1
    for mine, other in zip(new.search(items[0], 9), index.search(items[0], 9), strict=True):
        np.testing.assert_array_equal(mine, other)


def _fail(*_):
    raise OSError("the disk is full")


def test_a_reload_brings_labels_that_others_have_added(index, items, tmp_path):
    X, y = items
    folder = tmp_path / "index"
    index.save(folder)
    other = CodeIndex.load(folder)
    index.add(X, y, range(1000, 1040), unknown_labels="extend").save(folder)
    codec = other.codec
    assert other.reload().codec is not codec
    for mine, its in zip(index.search(X, 9), other.search(X, 9), strict=True):
        np.testing.assert_array_equal(mine, its)
    codec = other.codec
    index.remove([3]).save(folder)
    assert other.reload().codec is codec  # what was prepared for searches is kept


def test_copies_are_extended_alone(index, items):
    for way in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        other = way(index)
        other.add(*items, range(1000, 1040), unknown_labels="extend")
        again = way(other)
        assert len(again.codec.classes) == 10
        np.testing.assert_array_equal(again.search(items[0], 9)[1], other.search(items[0], 9)[1])
    assert (len(index), len(index.codec.classes)) == (100, KNOWN)


def test_filters_outlive_an_extension(index, items):
    X, y = items
    some = index.filter([3, 4, 50])
    index.add(X, y, range(1000, 1040), unknown_labels="extend")
    assert set(index.search(X[:1], 5, where=some)[1][0]) == {3, 4, 50}
