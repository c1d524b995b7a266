import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant import kernels
from supquant.index import parts as parts_module
from supquant.index import segments
from supquant.index.bitmaps import LiveRows, bits_of_rows, rows_in_bits
from supquant.index.ids import NumberRange
from supquant.index.parts import Part, merge_parts, merge_similar, stack_layers
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.kernels import BLOCK_ROWS

SIZES = [1, 15, 16, 17, 63, 64, 65, 129, 1000]


def draw(n, M, distinct=None, seed=0):
    rng = np.random.default_rng(seed)
    if distinct is None:
        return rng.integers(0, 256, size=(n, M), dtype=np.uint8)
    return rng.integers(0, 256, size=(distinct, M), dtype=np.uint8)[rng.integers(0, distinct, size=n)]


def ranked(segment, tables, eligible=None):
    return kernels.active().scan(segment.scanned(eligible), tables, max(1, segment.n_rows))


@pytest.fixture
def tables():
    """Return a function that makes the tables (2, M, 256) of small whole numbers, whose sums are exact and often tie."""

    def make(M):
        return np.random.default_rng(1).integers(0, 5, size=(2, M, 256)).astype(np.float32)

    return make


@pytest.mark.parametrize("M", [1, 2, 8, 9, 64])
@pytest.mark.parametrize(
    ("n", "distinct"), [(n, None) for n in SIZES] + [(n, max(1, n // 10)) for n in SIZES if n >= 8]
)
def test_codes_come_back_and_are_ranked_as_they_were_given(tables, n, M, distinct):
    codes = draw(n, M, distinct)
    segment = Segment.of_codes(codes)
    assert (segment.n_rows, segment.grouped) == (n, distinct is not None)
    assert np.array_equal(segment.codes(), codes)
    some = np.random.default_rng(2).integers(0, n, size=20)
    assert np.array_equal(segment.codes(some), codes[some])
    expected = sum(tables(M)[:, m, codes[:, m]] for m in range(M))
    order = expected.argsort(axis=1, kind="stable")
    sums, rows = ranked(segment, tables(M))
    assert np.array_equal(rows, order)
    assert np.array_equal(sums, np.take_along_axis(expected, order, axis=1))


@pytest.mark.parametrize("n", [0, 1, 64, 500])
@pytest.mark.parametrize("distinct", [None, 7])
def test_the_codes_that_occur_are_told_some_at_a_time(n, distinct, monkeypatch):
    monkeypatch.setattr(segments, "STREAMED_BLOCKS", 2)
    codes = draw(n, 3, distinct)
    parts = [part.copy() for part in Segment.of_codes(codes).distinct_codes()]
    assert all(len(part) <= 2 * BLOCK_ROWS for part in parts)
    told = np.concatenate([np.empty((0, 3), dtype=np.uint8), *parts])
    assert np.array_equal(np.unique(told, axis=0), np.unique(codes, axis=0))


@pytest.mark.parametrize("extra", [0, 1])
def test_codes_are_grouped_up_to_one_distinct_in_eight(extra):
    n = 800
    codes = np.zeros((n, 2), dtype=np.uint8)
    codes[: n // 8 + extra] = np.arange(n // 8 + extra)[:, None]
    codes[n // 8 + extra :] = codes[0]
    segment = Segment.of_codes(codes)
    assert segment.grouped is (extra == 0)
    assert segment.n_distinct == (None if extra else n // 8)


@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_groups_are_the_distinct_codes_in_order_with_their_rows_ascending(n, M, distinct, seed):
    codes = draw(n, M, distinct, seed)
    segment = Segment.of_codes(codes)
    if not segment.grouped:
        return
    scanned = segment.scanned()
    kept = scanned.blocks.transpose(0, 2, 1).reshape(-1, M)
    assert np.array_equal(kept[: scanned.n], np.unique(codes, axis=0))
    assert not kept[scanned.n :].any()
    for code, start, stop in zip(kept[: scanned.n], scanned.starts[:-1], scanned.starts[1:], strict=True):
        assert scanned.members[start:stop].tolist() == np.flatnonzero((codes == code).all(axis=1)).tolist()


@pytest.mark.parametrize("distinct", [None, 4])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_a_part_of_the_rows_is_a_segment_of_its_own(tables, distinct, share):
    codes = draw(1000, 3, distinct)
    segment = Segment.of_codes(codes)
    rows = np.flatnonzero(np.random.default_rng(3).random(1000) < share).astype(np.uint32)
    part = segment.copy_rows(rows)
    assert (part.n_rows, part.grouped) == (len(rows), segment.grouped)
    assert np.array_equal(part.codes(), codes[rows])
    sums, found = ranked(part, tables(3))
    expected = ranked(segment, tables(3), bits_of_rows(rows.astype(np.int64), 1000))
    assert np.array_equal(sums, expected[0])
    assert np.array_equal(rows[found], expected[1])


@pytest.mark.parametrize("distinct", [None, 4])
def test_nbytes_are_those_of_all_that_a_scan_reads(distinct):
    segment = Segment.of_codes(draw(1000, 3, distinct))
    scanned = segment.scanned()
    arrays = [each for each in (scanned.blocks, scanned.starts, scanned.members) if each is not None]
    assert segment.nbytes == sum(each.nbytes for each in arrays)
    assert segment.nbytes == (4 * 1000 + 4 * 5 + 64 * 3 if distinct else 16 * 64 * 3)


@given(st.lists(st.integers(0, 199), unique=True))
def test_bits_are_the_rows_they_are_made_of(rows):
    words = bits_of_rows(np.array(rows, dtype=np.int64), 200)
    assert words.shape == (4,)
    assert kernels.active().count_bits(words) == len(rows)
    assert np.flatnonzero(rows_in_bits(words, np.arange(200))).tolist() == sorted(rows)


def test_live_rows_of_a_file_are_as_many_as_it_says_and_none_lies_past_the_end():
    live = LiveRows.after_removal(None, np.array([3, 69]), 70)
    assert (live.count, live._find_flaw()) == (68, None)
    assert np.flatnonzero(~live.mask()).tolist() == [3, 69]
    for n_rows, count in [(70, 67), (70, 69), (69, 69), (68, 68)]:
        assert LiveRows(live.words(), n_rows, count)._find_flaw() is not None


# parts -------------------------------------------------------------------------------------------------------------------


def part_of(n, first=0):
    return Part(
        Segment.of_codes(draw(n, 2, seed=first)), NumberRange(first, n), Serials.consecutive(first, n)
    )


def sizes(parts):
    return [part.n_live for part in parts]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=25))
def test_however_rows_come_there_are_few_parts_and_few_copies(batches):
    parts, copied, first = (), 0, 0
    made = []

    def counted(run, order):
        nonlocal copied
        copied += sum(sizes(run))
        made.append(merge_parts(run, order))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts_module, "merge_parts", counted)
        for n in batches:
            parts = merge_similar((*parts, part_of(n, first)))
            first += n
            assert sum(sizes(parts)) == first
            assert all(one >= 2 * other for one, other in zip(sizes(parts), sizes(parts)[1:], strict=False))
    assert copied <= first * (1 + np.log(first) / np.log(1.5)) + 64 * len(batches)
    assert np.concatenate([part.ids.values for part in parts]).tolist() == list(range(first))


def test_rows_stay_where_they_are_when_little_is_added():
    large = part_of(1000)
    parts = merge_similar((large, part_of(100, 1000)))
    assert sizes(parts) == [1000, 100]
    assert parts[0] is large


def test_a_part_without_rows_left_goes_and_one_with_few_is_written_anew():
    part = part_of(1000)
    assert merge_similar((part.without(np.arange(1000)),)) == ()
    half = part.without(np.arange(500))
    assert merge_similar((half,)) == (half,)
    (anew,) = merge_similar((part.without(np.arange(501)),))
    assert (anew.n_rows, anew.live) == (499, None)
    assert anew.ids.values.tolist() == list(range(501, 1000))
    assert np.array_equal(anew.segment.codes(), part.segment.codes()[501:])


def test_merged_rows_keep_their_serials_and_nothing_of_the_past():
    one, other = part_of(100).without(np.array([0, 50, 99])), part_of(70, 100)
    made = merge_parts([one, other])
    assert made.serials.find(np.array([0, 1, 49, 50, 51, 98, 99])).tolist() == [-1, 0, 48, -1, 49, 96, -1]
    assert made.serials.find(np.array([100, 169, 170, -1])).tolist() == [97, 166, -1, -1]
    gone = [weakref.ref(each) for each in (one.segment, other.segment, one.serials, other.serials)]
    del one, other
    gc.collect()
    assert [each() for each in gone] == [None] * 4


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=20).filter(any), min_size=1, max_size=6))
def test_serials_are_found_among_those_that_are_left(masks):
    expected, pieces, first = [], [], 0
    for mask in masks:
        pieces.append(Serials.consecutive(first, len(mask)).keep(np.array(mask)))
        expected += (first + np.flatnonzero(mask)).tolist()
        first += len(mask)
    serials = Serials.join(pieces)
    assert serials.take(np.arange(len(expected))).tolist() == expected
    assert (serials.first, serials.stop) == (expected[0], expected[-1] + 1)
    asked = np.arange(-2, first + 2)
    rows = {serial: row for row, serial in enumerate(expected)}
    assert serials.find(asked).tolist() == [rows.get(serial, -1) for serial in asked.tolist()]
    assert [serials.count_below(each) for each in asked.tolist()] == [
        sum(serial < each for serial in expected) for each in asked.tolist()
    ]
    assert len(serials.starts) == 1 + np.count_nonzero(np.diff(expected) != 1)


