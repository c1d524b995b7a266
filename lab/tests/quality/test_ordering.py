"""The order of items is compared with a stable sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from supquant.errors import InputError
from supquant_lab.quality import ordered_keys, ranked

DTYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", ">f4", ">i4", ">u2"]


@st.composite
def rows_of_scores(draw):
    """Draw up to 40 numbers of any type, with many equal ones."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    elements = hnp.from_dtype(dtype, allow_nan=False)
    few = draw(st.lists(elements, min_size=1, max_size=4))
    values = draw(st.lists(st.one_of(st.sampled_from(few), elements), min_size=1, max_size=40))
    return np.array(values, dtype=dtype)


def stably_sorted(scores, relevant):
    order = np.argsort(scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(relevant, order, axis=1)


@given(rows_of_scores(), st.integers(0, 2**40 - 1))
def test_items_come_in_the_order_of_a_stable_sort(scores, flags):
    relevant = np.array([[bool(flags >> i & 1) for i in range(len(scores))]])
    in_order, expected = stably_sorted(scores[None], relevant)
    keys, hits = ranked(scores[None], relevant)
    assert np.array_equal(hits, expected)
    assert np.array_equal(keys[:, 1:] == keys[:, :-1], in_order[:, 1:] == in_order[:, :-1])


@given(rows_of_scores())
def test_keys_compare_as_scores_do(scores):
    keys = ordered_keys(scores)
    assert np.array_equal(keys[:, None] < keys, scores[:, None] < scores)
    assert np.array_equal(keys[:, None] == keys, scores[:, None] == scores)


def test_both_zeros_are_equal_and_infinities_come_first_and_last():
    tiny = np.finfo(np.float32).smallest_subnormal
    scores = np.array([np.inf, 0.0, -np.inf, tiny, -0.0, -tiny], dtype=np.float32)
    keys = ordered_keys(scores)
    assert np.argsort(keys, kind="stable").tolist() == [2, 5, 1, 4, 3, 0]
    assert keys[1] == keys[4]


@pytest.mark.parametrize("dtype", ["f4", "f8", "u2", "i8"])
def test_many_items_and_many_ties_stay_in_order(dtype):
    rng = np.random.default_rng(0)
    scores = (rng.normal(size=(3, 70_000)) * 1000).astype(np.int64).astype(dtype)
    relevant = rng.random(scores.shape) < 0.3
    in_order, expected = stably_sorted(scores, relevant)
    keys, hits = ranked(scores, relevant)
    assert np.array_equal(hits, expected)
    assert np.array_equal(keys, np.stack([ordered_keys(row) for row in in_order]))


def test_scores_of_any_memory_layout_are_not_changed():
    rng = np.random.default_rng(1)
    scores = rng.integers(9, size=(65, 34)).astype(np.uint16)[:, ::2].T
    relevant = rng.random(scores.shape) < 0.5
    kept = scores.copy(), relevant.copy()
    for given_scores in (scores, scores.astype(np.float32), scores.astype(np.float32)[::-1, ::-1]):
        given_scores.flags.writeable = False
        _, hits = ranked(given_scores, relevant)
        assert np.array_equal(hits, stably_sorted(given_scores, relevant)[1])
    assert np.array_equal(scores, kept[0])
    assert np.array_equal(relevant, kept[1])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_score_that_is_no_number_is_refused(sign):
    with pytest.raises(InputError, match="NaN"):
        ranked(np.array([[1.0, sign * np.nan]]), np.zeros((1, 2), bool))


@pytest.mark.parametrize("scores", [np.array([["a"]]), np.array([[1j]]), np.array([[None]])])
def test_scores_without_an_order_are_refused(scores):
    with pytest.raises(InputError, match=f"at most 64 bits, got {scores.dtype}"):
        ranked(scores, np.zeros((1, 1), bool))


def test_scores_of_other_items_are_refused():
    with pytest.raises(InputError, match=r"shape \(2, 3\), expected \(2, 4\)"):
        ranked(np.zeros((2, 3)), np.zeros((2, 4), bool))


def test_no_items_have_an_empty_order():
    keys, hits = ranked(np.empty((2, 0), dtype=np.float32), np.empty((2, 0), dtype=np.bool_))
    assert keys.shape == hits.shape == (2, 0)
