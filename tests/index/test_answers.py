"""What an index answers: shapes, settings, blocks of queries, several segments."""

import os
from pathlib import Path

import numpy as np
import pytest
from everywhere import everywhere

from supquant import AdditiveCodec, CodeIndex, InputError
from supquant.parallel import BLOCK_ROWS


@everywhere
def test_an_empty_index_answers_with_nothing(index, tied_codec, codes, queries):
    emptied = CodeIndex(tied_codec).add_codes(codes).remove(range(100))
    strings = CodeIndex(tied_codec).add_codes(codes[:1], ids=["a"]).remove(["a"])
    for each, dtype in ((index, np.int64), (emptied, np.int64), (strings, object)):
        scores, ids = each.search(queries, 3)
        assert (scores.shape, scores.dtype, ids.shape, ids.dtype) == ((5, 0), np.float32, (5, 0), dtype)
        limits, scores, ids = each.range_search(queries, 3.0)
        assert (limits.tolist(), scores.shape, ids.shape) == ([0] * 6, (0,), (0,))
        ((scores, ids),) = each.rank(queries)
        assert scores.shape == ids.shape == (5, 0)
        assert (len(each), each.nbytes, each.ids.tolist(), each.ids.dtype) == (0, 0, [], dtype)
        assert each.codes([]).shape == (0, 3)
        assert each.reconstruct([]).shape == (0, 2)
        with pytest.raises(InputError, match="features"):
            each.search(np.zeros((1, 5)))


@everywhere
def test_no_queries_get_no_answers(index, codes):
    index.add_codes(codes)
    none = np.empty((0, 2))
    assert [each.shape for each in index.search(none, 3)] == [(0, 3), (0, 3)]
    assert [each.shape for each in index.range_search(none, 1.0)] == [(1,), (0,), (0,)]
    assert list(index.rank(none)) == []
    assert [each.shape for each in index.search_tables(np.empty((0, 3, 16)), 3)] == [(0, 3), (0, 3)]


@pytest.mark.parametrize("k", [0, -1, 2.0, True, None, "3"])
@everywhere
def test_k_is_a_whole_number_above_zero(index, queries, k):
    with pytest.raises(InputError, match="k must be an integer of at least 1"):
        index.search(queries, k)
    with pytest.raises(InputError, match="k must be an integer of at least 1"):
        index.search_tables(np.zeros((1, 3, 16)), k)


def test_any_number_of_jobs_gives_the_same_answer_with_few_threads(index, draw_codes, queries, rng):
    index.add_codes(draw_codes(index.codec, rng, 200_000))
    expected = index.search(queries, 5, n_jobs=1)
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir())) if tasks.exists() else 0
    for n_jobs in (2000, 2**31, 2**64):
        found = index.search(queries, 5, n_jobs=n_jobs)
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    if tasks.exists():
        assert len(list(tasks.iterdir())) <= before + max(16, 4 * len(os.sched_getaffinity(0)))


@everywhere
def test_wrong_settings_are_refused_at_the_call(index, codes, queries):
    index.add_codes(codes)
    for method in (index.search, index.rank, lambda Q, **given: index.range_search(Q, 1.0, **given)):
        with pytest.raises(InputError, match="ranking must be 'euclidean'"):
            method(queries, ranking="cosine")
        with pytest.raises(InputError, match="n_jobs must be"):
            method(queries, n_jobs=0)
        with pytest.raises(InputError, match="features"):
            method(np.zeros((1, 3)))


@pytest.mark.parametrize("shape", [(3, 16), (1, 2, 16), (1, 3, 15)])
@everywhere
def test_tables_have_the_shape_of_the_codec(index, shape):
    with pytest.raises(InputError, match=r"tables must be numbers of shape \(q, 3, 16\)"):
        index.search_tables(np.zeros(shape))


@everywhere
def test_tables_may_come_in_other_dtypes_and_layouts(index, codes, rng):
    index.add_codes(codes)
    tables = rng.integers(0, 9, size=(4, 3, 16))
    expected = index.search_tables(tables.astype(np.float32), 20)
    for other in (
        tables,
        tables.astype(np.float64),
        np.asfortranarray(tables.astype(np.float32)),
        tables.tolist(),
    ):
        found = index.search_tables(other, 20)
        assert all(np.array_equal(one, two) for one, two in zip(found, expected, strict=True))


@pytest.mark.parametrize("batches", [[100], [70, 30], [100, 20, 5]])
def test_segments_answer_as_one(tied_codec, draw_codes, exhaustive, queries, batches):
    codes = draw_codes(tied_codec, np.random.default_rng(12), sum(batches))
    index = CodeIndex(tied_codec)
    for part in np.split(codes, np.cumsum(batches)[:-1]):
        index.add_codes(part)
    scores, order = exhaustive(tied_codec, codes, queries)
    for k in (1, 7, sum(batches), 1000):
        found, ids = index.search(queries, k)
        assert np.array_equal(found, scores[:, :k])
        assert np.array_equal(ids, order[:, :k])
    limits, found, ids = index.range_search(queries, 2.0)
    within = scores <= 2
    assert 0 < within.sum() < within.size
    assert np.array_equal(np.diff(limits), within.sum(axis=1))
    assert np.array_equal(found, scores[within])
    assert np.array_equal(ids, order[within])


def test_many_queries_are_answered_in_blocks_as_few_are(index, codes, rng):
    index.add_codes(codes)
    Q = rng.normal(size=(BLOCK_ROWS + 3, 2)).astype(np.float32)
    scores, ids = index.search(Q, 2)
    limits, near, _ = index.range_search(Q, 1.0)
    ranked = list(index.rank(Q))
    assert [len(block) for block, _ in ranked] == [BLOCK_ROWS, 3]
    for part in (slice(0, 3), slice(BLOCK_ROWS - 1, None)):
        assert np.array_equal(scores[part], index.search(Q[part], 2)[0])
        assert np.array_equal(ids[part], index.search(Q[part], 2)[1])
        own_limits, own, _ = index.range_search(Q[part], 1.0)
        edges = limits[part.start : part.stop and part.stop + 1]
        assert np.array_equal(own_limits, edges - edges[0])
        assert np.array_equal(own, near[edges[0] : edges[-1]])
    assert np.array_equal(np.concatenate([block for block, _ in ranked])[:, :2], scores)


def test_whole_rankings_come_in_blocks_of_bounded_size(index, draw_codes, rng, monkeypatch):
    monkeypatch.setattr("supquant.index.searching._RANKING_BYTES", 12 * 100 * 7)
    index.add_codes(draw_codes(index.codec, rng, 100))
    Q = rng.normal(size=(17, 2))
    assert [scores.shape for scores, _ in index.rank(Q)] == [(7, 100), (7, 100), (3, 100)]


@everywhere
def test_rows_are_decoded_by_their_ids(index, tied_codec, codes):
    index.add_codes(codes, ids=range(100, 0, -1))
    assert np.array_equal(index.reconstruct([1, 100, 1]), tied_codec.decode(codes[[99, 0, 99]]))
    assert index.reconstruct([1]).dtype == np.float32


@pytest.mark.parametrize("Q", ["red shoes", ["red"], np.array("red")])
def test_a_text_is_no_query(Q):
    index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32))).add_codes([[0]])
    with pytest.raises(InputError, match="Q must be vectors of numbers, got text"):
        index.search(Q)
