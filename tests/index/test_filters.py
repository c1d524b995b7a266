import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from supquant import CodeIndex, InputError
from supquant.index.searching import Search
from supquant.index.segments import Segment


@pytest.fixture
def tables():
    """Tables (3, 3, 16) of few values, so that most sums are equal."""
    return np.random.default_rng(6).integers(0, 3, size=(3, 3, 16)).astype(np.float32)


@pytest.fixture
def build(tied_codec, draw_codes):
    """Return a function that makes an index of rows that are grouped or not, numbered from 0."""

    def make(n, *, grouped=False):
        codes = draw_codes(tied_codec, np.random.default_rng(7), n, 9 if grouped else None)
        return CodeIndex(tied_codec).add_codes(codes)

    return make


@pytest.fixture
def copies(monkeypatch):
    """Collect the number of rows of every segment that is copied out of another."""
    made = []
    original = Segment.copy_rows

    def part(self, rows):
        made.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(Segment, "copy_rows", part)
    return made


def among(index, tables, ids):
    """Rank the rows of some ids, out of the ranking of all."""
    sums, found = index.search_tables(tables, len(index))
    kept = np.isin(found, list(ids))
    return sums[kept].reshape(len(tables), -1), found[kept].reshape(len(tables), -1)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.6, 1.0])
def test_masks_ids_and_filters_of_the_same_rows_give_the_same(build, tables, grouped, share):
    index = build(3000, grouped=grouped).remove(range(0, 3000, 7))
    mask = np.random.default_rng(8).random(len(index)) < share
    ids = index.ids[mask]
    expected = among(index, tables, ids)
    for where in (
        mask,
        mask.tolist(),
        ids,
        ids[::-1].tolist(),
        np.concatenate([ids, ids[:3]]),
        index.filter(mask),
        index.filter(ids),
    ):
        assert same(index.search_tables(tables, len(index), where=where), expected)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_filter_copies_the_codes_of_few_rows_and_a_single_search_none(build, tables, grouped, copies):
    index = build(6400, grouped=grouped)
    rows = np.arange(0, 6400, 64)
    index.search_tables(tables, where=rows)
    assert copies == []
    few, many = index.filter(rows), index.filter(np.arange(0, 6400, 2))
    for where in (few, many, few, many):
        index.search_tables(tables, where=where)
    assert copies == [100]


def test_a_filter_is_prepared_again_only_for_what_changed(build, draw_codes, tied_codec, tables, rng, copies):
    index = build(6400)
    rare = index.filter(np.arange(0, 6400, 64))
    for _ in range(3):
        index.search_tables(tables, where=rare)
    assert copies == [100]
    index.add_codes(draw_codes(tied_codec, rng, 100))
    assert same(index.search_tables(tables, 200, where=rare), among(index, tables, range(0, 6400, 64)))
    assert copies == [100]
    index.remove([0])
    assert same(index.search_tables(tables, 200, where=rare), among(index, tables, range(64, 6400, 64)))
    assert copies == [100, 99]


def test_a_filter_keeps_its_rows_through_merges_removals_and_updates(
    build, draw_codes, tied_codec, tables, rng
):
    index = build(500)
    chosen = set(range(0, 500, 3))
    where = index.filter(sorted(chosen))
    steps = [
        lambda: index.add_codes(draw_codes(tied_codec, rng, 400)),  # merges
        lambda: index.remove(range(0, 300, 2)),
        lambda: index.update_codes([3, 9], draw_codes(tied_codec, rng, 2)),
        lambda: index.add_codes(draw_codes(tied_codec, rng, 3000)),
        index.compact,
        lambda: index.remove(range(1, 400, 2)),
        index.compact,
    ]
    gone = [set(), set(range(0, 300, 2)), set(), set(), set(), set(range(1, 400, 2)), set()]
    before, expected = index._snapshot, among(index, tables, chosen)
    for step, left in zip(steps, gone, strict=True):
        step()
        chosen -= left
        assert same(index.search_tables(tables, len(index), where=where), among(index, tables, chosen))
    # A search that began before all of this still gets what was there then.
    sums, positions = Search(tied_codec, before, where.views(before), 1).lowest(tables, None, 500)
    assert same((sums, before.ids_at(positions)), expected)