# updates -----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 300), min_size=1, max_size=25), st.integers(0, 2**32 - 1))
def test_however_rows_are_updated_there_are_few_layers_and_each_row_has_one_code(batches, seed):
    rng = np.random.default_rng(seed)
    n = 5000
    part = part_of(n)
    codes, live = part.codes().copy(), np.ones(n, dtype=bool)
    for size in batches:
        rows = rng.choice(np.flatnonzero(live), size, replace=False)
        if size % 5 == 0:
            part = part.without(rows)
            live[rows] = False
        else:
            codes[rows] = rng.integers(0, 256, size=(size, 2), dtype=np.uint8)
            part = part.with_codes(rows, codes[rows])
    assert np.array_equal(part.codes()[live], codes[live])
    some = rng.integers(0, n, 50)
    assert np.array_equal(part.codes(some[live[some]]), codes[some[live[some]]])
    assert len(part.layers) <= 1 + np.log2(n)
    derived = stack_layers(part.segment, part.live, part.updates)
    for layers in (part.layers, derived):
        read = [
            (np.arange(n) if (rows := layer.segment.rows()) is None else rows)[
                slice(None) if layer.current is None else layer.current.mask()
            ]
            for layer in layers
        ]
        assert np.array_equal(np.sort(np.concatenate(read)), np.flatnonzero(live))


def test_an_update_of_few_rows_copies_few_rows():
    part = part_of(100_000)
    rng = np.random.default_rng(0)
    copied = []
    original = Segment.of_codes.__func__

    def counted(cls, codes, *rest):
        copied.append(len(codes))
        return original(cls, codes, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "of_codes", classmethod(counted))
        for row in rng.permutation(100_000)[:1000].tolist():
            part = part.with_codes(np.array([row]), rng.integers(0, 256, size=(1, 2), dtype=np.uint8))
    assert part.segment.n_rows == 100_000
    assert sum(copied) < 1000 * (64 + np.log(1000) / np.log(1.5))
