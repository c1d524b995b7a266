import threading

import numpy as np
import pytest
from everywhere import everywhere
from sklearn.exceptions import NotFittedError

from supquant import (
    AdditiveCodec,
    CodeIndex,
    FileFormatError,
    InputError,
    ProductQuantizer,
    PublishedQuantizer,
    kernels,
)
from supquant.index import snapshot as snapshot_module
from supquant.index.segments import Segment


@pytest.fixture(scope="module")
def quantizer(clusters):
    X, y = clusters
    return PublishedQuantizer(2, n_codewords=8, features=None, max_iter=3, random_state=0).fit(X, y)


# what an index is made from ----------------------------------------------------------------------------------------------


def test_an_index_takes_the_codec_of_an_estimator_and_keeps_it(clusters):
    X, _ = clusters
    quantizer = ProductQuantizer(2, n_codewords=8, random_state=0).fit(X)
    first = quantizer.codec_
    index = CodeIndex(quantizer).add(X)
    quantizer.set_params(n_codebooks=4).fit(X)
    assert index.codec is first
    assert np.array_equal(index.codes(range(5)), first.encode_items(X[:5]))


def test_an_estimator_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        CodeIndex(ProductQuantizer(2))


@pytest.mark.parametrize("codec", [None, 3, np.zeros((2, 2)), "codec"])
def test_what_is_no_codec_is_refused(codec):
    with pytest.raises(InputError, match="expected a codec or a fitted quantizer, got a"):
        CodeIndex(codec)


# adding, removing, updating ----------------------------------------------------------------------------------------------


def test_items_are_encoded_with_their_labels_where_these_are_given(quantizer, clusters):
    X, y = clusters
    codec = quantizer.codec_
    index = CodeIndex(quantizer).add(X, y).add(X)
    assert np.array_equal(index.codes(range(300)), codec.encode_items(X, y))
    assert np.array_equal(index.codes(range(300, 600)), codec.encode_items(X))
    with pytest.raises(InputError):
        index.add(X, y[:-1])
    with pytest.raises(InputError):
        CodeIndex(ProductQuantizer(2, n_codewords=8, random_state=0).fit(X)).add(X, y)
    assert len(index) == 600


def test_numbers_are_given_in_turn_and_never_again(index, codes, tmp_path):
    index.add_codes(codes[:5]).remove([3, 4]).compact()
    index.save(tmp_path / "index")
    for each in (index, CodeIndex.load(tmp_path / "index")):
        each.add_codes(codes[:2])
        assert each.ids.tolist() == [0, 1, 2, 5, 6]
        each.remove(each.ids)
        assert each.add_codes(codes[:1]).ids.tolist() == [7]


@pytest.mark.parametrize("ids", [range(100), range(100, 0, -1), [f"{i}" for i in range(100)]])
@everywhere
def test_removed_ids_are_unknown_and_may_be_added_again(index, codes, ids):
    index.add_codes(codes, ids=ids).remove(ids[:20])
    for action in (index.remove, index.codes, index.filter):
        with pytest.raises(InputError, match="not in the index"):
            action(ids[19:21])
    index.add_codes(codes[:5], ids=ids[5:10])
    assert index.ids.tolist() == [*ids[20:], *ids[5:10]]
    assert np.array_equal(index.codes([ids[5], ids[99]]), codes[[0, 99]])


@everywhere
def test_updated_rows_keep_their_ids_and_places(index, tied_codec, codes):
    names = [f"{i}" for i in range(100)]
    index.add_codes(codes, ids=names)
    index.update_codes(["7", "3"], codes[:2])
    assert index.ids.tolist() == names
    assert len(index) == 100
    assert np.array_equal(index.codes(["3", "7", "99"]), codes[[1, 0, 99]])
    numbered = CodeIndex(tied_codec).add_codes(codes).update_codes([7, 3], codes[:2])
    assert numbered.ids.tolist() == list(range(100))
    assert numbered.add_codes(codes[:1]).ids[-1] == 100