def test_a_filter_used_for_the_first_time_after_many_changes_is_right(
    build, draw_codes, tied_codec, tables, rng
):
    index = build(300)
    where = index.filter([1, 150, 299])
    for n in (200, 100, 400, 50, 2000):
        index.add_codes(draw_codes(tied_codec, rng, n))
    index.remove([150, *range(2, 140)]).compact()
    assert (
        index.search_tables(tables, 9, where=where)[1].tolist() == among(index, tables, [1, 299])[1].tolist()
    )


def test_rows_of_several_segments_that_are_merged_stay_in_the_filter(
    build, draw_codes, tied_codec, tables, rng
):
    index = build(300).add_codes(draw_codes(tied_codec, rng, 100))
    assert len(index.info()["segments"]) == 2
    chosen = range(0, 400, 3)
    where = index.filter(chosen)
    index.remove([0, 399]).compact()
    assert same(index.search_tables(tables, 400, where=where), among(index, tables, chosen))


def test_a_filter_whose_rows_are_all_gone_finds_nothing(build, tables):
    index = build(200)
    where = index.filter(range(100))
    index.remove(range(100))
    assert index.search_tables(tables, where=where)[1].shape == (3, 0)
    index.remove(range(100, 200))
    assert index.search_tables(tables, where=where)[1].shape == (3, 0)
    assert index.range_search(np.zeros((2, 2)), 1e9, where=where)[0].tolist() == [0, 0, 0]


def test_a_filter_does_not_keep_what_the_index_has_let_go(build, tables):
    index = build(640)
    filters_ = [index.filter(np.arange(0, 640, 64)), index.filter(np.arange(0, 640, 2))]
    for where in filters_:
        index.search_tables(tables, where=where)
    old = weakref.ref(index._snapshot.parts[0].segment)
    index.remove([5]).compact()
    gc.collect()
    assert old() is None
    assert index.search_tables(tables, 1, where=filters_[0])[1].shape == (3, 1)


def test_a_filter_belongs_to_its_index(build, tables):
    one, other = build(100), build(100)
    where = one.filter([1, 2])
    with pytest.raises(InputError, match="another index"):
        other.search_tables(tables, where=where)
    with pytest.raises(InputError, match="another index"):
        other.range_search(np.zeros((1, 2)), 1.0, where=where)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (np.ones(99, dtype=bool), r"each of the 100 rows, got shape \(99,\)"),
        (np.ones((100, 1), dtype=bool), r"got shape \(100, 1\)"),
        ([True] * 101, r"got shape \(101,\)"),
        ([100, 3], "not in the index: 100"),
        ([200, 300, 400, 500], "not in the index: 200, 300, 400 and 1 more"),
        (["a"], "have numbers as ids, got strings"),
        (5, "got a int"),
        ("5", "has no columns, and '5' is a condition on columns"),
        ([1.5], "got float"),
    ],
)
def test_what_chooses_no_rows_is_refused(build, tables, where, message):
    index = build(100)
    with pytest.raises(InputError, match=message):
        index.filter(where)
    with pytest.raises(InputError, match=message):
        index.search_tables(tables, where=where)


def test_no_ids_and_an_empty_mask_choose_nothing(build, tables, tied_codec):
    index = build(100)
    for where in ([], np.array([]), index.filter(())):
        assert index.search_tables(tables, where=where)[0].shape == (3, 0)
    empty = CodeIndex(tied_codec)
    for where in ([], np.zeros(0, dtype=bool), empty.filter([])):
        assert empty.search_tables(tables, where=where)[0].shape == (3, 0)


# masks and changes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_mask_means_the_same_rows_after_updates(
    build, draw_codes, tied_codec, tables, rng, n, grouped, tmp_path
):
    index = build(n, grouped=grouped)
    ids = index.ids
    mask = ids % 3 == 0
    where = index.filter(mask)
    for step in range(12):
        some = rng.choice(ids, 5 + 20 * (step % 2), replace=False)
        index.update_codes(some, draw_codes(tied_codec, rng, len(some)))
        assert np.array_equal(index.ids, ids)
        expected = among(index, tables, ids[mask])
        assert same(index.search_tables(tables, n, where=mask), expected)
        assert same(index.search_tables(tables, n, where=where), expected)
    index.save(tmp_path / "index")
    loaded = CodeIndex.load(tmp_path / "index", verify="full")
    assert np.array_equal(loaded.ids, ids)
    assert same(loaded.search_tables(tables, n), index.search_tables(tables, n))
    assert same(loaded.search_tables(tables, n, where=mask), expected)


