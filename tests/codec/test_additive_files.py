"""Files of additive codecs."""

import errno
from dataclasses import fields, replace

import numpy as np
import pytest

from supquant import AdditiveCodec, storage
from supquant.codec.gaussian_map import GaussianMap
from supquant.codec.registry import load_codec, load_codec_of
from supquant.errors import FileFormatError, InputError
from supquant.inputs.labels import read_labels

ADDITIVE = {"type": "additive", "feature_map": None, "classes": None}
"""What a file says of an additive codec without features and labels."""


def assert_same_codec(found, wanted):
    for field in fields(AdditiveCodec):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(other, GaussianMap):
            np.testing.assert_array_equal(one.anchors, other.anchors, strict=True)
            assert one.bandwidth == other.bandwidth
        elif isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, strict=True)
        else:
            assert one == other
            assert type(one) is type(other)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 5, 900]),
        np.array([3, 5, 200], dtype=np.uint8),
        np.array(["bird", "señal", "犬"]),
        np.array([False, True]),
        np.array([0.0, 1.0, 2.0]),
        np.array([1, "one"], dtype=object),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_class_labels_of_a_codec_survive_a_file(codec, vectors, tmp_path, classes):
    L = len(classes)
    codec = replace(codec, classes=classes, classifier=codec.classifier[:, :L])
    codec.save(tmp_path / "codec")
    loaded, settings = load_codec_of(tmp_path / "codec", "codec")
    assert settings == {}
    assert_same_codec(loaded, codec)
    labels = read_labels(classes[[1] * 30], classes=loaded.classes)
    np.testing.assert_array_equal(loaded.encode(vectors, labels), codec.encode(vectors, labels))
    np.testing.assert_array_equal(loaded.tables(vectors), codec.tables(vectors))


@pytest.mark.parametrize(
    "without",
    [
        {"feature_map": None},
        {"feature_map": None, "projection": None},
        {"classifier": None, "classes": None},
        {"multilabel": True, "classes": np.arange(3)},
        {"seeds": np.array([[0, 5], [3, 1]], dtype=np.uint8)},
        {"independent": True},
        {"scaling": np.ones((2, 3), np.float32), "curve": np.float32([[0, 2], [0.1, 0.9]])},
    ],
    ids=" ".join,
)
def test_every_kind_of_codec_survives_a_file(codec, tmp_path, without):
    codec = replace(codec, **without)
    codec.save(tmp_path / "codec", settings={"note": [1, 2]})
    loaded, settings = load_codec_of(tmp_path / "codec", "codec")
    assert settings == {"note": [1, 2]}
    assert_same_codec(loaded, codec)


def test_class_labels_that_a_file_cannot_hold_are_refused_and_nothing_is_written(codec, tmp_path):
    classes = np.empty(2, dtype=object)
    classes[:] = [(1, 2), (3, 4)]
    with pytest.raises(InputError, match="strings or numbers can be saved"):
        replace(codec, classes=classes).save(tmp_path / "codec")
    assert list(tmp_path.iterdir()) == []


def test_a_codec_of_another_kind_is_refused(codec, tmp_path):
    codec.save(tmp_path / "codec", kind="index")
    with pytest.raises(FileFormatError, match="holds a 'index', expected a 'codec'"):
        load_codec(tmp_path / "codec")


def test_a_truncated_altered_or_foreign_file_is_refused(codec, tmp_path):
    path = tmp_path / "codec"
    codec.save(path)
    content = path.read_bytes()
    altered = bytearray(content)
    altered[-10] ^= 4
    for bad in (content[:-1], content[: len(content) // 2], bytes(altered), b"", b"{}" * 99):
        path.write_bytes(bad)
        with pytest.raises(FileFormatError, match=str(path)):
            load_codec(path)
    with pytest.raises(FileNotFoundError):
        load_codec(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"codec": {}},
        {"codec": {"feature_map": None, "classes": None}},
        {"codec": ADDITIVE | {"feature_map": "telescope"}},
        {"codec": ADDITIVE | {"colour": "red"}},
        {"codec": ADDITIVE | {"classes": {"dtype": "zebra", "values": []}}},
        {"codec": []},
        {"codec": 3},
        {"codec": ADDITIVE | {"feature_map": "anchor-kernel"}},
        {"codec": ADDITIVE | {"type": "binary"}},
    ],
    ids=str,
)
def test_a_file_that_holds_no_codec_of_this_version_is_refused(codec, tmp_path, settings):
    path = tmp_path / "file"
    storage.pack_arrays("codec", {"codebooks": np.zeros((2, 3, 4), np.float32)}, settings).write(path)
    with pytest.raises(FileFormatError, match=f"{path}: holds no codec"):
        load_codec(path)


def test_a_full_disk_leaves_the_old_file(codec, vectors, tmp_path, monkeypatch):
    path = tmp_path / "codec"
    codec.save(path)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="nothing was changed: No space left on device"):
        replace(codec, constant=9.0).save(path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]
    assert_same_codec(load_codec(path), codec)


def test_arrays_of_the_wrong_shape_in_a_file_are_refused(tmp_path):
    path = tmp_path / "file"
    storage.pack_arrays("codec", {"codebooks": np.zeros((3, 4), np.float32)}, {"codec": ADDITIVE}).write(path)
    with pytest.raises(FileFormatError, match=rf"{path}: holds no codec .* shape \(M, K, r\)"):
        load_codec(path)
