"""The codec of bits: packing, Hamming distances, signs, files."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from supquant import kernels
from supquant.codec.gaussian_map import GaussianMap
from supquant.codec.registry import load_codec, load_codec_of
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS
from supquant_lab.hashing.binary_codec import BinaryCodec, hamming_distances

BITS, D, P = 24, 5, 4


@pytest.fixture
def codec(rng):
    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return BinaryCodec(draw(D, BITS), 0.1 * draw(BITS), GaussianMap(draw(D, P), 1.5))


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(30, P)).astype(np.float32)


def bits_by_hand(codec, X):
    projected = codec.feature_map(X).astype(np.float64) @ codec.projection
    return projected > codec.thresholds  # (n, BITS)


def test_a_code_holds_one_bit_for_each_threshold_that_is_passed(codec, vectors):
    codes = codec.encode_items(vectors)
    assert (codes.shape, codes.dtype) == ((30, BITS // 8), np.uint8)
    bits = bits_by_hand(codec, vectors)
    assert 0.1 < bits.mean() < 0.9
    for row, code in enumerate(codes):
        for j in range(BITS):
            assert bool(code[j // 8] >> (7 - j % 8) & 1) == bits[row, j]


def test_a_value_at_the_threshold_does_not_pass_it():
    codec = BinaryCodec(None, np.full(8, 2, dtype=np.float32))
    assert codec.encode_items([[2, 2, 2, 2, 3, 3, 1, 1]]).tolist() == [[0b1100]]


def test_decode_gives_the_signs_of_the_bits(codec, vectors):
    signs = codec.decode(codec.encode_items(vectors))
    assert signs.dtype == np.float32
    np.testing.assert_array_equal(signs, np.where(bits_by_hand(codec, vectors), 1, -1))


@given(
    codes=hnp.arrays(np.uint8, st.tuples(st.integers(0, 20), st.just(3))),
    query=hnp.arrays(np.uint8, (2, 3)),
)
def test_sums_of_tables_are_hamming_distances(codes, query):
    codec = BinaryCodec(None, np.zeros(24, dtype=np.float32))
    made = codec.query_tables(codec.decode(query))
    np.testing.assert_array_equal(made.bits, query)
    sums = kernels.active().table_sums(codes, made.tables)
    want = [
        [sum((int(a) ^ int(b)).bit_count() for a, b in zip(q, c, strict=True)) for c in codes] for q in query
    ]
    np.testing.assert_array_equal(made.scores(sums), np.array(want, dtype=np.float32).reshape(2, len(codes)))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 4, 8, 11, 12, 16, 64])
def test_distances_count_the_bits_that_differ(rng, n_bytes):
    codes = rng.integers(256, size=(131, n_bytes), dtype=np.uint8)
    queries = rng.integers(256, size=(3, n_bytes), dtype=np.uint8)
    codes[:2] = queries[0], ~queries[0]  # no bit and every bit
    differing = np.unpackbits(codes, axis=1) != np.unpackbits(queries, axis=1)[:, None]
    found = hamming_distances(codes, queries)
    np.testing.assert_array_equal(found, differing.sum(axis=2))
    assert found[0, :2].tolist() == [0, 8 * n_bytes]
    assert hamming_distances(codes[:0], queries).shape == (3, 0)


def test_query_tables_are_float32_and_ascend_from_zero(codec, vectors):
    made = codec.query_tables(vectors, "hamming")
    assert (made.tables.shape, made.tables.dtype) == ((30, BITS // 8, 256), np.float32)
    assert (made.tables.min(), made.tables.max(), made.descending) == (0, 8, False)
    np.testing.assert_array_equal(made.offsets, np.zeros(30, np.float32), strict=True)


def test_a_query_has_the_bits_of_an_item(codec, vectors):
    np.testing.assert_array_equal(codec.query_tables(vectors).bits, codec.encode_items(vectors), strict=True)


def test_sizes_are_read_off_the_arrays(codec):
    assert (codec.n_codebooks, codec.n_codewords, codec.n_inputs) == (3, 256, P)
    assert replace(codec, feature_map=None).n_inputs == D
    assert replace(codec, feature_map=None, projection=None).n_inputs == BITS
    assert codec.rankings == ("hamming",)
    assert codec.nbytes == 4 * (D * BITS + BITS + D * P) + 8  # the bandwidth is a float64
    with pytest.raises(FrozenInstanceError):
        codec.thresholds = None


def test_no_rows_are_encoded_to_no_codes(codec):
    assert codec.encode_items(np.zeros((0, P))).shape == (0, 3)
    assert codec.query_tables(np.zeros((0, P))).tables.shape == (0, 3, 256)
    assert codec.decode(np.zeros((0, 3), np.uint8)).shape == (0, BITS)


def test_codes_do_not_depend_on_the_number_of_threads(codec, rng):
    X = rng.normal(size=(2 * BLOCK_ROWS + 10, P)).astype(np.float32)
    np.testing.assert_array_equal(codec.encode_items(X, n_jobs=1), codec.encode_items(X, n_jobs=2))


@pytest.mark.parametrize("without", [{}, {"feature_map": None}, {"feature_map": None, "projection": None}])
def test_a_saved_codec_comes_back(codec, rng, tmp_path, without):
    codec = replace(codec, **without)
    codec.save(tmp_path / "codec", kind="hash", settings={"note": [1, 2]})
    loaded, settings = load_codec_of(tmp_path / "codec", "hash")
    assert settings == {"note": [1, 2]}
    X = rng.normal(size=(9, codec.n_inputs))
    np.testing.assert_array_equal(loaded.encode_items(X), codec.encode_items(X))
    np.testing.assert_array_equal(loaded.thresholds, codec.thresholds, strict=True)


def test_a_file_of_format_version_1_is_read_and_written_unchanged(tmp_path):
    """The file was written by the first version of the format and must never be replaced."""
    path = Path(__file__).parent / "files" / "binary-1.safetensors"
    codec = load_codec(path)
    assert (codec.projection.shape, codec.feature_map.bandwidth) == ((6, 16), 1.5)
    codes = codec.encode_items(np.linspace(-1, 1, 15).reshape(5, 3))
    assert codes.tolist() == [[203, 50], [203, 50], [203, 34], [203, 34], [203, 50]]
    codec.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_labels_are_refused(codec, vectors):
    with pytest.raises(InputError, match="without y"):
        codec.encode_items(vectors, [1] * 30)


def test_other_rankings_are_refused(codec, vectors):
    with pytest.raises(InputError, match="ranking must be 'hamming', got 'euclidean'"):
        codec.query_tables(vectors, "euclidean")


def test_codes_of_another_width_are_refused(codec):
    with pytest.raises(InputError, match=r"shape \(n, 3\)"):
        codec.decode(np.zeros((4, 2), np.uint8))


@pytest.mark.parametrize(
    ("projection", "thresholds", "message"),
    [
        (None, np.zeros(12, np.float32), "multiple of 8 from 8 to 512, got 12"),
        (None, np.zeros(0, np.float32), "got 0"),
        (None, np.zeros(520, np.float32), "got 520"),
        (
            None,
            np.zeros((2, 8), np.float32),
            r"thresholds must be float32 of shape \(bits,\), got .* \(2, 8\)",
        ),
        (None, np.zeros(8), "thresholds must be float32 .* got float64"),
        (np.zeros((5, 16), np.float32), np.zeros(8, np.float32), r"projection .* \(d, 8\), got .* \(5, 16\)"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(projection, thresholds, message):
    with pytest.raises(InputError, match=message):
        BinaryCodec(projection, thresholds)
