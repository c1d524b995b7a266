"""The properties that an index relies on, for every type of codec."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from supquant import AdditiveCodec, ProductQuantizer, SupervisedQuantizer
from supquant.codec.gaussian_map import GaussianMap
from supquant.codec.interface import AnyCodec, QueryTables
from supquant.codec.queries import QUERY_ROWS
from supquant.codec.registry import FEATURE_MAPS, load_codec
from supquant.errors import FileFormatError
from supquant.storage import pack_arrays
from supquant_lab.hashing.binary_codec import BinaryCodec

P, H, BITS = 30, 70, 32


@pytest.fixture(params=["additive", "binary"])
def codec(request, rng):
    """A codec of vectors so wide that a BLAS divides its sums."""

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    features = GaussianMap(draw(H, P), 8.0)
    if request.param == "additive":
        return AdditiveCodec(draw(4, 64, 40), draw(H, 40), constant=0.5, feature_map=features)
    return BinaryCodec(draw(H, BITS), draw(BITS), features)


def test_scores_are_offsets_plus_or_minus_sums():
    sums = np.array([[1, 2], [3, 4]], dtype=np.float32)
    offsets = np.array([10, 20], dtype=np.float32)
    tables = np.zeros((2, 1, 4), dtype=np.float32)
    up = QueryTables(tables, offsets)
    assert len(up) == 2
    assert up.scores(sums).tolist() == [[11, 12], [23, 24]]
    down = QueryTables(tables, offsets, descending=True).scores(sums)
    assert down.tolist() == [[9, 8], [17, 16]]
    assert down.dtype == np.float32


def test_every_codec_satisfies_the_protocol_of_an_index(codec):
    assert isinstance(codec, AnyCodec)
    assert not isinstance(SupervisedQuantizer(), AnyCodec)
    assert not isinstance(np.zeros(3), AnyCodec)


@pytest.mark.parametrize("n", [1, 2, QUERY_ROWS, QUERY_ROWS + 5])
def test_a_query_gives_the_same_bits_alone_and_in_a_batch(codec, rng, n):
    Q = rng.normal(size=(n, P)).astype(np.float32)
    whole = codec.query_tables(Q)
    for row in {0, 1, n // 2, n - 2, n - 1} & set(range(n)):
        alone = codec.query_tables(Q[row : row + 1])
        np.testing.assert_array_equal(alone.tables[0], whole.tables[row], strict=True)
        np.testing.assert_array_equal(alone.offsets[0], whole.offsets[row], strict=True)
        if whole.bits is not None:
            np.testing.assert_array_equal(alone.bits[0], whole.bits[row], strict=True)


def test_tables_of_queries_do_not_depend_on_the_number_of_threads(codec, rng):
    Q = rng.normal(size=(5 * QUERY_ROWS + 3, P))
    for n_jobs in (2, 3, None):
        np.testing.assert_array_equal(
            codec.query_tables(Q, n_jobs=n_jobs).tables, codec.query_tables(Q, n_jobs=1).tables
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8])
def test_queries_of_any_dtype_are_read_as_float32(codec, rng, dtype):
    Q = (10 * rng.random(size=(4, P))).astype(dtype)
    np.testing.assert_array_equal(
        codec.query_tables(Q).tables, codec.query_tables(Q.astype(np.float32)).tables
    )


def test_load_codec_reads_what_save_wrote(codec, rng, tmp_path):
    path = tmp_path / "codec"
    codec.save(path)
    loaded = load_codec(path)
    assert type(loaded) is type(codec)
    assert loaded.nbytes == codec.nbytes
    Q = rng.normal(size=(6, P))
    np.testing.assert_array_equal(loaded.encode_items(Q), codec.encode_items(Q))
    np.testing.assert_array_equal(loaded.query_tables(Q).tables, codec.query_tables(Q).tables)


def test_equal_codecs_have_equal_digests_and_others_do_not(codec, tmp_path):
    codec.save(tmp_path / "codec")
    assert load_codec(tmp_path / "codec").pack().digest == codec.pack().digest
    assert replace(codec, feature_map=None).pack().digest != codec.pack().digest


def test_a_model_is_no_codec_file(clusters, tmp_path):
    path = tmp_path / "model"
    ProductQuantizer(2, n_codewords=4, random_state=0).fit(clusters[0]).save(path)
    with pytest.raises(FileFormatError, match=f"{path}: holds a 'product-quantizer', expected a 'codec'"):
        load_codec(path)


@pytest.mark.parametrize(
    "own", [None, 3, [], {"type": "telescope"}, {"type": []}, {"type": None}, {}], ids=str
)
def test_a_file_without_a_known_codec_is_refused(tmp_path, own):
    path = tmp_path / "file"
    pack_arrays(
        "codec", {"thresholds": np.zeros(8, np.float32)}, {} if own is None else {"codec": own}
    ).write(path)
    with pytest.raises(FileFormatError, match=f"{path}: holds no codec of this version"):
        load_codec(path)


def test_a_damaged_file_is_refused(codec, tmp_path):
    path = tmp_path / "codec"
    codec.save(path)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"{path}: its arrays were altered"):
        load_codec(path)
    with pytest.raises(FileNotFoundError):
        load_codec(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", FEATURE_MAPS)
def test_registered_feature_maps_have_the_kind_they_are_registered_for(kind):
    module, name = FEATURE_MAPS[kind].split(":")
    assert getattr(import_module(module), name).kind == kind