def test_update_encodes_as_add_does(quantizer, clusters):
    X, y = clusters
    index = CodeIndex(quantizer).add(X).update([1, 2], X[5:7], y[5:7])
    assert np.array_equal(index.codes([1, 2]), quantizer.codec_.encode_items(X[5:7], y[5:7]))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (None, [1], "numbers its rows itself"),
        ([1], None, "integers as ids: give ids"),
        ([1], ["a"], "integers as ids, got strings"),
        (["a"], [1], "strings as ids, got integers"),
        (["a"], None, "strings as ids: give ids"),
        ([1], [1], "in the index already: 1"),
        (["a"], ["a"], "in the index already: 'a'"),
        (None, [True], "got bool"),
    ],
)
@everywhere
def test_the_first_rows_fix_the_kind_of_ids(index, codes, first, second, message):
    index.add_codes(codes[:1], ids=first)
    with pytest.raises(InputError, match=message):
        index.add_codes(codes[:1], ids=second)
    with pytest.raises(InputError, match=message):
        index.add(np.zeros((1, 2)), ids=second)
    assert len(index) == 1


@pytest.mark.parametrize("many", [range(20, 30), [f"{i}" for i in range(20, 30)]])
def test_an_error_names_some_of_the_ids_and_changes_nothing(index, codes, many):
    kind = type(many[0])
    index.add_codes(codes, ids=[kind(i) for i in range(100)])
    before = index._snapshot
    unknown = [kind(i + 200) for i in range(5)]
    named = ", ".join(map(repr, unknown[:3])) + " and 2 more"
    for action in (index.remove, index.codes, index.reconstruct, index.filter):
        with pytest.raises(InputError, match=f"not in the index: {named}"):
            action([kind(0), *unknown])
    with pytest.raises(InputError, match=f"not in the index: {named}"):
        index.update_codes(unknown, codes[:5])
    with pytest.raises(InputError, match=f"more than once: {kind(3)!r}$"):
        index.remove([kind(3), kind(4), kind(3)])
    with pytest.raises(InputError, match="more than once"):
        index.update_codes([kind(3)] * 2, codes[:2])
    with pytest.raises(InputError, match="more than once"):
        index.add_codes(codes[:2], ids=[unknown[0]] * 2)
    with pytest.raises(InputError, match=r"already: .* and 7 more"):
        index.add_codes(codes[:11], ids=[*many, unknown[0]])
    assert index._snapshot is before


def test_unknown_ids_are_refused_before_the_work_of_encoding(index, codes, monkeypatch):
    index.add_codes(codes, ids=range(100))
    monkeypatch.setattr(AdditiveCodec, "encode_items", lambda *_, **__: pytest.fail("it was encoded"))
    with pytest.raises(InputError, match="not in the index"):
        index.update([1000], np.zeros((1, 2)))
    with pytest.raises(InputError, match="already"):
        index.add(np.zeros((1, 2)), ids=[5])


@pytest.mark.parametrize("ids", [[1], [1, 2, 3], []])
@everywhere
def test_there_is_one_id_for_every_row(index, codes, ids):
    with pytest.raises(InputError, match=f"got {len(ids)} ids for 2 rows"):
        index.add_codes(codes[:2], ids=ids)
    index.add_codes(codes, ids=range(100))
    with pytest.raises(InputError, match=f"got {len(ids)} ids for 2 rows"):
        index.update_codes(ids, codes[:2])


def test_nothing_added_removed_or_updated_changes_nothing(index, codes):
    index.add_codes(codes[:0]).add_codes(codes[:0], ids=[]).add(np.empty((0, 2))).remove([]).compact()
    assert index.info()["id_kind"] is None
    index.add_codes(codes, ids=["a" * i for i in range(100)])
    before = index._snapshot.parts
    index.remove([]).update_codes([], codes[:0]).add_codes(codes[:0], ids=[]).update(
        np.array([]), np.empty((0, 2))
    )
    assert index._snapshot.parts == before


@pytest.mark.parametrize(
    "bad",
    [np.zeros((2, 4), int), np.full((2, 3), 16), np.full((2, 3), -1), np.zeros((2, 3)), np.zeros(3, int)],
)
@everywhere
def test_codes_that_are_not_of_the_codec_are_refused(index, bad):
    with pytest.raises(InputError, match="codes must"):
        index.add_codes(bad)


