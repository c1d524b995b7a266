"""Codes are sorted where that lets a scan skip cells, and answers stay as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scan_cases import cells_of

from supquant import AdditiveCodec, CodeIndex
from supquant.codec.probabilities import IDENTITY
from supquant.index import ordering
from supquant.index.ordering import CodeOrder, find_cells, sort_codes
from supquant.kernels import BLOCK_ROWS, blocks_of
from supquant_lab.hashing.binary_codec import BinaryCodec

N, M = 4000, 4


def weighted_codec(*weights):
    """Codebooks of 256 random codewords, as long as their weights."""
    codebooks = np.random.default_rng(0).normal(size=(len(weights), 256, 16))
    return AdditiveCodec((codebooks * np.array(weights)[:, None, None]).astype(np.float32))


@pytest.fixture
def codes(rng):
    return rng.integers(0, 256, size=(N, M), dtype=np.uint8)


@pytest.fixture
def few_are_enough(monkeypatch):
    monkeypatch.setattr(ordering, "MIN_SORTED", N)
    monkeypatch.setattr(ordering, "MIN_IN_CELL", 8)


@pytest.mark.usefixtures("few_are_enough")
def test_codes_are_sorted_by_the_codebooks_that_weigh_most(codes):
    assert CodeOrder(weighted_codec(0.1, 1, 9, 3)).leading(codes) == (2, 3, 1)
    assert CodeOrder(weighted_codec(9, 3, 1, 0.1)).leading(codes) == (0, 1, 2)


@pytest.mark.usefixtures("few_are_enough")
def test_a_codec_that_ranks_by_labels_first_sorts_its_codes_too(codes, rng):
    plain = weighted_codec(0.1, 1, 9, 3)
    codec = AdditiveCodec(
        plain.codebooks,
        projection=np.eye(16, dtype=np.float32),
        classifier=rng.normal(size=(16, 3)).astype(np.float32),
        classes=np.arange(3),
        scaling=np.ones((2, 3), dtype=np.float32),
        curve=IDENTITY,
    )
    assert codec.rankings[0] == "label"
    assert CodeOrder(codec).leading(codes) == CodeOrder(plain).leading(codes)


@pytest.mark.usefixtures("few_are_enough")
def test_codes_are_not_sorted_where_it_does_not_help(codes):
    assert CodeOrder(weighted_codec(1, 1, 1, 1, 1, 1, 1, 1)).leading(np.tile(codes, 2)) == ()
    assert CodeOrder(weighted_codec(9, 3, 1, 0.1)).leading(codes[1:]) == ()
    assert CodeOrder(BinaryCodec(None, np.zeros(8 * M, np.float32))).leading(codes) == ()
    assert CodeOrder().leading(codes) == ()


@given(st.integers(1, 300), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**16))
def test_sorted_codes_and_their_cells_are_those_of_plain_loops(n, K, depth, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, K, size=(n, M), dtype=np.uint8)
    lead = rng.permutation(M)[:depth].tolist()
    order = sort_codes(codes, lead)
    assert order.tolist() == sorted(range(n), key=lambda row: [codes[row, m] for m in lead])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "MIN_IN_CELL", 1)
        patch.setattr(ordering, "COUNTED_CODES", BLOCK_ROWS)
        found = find_cells(blocks_of(codes[order]), n, lead)
    expected = cells_of(codes[order], lead)
    assert (list(found.lead), np.array_equal(found.used, expected.used)) == (lead, True)
    for have, want in zip((*found.starts, *found.words), (*expected.starts, *expected.words), strict=True):
        assert have.dtype == want.dtype
        assert have.tolist() == want.tolist()


def test_levels_end_where_cells_become_small(rng):
    codes = np.column_stack([np.repeat(np.arange(4), 100), np.repeat(np.arange(8), 50), np.arange(400) % 251])
    blocks = blocks_of(codes.astype(np.uint8))
    assert [len(words) for words in find_cells(blocks, 400, [0, 1, 2]).words] == [4]
    assert find_cells(blocks, 400, [2]) is None


@pytest.mark.usefixtures("few_are_enough")
@pytest.mark.parametrize("mapped", [True, False])
def test_a_sorted_index_answers_as_an_unsorted_one_before_and_after_a_file(
    codes, rng, tmp_path, monkeypatch, mapped
):
    codec = weighted_codec(9, 3, 1, 0.1)
    Q = rng.normal(size=(20, 16)).astype(np.float32)
    index = CodeIndex(codec).add_codes(codes)
    monkeypatch.setattr(ordering, "MIN_SORTED", 10**9)
    plain = CodeIndex(codec).add_codes(codes)
    assert [each.info()["segments"][0]["sorted"] for each in (index, plain)] == [True, False]
    index.save(tmp_path / "index")
    loaded = CodeIndex.load(tmp_path / "index", verify="full", mapped=mapped)
    assert loaded.info()["segments"] == index.info()["segments"]
    mask = rng.random(N) < 0.1
    for each in (index, loaded):
        for where in (None, mask, each.filter(mask)):
            for Q_ in (Q, Q[:1]):
                found = each.search(Q_, 30, where=where), each.range_search(Q_, 1500.0, where=where)
                expected = (
                    plain.search(Q_, 30, where=None if where is None else mask),
                    plain.range_search(Q_, 1500.0, where=None if where is None else mask),
                )
                for have, want in zip(sum(found, ()), sum(expected, ()), strict=True):
                    assert np.array_equal(have, want)
        some = rng.permutation(N)[:50]
        assert np.array_equal(each.codes(some), codes[some])
        assert np.array_equal(each.codes(np.arange(N)), codes)


@pytest.mark.usefixtures("few_are_enough")
def test_a_sorted_index_takes_four_bytes_a_row_more(codes):
    index = CodeIndex(weighted_codec(9, 3, 1, 0.1)).add_codes(codes)
    index.search(np.zeros((1, 16)), 1)
    assert (M + 4) * N <= index.nbytes <= (M + 4) * N + 8192
