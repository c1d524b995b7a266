import sys

import numpy as np
import pytest

from supquant import (
    AnchorKernel,
    CodeIndex,
    InputError,
    ProductQuantizer,
    PublishedQuantizer,
    SupervisedQuantizer,
)
from supquant.codec.additive import AdditiveCodec
from supquant.interchange import to_faiss
from supquant_lab.hashing.binary_codec import BinaryCodec

faiss = pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def codec():
    codebooks = np.random.default_rng(1).normal(size=(4, 200, 6)).astype(np.float32)
    return AdditiveCodec(codebooks=codebooks, constant=0.5)


@pytest.fixture(scope="module")
def codes():
    return np.random.default_rng(2).integers(200, size=(3000, 4)).astype(np.uint8)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(3).normal(size=(20, 6)).astype(np.float32)


def assert_same_answers(index, Q, k=30):
    """Check that FAISS finds the same scores, and the same ids where no two scores are close."""
    scores, ids = index.search(Q, k)
    found, found_ids = to_faiss(index).search(index.codec.transform(Q), k)
    theirs = index.codec.query_tables(Q).offsets[:, None] - found
    np.testing.assert_allclose(theirs, scores, rtol=1e-4, atol=1e-4)
    apart = np.ones(ids.shape, dtype=bool)
    close = np.diff(scores, axis=1) < 1e-3
    apart[:, 1:] &= ~close
    apart[:, :-1] &= ~close
    apart[:, -1] = False  # the next score is not known and may be as close
    assert apart.mean() > 0.3
    np.testing.assert_array_equal(found_ids[apart], ids[apart])


def test_neighbours_are_the_same_in_the_same_order(codec, codes, queries):
    index = CodeIndex(codec).add_codes(codes)
    assert_same_answers(index, queries)
    assert isinstance(to_faiss(index), faiss.IndexPreTransform)


def test_the_drop_of_squared_norms_would_give_other_neighbours(codec, codes, queries):
    plain = faiss.IndexResidualQuantizer(6, 4, 8, faiss.METRIC_L2, faiss.AdditiveQuantizer.ST_LUT_nonorm)
    padded = np.zeros((4, 256, 6), dtype=np.float32)
    padded[:, :200] = codec.codebooks
    faiss.copy_array_to_vector(padded.ravel(), plain.rq.codebooks)
    plain.rq.is_trained = plain.is_trained = True
    faiss.copy_array_to_vector(codes.ravel(), plain.codes)
    plain.ntotal = len(codes)
    ours = CodeIndex(codec).add_codes(codes).search(queries, 10)[1]
    assert (plain.search(queries, 10)[1] != ours).mean() > 0.5


def test_a_model_with_features_and_projection_exports_what_its_transform_is_searched_in(clusters):
    X, y = clusters
    kernel = AnchorKernel(20, random_state=0)
    quantizer = PublishedQuantizer(2, n_codewords=16, features=kernel, random_state=0, max_iter=2).fit(X, y)
    index = CodeIndex(quantizer).add(X[:200])
    found, _ = to_faiss(index).search(index.codec.transform(X[200:]), 5)
    scores, _ = index.search(X[200:], 5, ranking="euclidean")
    theirs = index.codec.query_tables(X[200:], "euclidean").offsets[:, None] - found
    np.testing.assert_allclose(theirs, scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("ranking", ["label", "position"])
def test_a_model_of_meaning_and_position_exports_its_products(clusters, ranking):
    X, y = clusters
    quantizer = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y)
    index = CodeIndex(quantizer).add(X[:200])
    found, ids = to_faiss(index).search(index.codec.query_vectors(X[200:], ranking), 5)
    sums, ours = index.search_tables(index.codec.query_tables(X[200:], ranking), 5)
    np.testing.assert_allclose(found, -sums, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(
        index.codes(ids[:, 0]), index.codes(ours[:, 0])
    )  # equal codes come in any order


def test_ids_are_kept_and_removed_rows_are_left_out(codec, codes, queries):
    ids = 7 * np.arange(len(codes)) - 5000
    index = CodeIndex(codec).add_codes(codes, ids)
    nearest = index.search(queries, 1)[1]
    index.remove(np.unique(nearest))
    exported = to_faiss(index)
    assert exported.ntotal == len(index) < len(codes)
    assert not np.isin(exported.search(queries, 50)[1], nearest).any()
    assert_same_answers(index, queries)


def test_automatic_numbers_with_gaps_are_kept_too(codec, codes, queries):
    index = CodeIndex(codec).add_codes(codes).remove(np.arange(0, 1000, 2))
    assert_same_answers(index, queries)


def test_equal_codes_that_are_kept_once_are_exported_row_by_row(codec, codes, queries):
    index = CodeIndex(codec).add_codes(codes[np.arange(3000) % 20])
    assert index.info()["segments"][0]["grouped"]
    scores, _ = index.search(queries, 40)
    found, found_ids = to_faiss(index).search(queries, 40)
    np.testing.assert_allclose(
        index.codec.query_tables(queries).offsets[:, None] - found, scores, rtol=1e-4, atol=1e-4
    )
    assert all(len(set(row)) == 40 for row in found_ids.tolist())


def test_the_export_survives_being_written_and_read(codec, codes, queries, tmp_path):
    exported = to_faiss(CodeIndex(codec).add_codes(codes, np.arange(len(codes)) + 10))
    faiss.write_index(exported, str(tmp_path / "index.faiss"))
    again = faiss.read_index(str(tmp_path / "index.faiss"))
    np.testing.assert_array_equal(again.search(queries, 10)[1], exported.search(queries, 10)[1])


@pytest.mark.parametrize("ids", [None, 3 * np.arange(500) + 1])
def test_hamming_codes_become_a_binary_index(ids):
    rng = np.random.default_rng(4)
    codec = BinaryCodec(rng.normal(size=(8, 64)).astype(np.float32), np.zeros(64, dtype=np.float32))
    index = CodeIndex(codec).add(rng.normal(size=(500, 8)), ids=ids)
    Q = rng.normal(size=(9, 8))
    scores, _ = index.search(Q, 12)
    distances, found_ids = to_faiss(index).search(codec.encode_items(Q), 12)
    np.testing.assert_array_equal(distances, scores)
    bits = np.unpackbits(
        codec.encode_items(Q)[:, None] ^ index.codes(found_ids.ravel()).reshape(9, 12, 8), axis=2
    )
    np.testing.assert_array_equal(bits.sum(axis=2), distances)


def test_an_empty_index_is_exported_as_one(codec, queries):
    assert to_faiss(CodeIndex(codec)).ntotal == 0


def test_string_ids_are_refused_with_what_to_do(codec, codes):
    index = CodeIndex(codec).add_codes(codes[:3], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"numbers.*add_codes"):
        to_faiss(index)


def test_a_missing_faiss_is_named_with_how_to_install_it(monkeypatch, clusters):
    index = CodeIndex(ProductQuantizer(2, n_codewords=4, random_state=0).fit(clusters[0])).add(clusters[0])
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match="pip install faiss-cpu"):
        to_faiss(index)


def test_importing_the_package_does_not_import_faiss():
    import subprocess

    told = "import sys, supquant.interchange, supquant.cli; print('faiss' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", told], text=True).strip() == "False"
