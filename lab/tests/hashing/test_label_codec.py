from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.codec.gaussian_map import GaussianMap
from supquant.codec.registry import load_codec
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing.label_codec import LabelCodec

FILES = Path(__file__).parent / "files"


def codec_of(n_labels, multilabel=False, d=6, seed=0):
    weights = np.random.default_rng(seed).normal(size=(d, n_labels)).astype(np.float32)
    return LabelCodec(weights, np.arange(n_labels), multilabel)


@given(
    n_labels=st.sampled_from([2, 7, 8, 9, 255, 256, 257, 511]),
    multilabel=st.booleans(),
    seed=st.integers(0, 9),
)
def test_labels_come_back_from_their_codes_and_sums_of_tables_are_their_scores(n_labels, multilabel, seed):
    rng = np.random.default_rng(seed)
    codec = codec_of(n_labels, multilabel, seed=seed)
    X = rng.normal(size=(17, 6)).astype(np.float32)
    Y = np.zeros((17, n_labels), dtype=np.uint8)
    Y[np.arange(17), rng.integers(n_labels, size=17)] = 1
    if multilabel:
        Y |= rng.random(Y.shape) < 0.3
    codes = codec.encode_items(X, Y if multilabel else Y.argmax(axis=1))
    assert (codes.shape, codes.dtype) == ((17, codec.n_codebooks), np.uint8)
    assert codes.max() < codec.n_codewords
    np.testing.assert_array_equal(codec.decode(codes), Y)
    made = codec.query_tables(X[:5])
    sums = sum(made.tables[:, m, codes[:, m]] for m in range(codec.n_codebooks))
    np.testing.assert_allclose(made.scores(sums), X[:5] @ codec.projection @ Y.T, rtol=1e-4, atol=1e-4)
    assert made.descending


def test_one_byte_is_enough_for_256_classes_and_eight_labels():
    sizes = [
        (n, many, codec_of(n, many).n_codebooks)
        for n in (2, 256, 257, 511)
        for many in (False, True)
        if n < 512
    ]
    assert sizes == [
        (2, False, 1),
        (2, True, 1),
        (256, False, 1),
        (256, True, 32),
        (257, False, 2),
        (257, True, 33),
        (511, False, 3),
        (511, True, 64),
    ]


def test_items_without_labels_get_those_that_their_scores_say():
    scores = np.array([[0.9, 0.2, 0.6], [0.1, 0.4, 0.3]], dtype=np.float32)
    one = LabelCodec(np.eye(3, dtype=np.float32), np.array(["a", "b", "c"]))
    several = LabelCodec(np.eye(3, dtype=np.float32), np.arange(3), multilabel=True)
    assert one.encode_items(scores).tolist() == [[0], [1]]
    assert several.decode(several.encode_items(scores)).tolist() == [[1, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(one.decision_function(scores), scores)


def test_a_query_alone_and_in_a_batch_has_the_same_tables(rng):
    codec = codec_of(30)
    Q = rng.normal(size=(21, 6))
    alone = np.concatenate([codec.query_tables(Q[i : i + 1]).tables for i in range(21)])
    np.testing.assert_array_equal(codec.query_tables(Q, n_jobs=2).tables, alone)


@pytest.mark.parametrize("multilabel", [False, True])
def test_a_saved_codec_comes_back(multilabel, rng, tmp_path):
    features = GaussianMap(rng.normal(size=(6, 3)).astype(np.float32), 1.5)
    classes = np.arange(9) if multilabel else np.array([f"class {i}" for i in range(9)])
    codec = LabelCodec(rng.normal(size=(6, 9)).astype(np.float32), classes, multilabel, features)
    codec.save(tmp_path / "codec")
    loaded = load_codec(tmp_path / "codec")
    assert isinstance(loaded, LabelCodec)
    X = rng.normal(size=(9, 3))
    np.testing.assert_array_equal(loaded.query_tables(X).tables, codec.query_tables(X).tables)
    np.testing.assert_array_equal(loaded.encode_items(X), codec.encode_items(X))
    np.testing.assert_array_equal(loaded.classes, classes)
    assert loaded.nbytes == codec.nbytes > 0


def test_a_file_of_format_version_1_is_read_and_written_unchanged(tmp_path):
    """The file was written by the first version of the format and must never be replaced."""
    path = FILES / "labels-1.safetensors"
    codec = load_codec(path)
    assert codec.classes.tolist() == ["cat", "dog", "owl"]
    assert codec.encode_items(np.linspace(-1, 1, 15).reshape(5, 3)).tolist() == [[0], [0], [1], [1], [2]]
    codec.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_no_rows_are_encoded_to_no_codes():
    codec = codec_of(300)
    assert codec.encode_items(np.zeros((0, 6))).shape == (0, 2)
    assert codec.query_tables(np.zeros((0, 6))).tables.shape == (0, 2, 256)


def test_what_does_not_fit_is_refused(rng):
    X = rng.normal(size=(4, 6))
    with pytest.raises(InputError, match="at most 16320 labels, 255 per byte; got 20000"):
        codec_of(20000, d=1)
    with pytest.raises(InputError, match="at most 512 labels, 8 per byte; got 513"):
        codec_of(513, multilabel=True)
    with pytest.raises(InputError, match="projection"):
        LabelCodec(np.zeros((6, 3), dtype=np.float32), np.arange(4))
    codec = codec_of(4)
    with pytest.raises(InputError, match=r"codes must lie in 0 \.\. 3"):
        codec.decode([[4]])
    with pytest.raises(InputError, match="ranking"):
        codec.query_tables(X, "euclidean")
    with pytest.raises(InputError, match="1d array of class labels"):
        codec.encode_items(X, np.eye(4, dtype=int))
    with pytest.raises(InputError, match="unknown label"):
        codec.encode_items(X, [0, 1, 2, 9])
    with pytest.raises(InputError, match="4 rows"):
        codec.encode_items(X, [0])
    assert codec.codes_of(read_labels([0, 1, 2, 3])).tolist() == [[0], [1], [2], [3]]
