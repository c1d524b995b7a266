"""An index answers on a GPU what it answers on the CPU, whatever happened to it."""

import copy

import numpy as np
import pytest
from noisy_classes import draw_classes

from supquant import CodeIndex
from supquant.kernels import device


@pytest.fixture(scope="module")
def queries():
    return draw_classes(10, 40, 24, seed=7)[0]


@pytest.fixture
def index(models):
    X, y = draw_classes(10, 60_000, 24, seed=3)
    made = CodeIndex(models["default"].codec_)
    made.add(X[:30_000], y[:30_000], metadata={"price": np.arange(30_000) % 100})
    return made.add(X[30_000:], metadata={"price": np.arange(30_000) % 100})


def assert_answers_are_those_of_the_cpu(index, queries, **search):
    for few in (queries[:1], queries[:5], queries):
        for k in (1, 10, 700, 5000):
            want = index.search(few, k, **search)
            with device.use_device("cuda"):
                got = index.search(few, k, **search)
            for have, wanted in zip(got, want, strict=True):
                np.testing.assert_array_equal(have, wanted)
    want = index.range_search(queries[:5], 0.5, **search)
    with device.use_device("cuda"):
        got = index.range_search(queries[:5], 0.5, **search)
    for have, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(have, wanted)


def test_answers(index, queries):
    assert_answers_are_those_of_the_cpu(index, queries)


def test_answers_among_some_rows(index, queries):
    mask = np.random.default_rng(0).random(len(index)) < 0.01
    assert_answers_are_those_of_the_cpu(index, queries, where=mask)
    assert_answers_are_those_of_the_cpu(index, queries, where=index.filter(np.arange(0, 60_000, 7)))


def test_answers_after_changes(index, queries):
    index.remove(np.arange(5_000, 9_000))
    assert_answers_are_those_of_the_cpu(index, queries)
    index.update(np.arange(0, 4_000, 2), queries.repeat(50, axis=0))
    assert_answers_are_those_of_the_cpu(index, queries)
    index.add(queries)
    assert_answers_are_those_of_the_cpu(index, queries)
    index.compact()
    assert_answers_are_those_of_the_cpu(index, queries)


def test_answers_of_whole_rankings(index, queries):
    want = list(index.rank(queries[:3]))
    with device.use_device("cuda"):
        got = list(index.rank(queries[:3]))
    for (scores, ids), (other_scores, other_ids) in zip(got, want, strict=True):
        np.testing.assert_array_equal(scores, other_scores)
        np.testing.assert_array_equal(ids, other_ids)


@pytest.mark.parametrize("mapped", [False, True])
def test_answers_of_a_loaded_index(index, queries, mapped, tmp_path):
    index.save(tmp_path / "index")
    assert_answers_are_those_of_the_cpu(CodeIndex.load(tmp_path / "index", mapped=mapped), queries)


def test_copies_share_their_codes_on_the_gpu(index, queries, gpu, on_gpu):
    gpu.forget_codes()
    index.search(queries, 3)
    before = gpu.resident_bytes()
    assert 60_000 * 8 <= before <= 1.1 * 60_000 * 8
    copy.copy(index).search(queries, 3)
    index.search(queries, 3, where=np.arange(100))
    assert gpu.resident_bytes() == before
    del index


def test_items_are_added_on_the_gpu(models, queries):
    X, y = draw_classes(10, 2000, 24, seed=3)
    want = CodeIndex(models["default"].codec_).add(X, y)
    with device.use_device("cuda"):
        got = CodeIndex(models["default"].codec_).add(X, y)
    assert (got.codes(got.ids) == want.codes(want.ids)).all(axis=1).mean() >= 0.999


def test_tensors_of_torch_are_added(models, on_gpu):
    torch = pytest.importorskip("torch")
    X, y = draw_classes(10, 500, 24, seed=3)
    want = CodeIndex(models["default"].codec_).add(X, y)
    got = CodeIndex(models["default"].codec_).add(torch.from_numpy(X).cuda(), y)
    assert (got.codes(got.ids) == want.codes(want.ids)).all(axis=1).mean() >= 0.999
    _, ids = got.search(torch.from_numpy(X[:3]).cuda(), 3)
    np.testing.assert_array_equal(ids, want.search(X[:3], 3)[1])
