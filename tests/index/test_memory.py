"""What an index takes: M + 4 bytes and 2 bits a row, and one MiB; ids come on top."""

import gc
import tracemalloc

import numpy as np
import pytest

from supquant import AdditiveCodec, CodeIndex

N, M = 200_000, 8
MIB = 1 << 20


@pytest.fixture(scope="module")
def wide_codec():
    rng = np.random.default_rng(8)
    return AdditiveCodec(codebooks=rng.normal(size=(M, 256, 4)).astype(np.float32))


def built(codec, draw_codes, form):
    rng = np.random.default_rng(9)
    distinct = {"plain": None, "grouped": 200, "barely grouped": N // 9}[
        form.removesuffix(", with deletions")
    ]
    index = CodeIndex(codec).add_codes(draw_codes(codec, rng, N, distinct))
    if form.endswith("with deletions"):
        index.remove(np.sort(rng.permutation(N)[: N // 3]))
    return index


FORMS = [
    "plain",
    "grouped",
    "barely grouped",
    "plain, with deletions",
    "grouped, with deletions",
    "barely grouped, with deletions",
]


@pytest.mark.parametrize("form", FORMS)
def test_an_index_without_ids_stays_within_its_bytes(wide_codec, draw_codes, form):
    limit = (M + 4 + 2 / 8) * N + MIB
    gc.collect()
    tracemalloc.start()
    try:
        index = built(wide_codec, draw_codes, form)
        index.search(np.zeros((1, wide_codec.n_inputs)), 10)
        gc.collect()
        traced, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    grouped = [segment["grouped"] for segment in index.info()["segments"]]
    assert grouped == [not form.startswith("plain")]
    assert index.nbytes <= limit
    assert traced <= limit, "more is allocated than the index admits to"
    # nbytes is no made-up number: it holds at least the codes, or the rows of equal codes.
    assert index.nbytes >= (M if form.startswith("plain") else 4) * N
    assert abs(index.nbytes - traced) < MIB / 2


@pytest.mark.parametrize("n_batches", [7, 200])
def test_adding_in_batches_takes_no_more(wide_codec, draw_codes, n_batches):
    rng = np.random.default_rng(10)
    index = CodeIndex(wide_codec)
    for _ in range(n_batches):
        index.add_codes(draw_codes(wide_codec, rng, N // n_batches))
    assert len(index) == N // n_batches * n_batches
    assert index.nbytes <= (M + 4 + 2 / 8) * N + MIB
    assert len(index.info()["segments"]) <= 20


def test_integer_ids_take_twelve_bytes_a_row_more(wide_codec, draw_codes, rng):
    codes = draw_codes(wide_codec, rng, N)
    index = CodeIndex(wide_codec).add_codes(codes, ids=rng.permutation(10 * N)[:N])
    assert (M + 8) * N <= index.nbytes <= (M + 4 + 2 / 8 + 12) * N + MIB
