import gc
import weakref

import numpy as np
import pytest

from supquant import CodeIndex, InputError
from supquant.index.segments import Segment
from supquant.index.topk import find_lowest


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
    gone = [set(), set(range(0, 300, 2)), {3, 9}, set(), set(), set(range(1, 400, 2)), set()]
    before, expected = index._snapshot, among(index, tables, chosen)
    for step, left in zip(steps, gone, strict=True):
        step()
        chosen -= left
        assert same(index.search_tables(tables, len(index), where=where), among(index, tables, chosen))
    # A search that began before all of this still gets what was there then.
    sums, positions = find_lowest(where.views(before), tables, None, 500, 1)
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
        ("5", "got a str"),
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