def test_of_rows_with_equal_sums_an_updated_one_stays_where_it_was(tied_codec, tables):
    codes = np.zeros((5000, 3), dtype=np.uint8)
    codes[2500] = 1
    index = CodeIndex(tied_codec).add_codes(codes).update_codes([2500, 7], codes[:2])
    assert len(index._snapshot.parts[0].layers) == 2
    assert index.search_tables(tables, 5000)[1].tolist() == [list(range(5000))] * 3
    assert index.range_search(np.zeros((1, 2)), 1e9)[2].tolist() == list(range(5000))
    assert index.compact().search_tables(tables, 5000)[1].tolist() == [list(range(5000))] * 3


def test_a_mask_of_another_state_is_refused(build, draw_codes, tied_codec, tables, rng, queries):
    index = build(100)
    state, mask = index.state, index.ids < 50
    searches = [
        lambda **given: index.search(queries, **given),
        lambda **given: index.search_tables(tables, **given),
        lambda **given: index.range_search(queries, 1.0, **given),
        lambda **given: index.rank(queries, **given),
        lambda where, state: index.filter(where, state=state),
    ]
    for change in (
        lambda: None,
        lambda: index.update_codes([3], [[0, 0, 0]]),
        index.compact,
        lambda: index.remove([]),
    ):
        change()
        assert index.state == state
        for search in searches:
            search(where=mask, state=state)
    kept = index.filter(mask, state=state)
    index.remove([0]).add_codes(draw_codes(tied_codec, rng, 1))  # the length is the same again
    assert len(index) == len(mask)
    for search in searches:
        with pytest.raises(InputError, match="rows were added or removed since the mask was made"):
            search(where=mask, state=state)
    with pytest.raises(InputError, match="or it was made for another index"):
        build(100).search(queries, where=mask, state=state)
    assert same(index.search_tables(tables, 100, where=kept), among(index, tables, range(1, 50)))


def test_a_kept_filter_takes_no_more_memory_after_many_changes(build, draw_codes, tied_codec, tables, rng):
    def live(n_changes):
        """Return the bytes by which the index and its filters have grown, after searches among both."""
        index = build(10)
        kept, used = index.filter([5, 6, 7]), index.filter([5, 6, 7])
        code = draw_codes(tied_codec, rng, 1)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(n_changes):
            number = int(index.ids[-1])
            index.update_codes([i % 4], code).add_codes(code)
            index.remove([number]) if number >= 10 else None
            if i % 50 == 0:
                index.search_tables(tables, where=used)
        assert sorted(index.search_tables(tables[:1], where=used)[1][0].tolist()) == [5, 6, 7]
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        assert sorted(index.search_tables(tables[:1], where=kept)[1][0].tolist()) == [5, 6, 7]
        return grown

    tracemalloc.start()
    try:
        live(20)  # what is computed once
        grown = [live(400) for _ in range(3)]
    finally:
        tracemalloc.stop()
    # NumPy keeps up to 30,000 bytes of small blocks now and then. What grows with changes grows every time.
    assert min(grown) < 20_000


# masked arrays -----------------------------------------------------------------------------------------------------------


def test_masked_arrays_are_refused_because_their_mask_would_be_ignored(build, tables, queries):
    index = build(4)
    half = [False, True, False, True]

    def masked(values):
        return np.ma.array(values, mask=np.broadcast_to(half[: len(values)], np.shape(values)[::-1]).T)

    for call in [
        lambda: index.search(queries, where=masked([0, 1, 2, 3])),
        lambda: index.filter(masked([True] * 4)),
        lambda: index.codes(masked([0, 1])),
        lambda: index.remove(masked([0, 1])),
        lambda: index.search(masked(np.zeros((3, 2)))),
        lambda: index.add(masked(np.zeros((3, 2)))),
        lambda: index.add_codes(masked(np.zeros((3, 3), dtype=int))),
        lambda: index.search_tables(np.ma.array(tables)),
        lambda: index.update([0, 1], masked(np.zeros((2, 2)))),
    ]:
        with pytest.raises(InputError, match="must not be a masked array"):
            call()
    assert len(index) == 4
