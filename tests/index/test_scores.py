"""Scores at the edges: radii that scores meet exactly, sums that vanish next to their offsets, rankings that descend."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from supquant import AdditiveCodec, CodeIndex
from supquant.errors import InputError


@pytest.fixture(scope="module")
def coarse(real_codec, draw_codes):
    """Rows and queries so far away that most sums are lost when the offset is added: codes, queries."""
    rng = np.random.default_rng(14)
    scales = np.array([[1e-3], [1], [30], [1e3], [1e5], [1e7]])
    return draw_codes(real_codec, rng, 2000), (rng.normal(size=(6, 2)) * scales).astype(np.float32)


def around(values):
    """The values and their neighbours in float32."""
    values = np.unique(values)
    return np.unique(
        [np.nextafter(values, np.float32(-np.inf)), values, np.nextafter(values, np.float32(np.inf))]
    )


def test_a_range_holds_exactly_the_rows_whose_score_is_within(real_codec, exhaustive, coarse):
    codes, Q = coarse
    index = CodeIndex(real_codec).add_codes(codes)
    scores, order = exhaustive(real_codec, codes, Q)
    for q in range(len(Q)):
        for threshold in around(scores[q, [0, 1, 7, 400, 1998, 1999]]):
            limits, found, ids = index.range_search(Q, threshold)
            within = scores <= threshold
            assert np.array_equal(np.diff(limits), within.sum(axis=1))
            assert np.array_equal(found, scores[within])
            assert np.array_equal(ids, order[within])


@pytest.mark.parametrize(
    ("threshold", "share"),
    [
        (np.inf, 1),
        (1e300, 1),
        (10**400, 1),
        (-np.inf, 0),
        (-1e300, 0),
        (-(10**400), 0),
        (Fraction(-(10**400)), 0),
    ],
)
def test_a_range_may_be_endless_or_empty(real_codec, coarse, threshold, share):
    codes, Q = coarse
    limits, scores, ids = CodeIndex(real_codec).add_codes(codes).range_search(Q, threshold)
    assert np.diff(limits).tolist() == [share * len(codes)] * len(Q)
    assert len(scores) == len(ids) == limits[-1]


def test_a_threshold_that_is_no_number_is_refused(real_codec, coarse):
    index = CodeIndex(real_codec).add_codes(coarse[0])
    for threshold in (np.nan, "1", None, [1.0]):
        with pytest.raises(InputError, match="threshold"):
            index.range_search(coarse[1], threshold)


@dataclass(frozen=True, eq=False)
class Likeness(AdditiveCodec):
    """A codec whose scores are the greater, the nearer."""

    def query_tables(self, Q, ranking=None, *, n_jobs=None):
        made = super().query_tables(Q, ranking, n_jobs=n_jobs)
        return replace(made, offsets=-made.offsets, descending=True)


def test_scores_of_a_descending_ranking_descend(real_codec, exhaustive, coarse):
    codes, Q = coarse
    likeness = Likeness(codebooks=real_codec.codebooks, constant=real_codec.constant)
    index = CodeIndex(likeness).add_codes(codes[:1500]).add_codes(codes[1500:])
    scores, order = exhaustive(likeness, codes, Q)
    assert (np.diff(scores) <= 0).all()
    assert (scores[:, 0] > scores[:, -1])[:3].all()

    found, ids = index.search(Q, 50)
    assert np.array_equal(found, scores[:, :50])
    assert np.array_equal(ids, order[:, :50])
    for (found, ids), expected, expected_ids in zip(
        [(found, ids) for block in index.rank(Q) for found, ids in zip(*block, strict=True)],
        scores,
        order,
        strict=True,
    ):
        assert np.array_equal(found, expected)
        assert np.array_equal(ids, expected_ids)
    for q in range(len(Q)):
        for threshold in around(scores[q, [0, 1, 7, 400, 1999]]):
            limits, found, ids = index.range_search(Q, threshold)
            within = scores >= threshold
            assert np.array_equal(np.diff(limits), within.sum(axis=1))
            assert np.array_equal(found, scores[within])
            assert np.array_equal(ids, order[within])


def test_sums_of_tables_are_in_codebook_order(draw_codes, rng):
    """Entries of very different size: any other order of adding gives other sums."""
    codec = AdditiveCodec(codebooks=np.zeros((6, 16, 2), dtype=np.float32))
    codes = draw_codes(codec, rng, 3000)
    tables = (rng.normal(size=(3, 6, 16)) * 10.0 ** rng.integers(-6, 7, size=(3, 6, 16))).astype(np.float32)
    sums, ids = CodeIndex(codec).add_codes(codes).search_tables(tables, 3000)
    for q, table in enumerate(tables):
        expected = []
        for code in codes:
            total = table[0, code[0]]
            for m in range(1, 6):
                total = np.float32(total + table[m, code[m]])
            expected.append(total)
        expected = np.array(expected)
        order = expected.argsort(kind="stable")
        assert np.array_equal(ids[q], order)
        assert np.array_equal(sums[q], expected[order])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_tables_that_cannot_be_summed_are_refused(tied_codec, draw_codes, rng, bad):
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 100))
    tables = np.zeros((2, 3, 16), dtype=np.float32)
    tables[1, :, 3] = bad
    for where in (None, [1, 5], index.filter([1, 5]), np.arange(100) % 2 == 0):
        with pytest.raises(InputError):
            index.search_tables(tables, 5, where=where)


def test_queries_whose_scores_would_overflow_are_refused(real_codec, coarse):
    index = CodeIndex(real_codec).add_codes(coarse[0])
    far = np.full((1, 2), 1e30, dtype=np.float32)  # finite, its square is not
    for ask in (index.search, lambda Q: index.range_search(Q, np.inf), lambda Q: list(index.rank(Q))):
        with pytest.raises(InputError):
            ask(far)