def test_an_index_holds_a_limited_number_of_rows(index, codes, monkeypatch):
    monkeypatch.setattr(snapshot_module, "MAX_ROWS", 150)
    index.add_codes(codes)
    with pytest.raises(InputError, match="at most 150 rows, got 100 in addition to 100"):
        index.add_codes(codes)
    assert len(index.update_codes(range(60), codes[:60])) == 100
    assert len(index.add_codes(codes[:50])) == 150


def test_too_many_rows_are_refused_before_they_are_encoded(tied_codec):
    class Many:
        """Vectors of which nobody may read one."""

        shape = (2**32 - 63, tied_codec.n_inputs)
        ndim = 2
        dtype = np.dtype(np.float32)

        def __len__(self):
            return self.shape[0]

    with pytest.raises(InputError, match="at most 4294967232 rows, got 4294967233 in addition to 0"):
        CodeIndex(tied_codec).add(Many())


def test_rows_beyond_two_billion_are_found():
    n = 2**31 + 100
    blocks = np.zeros((-(-n // 64), 1, 64), dtype=np.uint8)  # the system keeps only what is written
    rows = [7, 2**31 - 1, 2**31, n - 1]
    for row in rows:
        blocks[row // 64, 0, row % 64] = 1
    index = CodeIndex(AdditiveCodec(np.array([[[0.0], [1.0]]], dtype=np.float32)))
    snapshot = index._snapshot.with_rows(Segment(blocks, n), None)
    index._content = index._content._replace(snapshot=snapshot)
    assert index.search(np.ones((1, 1), dtype=np.float32), 4)[1].tolist() == [rows]
    assert index.codes(rows).ravel().tolist() == [1] * 4


@everywhere
def test_methods_that_change_an_index_return_it(index, codes):
    assert index.add_codes(codes) is index
    assert index.remove([1]) is index
    assert index.update_codes([2], codes[:1]) is index
    assert index.compact() is index


# what it says of itself --------------------------------------------------------------------------------------------------


def test_an_index_describes_itself(tied_codec, draw_codes, codes):
    index = CodeIndex(tied_codec)
    index.add_codes(
        draw_codes(tied_codec, np.random.default_rng(13), 1000, distinct=5), ids=range(0, 2000, 2)
    )
    index.add_codes(codes, ids=range(1, 200, 2)).remove([0, 2])
    told = index.info()
    assert told.pop("segments") == [
        {"rows": 1000, "removed": 2, "grouped": True, "distinct_codes": 5, "sorted": False},
        {"rows": 100, "removed": 0, "grouped": False, "distinct_codes": None, "sorted": False},
    ]
    sizes = told.pop("bytes")
    assert sizes == {
        "codes": 64 * 3 + 4 * 6 + 4 * 1000 + 2 * 64 * 3,
        "ids": 8 * 1100,
        "removals": 8 * 16,
        "codec": tied_codec.nbytes,
    }
    assert index.nbytes == sum(sizes.values()) - sizes["codec"]
    assert told == {
        "rows": 1098,
        "removed": 2,
        "bytes_per_code": 3,
        "id_kind": "int64",
        "instruction_set": kernels.isa(),
    }
    assert repr(index) == "CodeIndex(1098 rows of 3 bytes)"


def test_compact_leaves_one_segment_without_removed_rows(index, codes, queries):
    index.add_codes(codes).add_codes(codes[:20]).remove(range(0, 110, 10))
    before = [*index.search(queries, 200), index.ids]
    index.compact()
    assert index.info()["segments"] == [
        {"rows": 109, "removed": 0, "grouped": False, "distinct_codes": None, "sorted": False}
    ]
    assert all(
        np.array_equal(a, b) for a, b in zip([*index.search(queries, 200), index.ids], before, strict=True)
    )
    settled = index._snapshot
    assert index.compact()._snapshot is settled


# files -------------------------------------------------------------------------------------------------------------------


def test_a_file_and_a_foreign_folder_are_not_replaced(index, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        index.save(file)
    with pytest.raises(InputError, match="holds 'file' and no index"):
        index.save(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text('{"name": "my web extension"}')
    with pytest.raises(InputError, match="not the manifest of an index"):
        index.save(other)
    assert [path.name for path in other.iterdir()] == ["manifest.json"]
    assert file.read_text() == "mine"


def test_what_holds_no_index_is_not_loaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="no index"):
        CodeIndex.load(tmp_path / "nowhere")
    with pytest.raises(FileFormatError, match="holds no index"):
        CodeIndex.load(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileFormatError, match="holds no index"):
        CodeIndex.load(tmp_path / "file")
    with pytest.raises(InputError, match="verify must be 'lazy' or 'full'"):
        CodeIndex.load(tmp_path, verify="never")


def test_damage_is_found_when_the_file_is_first_used(index, codes, tmp_path):
    index.add_codes(codes, ids=range(100, 0, -1)).remove([5]).save(tmp_path)
    for kind, uses in {
        "codes": [
            lambda each: each.search(np.zeros((1, 2))),
            lambda each: each.codes([1]),
            lambda each: each.compact(),
        ],
        "ids": [
            lambda each: each.ids,
            lambda each: each.remove([1]),
            lambda each: each.search(np.zeros((1, 2))),
        ],
        "live": [
            lambda each: each.ids,
            lambda each: each.remove([1]),
            lambda each: each.rank(np.zeros((1, 2))),
        ],
    }.items():
        (file,) = tmp_path.glob(f"{kind}-*")
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(FileFormatError, match=file.name):
            CodeIndex.load(tmp_path, verify="full")
        for use in uses:
            loaded = CodeIndex.load(tmp_path)
            assert len(loaded) == 99
            with pytest.raises(FileFormatError, match=file.name):
                use(loaded)
            with pytest.raises(FileFormatError, match=file.name):
                loaded.save(tmp_path / "elsewhere")
        file.write_bytes(whole)
    assert len(CodeIndex.load(tmp_path, verify="full").ids) == 99


def test_a_failed_save_of_a_new_index_leaves_no_folder(index, codes, tmp_path, monkeypatch):
    index.add_codes(codes)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("supquant.index.files.write_file_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        index.save(tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_failed_save_keeps_a_folder_that_was_there(index, codes, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("supquant.index.files.write_file_atomically", full)
    (tmp_path / "index").mkdir()
    with pytest.raises(OSError, match="No space left"):
        index.add_codes(codes).save(tmp_path / "index")
    assert list((tmp_path / "index").iterdir()) == []


def test_a_save_writes_again_what_is_not_as_it_was_left(index, codes, tmp_path):
    index.add_codes(codes, ids=range(100, 0, -1)).save(tmp_path)
    loaded = CodeIndex.load(tmp_path)
    before = {path: path.stat() for path in tmp_path.glob("*.safetensors")}
    loaded.save(tmp_path)
    index.save(tmp_path)
    assert {path: path.stat() for path in tmp_path.glob("*.safetensors")} == before
    (file,) = tmp_path.glob("codes-*")
    file.write_bytes(file.read_bytes()[:-1])
    index.save(tmp_path)
    (file,) = tmp_path.glob("ids-*")
    file.unlink()
    index.save(tmp_path)
    assert np.array_equal(CodeIndex.load(tmp_path, verify="full").codes(range(100, 0, -1)), codes)


# threads -----------------------------------------------------------------------------------------------------------------


@everywhere
def test_rows_added_and_removed_by_many_threads_are_all_there(index, codes):
    def work(number):
        for i in range(10):
            index.add_codes(codes[:5], ids=[1000 * number + 10 * i + j for j in range(5)])
            index.remove([1000 * number + 10 * i])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {1000 * number + 10 * i + j for number in range(4) for i in range(10) for j in range(1, 5)}
    assert set(index.ids.tolist()) == expected
    assert np.array_equal(index.codes(sorted(expected))[:4], codes[1:5])
