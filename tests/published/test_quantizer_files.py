"""Models survive files, and damaged files are refused."""

import errno

import numpy as np
import pytest

from supquant import AnchorKernel, ProductQuantizer, PublishedQuantizer
from supquant.errors import FileFormatError

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}


@pytest.mark.parametrize("features", [None, AnchorKernel(30)])
def test_a_saved_model_works_as_before(clusters, target, tmp_path, features):
    X = clusters[0]
    quantizer = PublishedQuantizer(2, **SMALL | {"features": features}).fit(X, target)
    quantizer.save(tmp_path / "model")
    loaded = PublishedQuantizer.load(tmp_path / "model")
    for missing in ("predict", "drop"):
        np.testing.assert_array_equal(
            loaded.encode(X, missing_labels=missing), quantizer.encode(X, missing_labels=missing)
        )
    np.testing.assert_array_equal(loaded.encode(X, target), quantizer.encode(X, target))
    np.testing.assert_array_equal(loaded.predict(X), quantizer.predict(X))
    np.testing.assert_array_equal(loaded.codec_.tables(X), quantizer.codec_.tables(X))
    assert loaded.objective_ == quantizer.objective_
    assert (loaded.n_iter_, loaded.n_features_in_) == (quantizer.n_iter_, 8)
    for name in ("n_codebooks", "n_codewords", "solver", "quantization_weight", "max_iter", "random_state"):
        assert loaded.get_params()[name] == quantizer.get_params()[name]


@pytest.mark.parametrize("classes", [[False, True], [10, 20], ["no", "yes"], [0.0, 1.0]], ids=str)
def test_class_labels_survive_saving(clusters, tmp_path, classes):
    X, y = clusters
    y = np.array(classes)[y % 2]
    quantizer = PublishedQuantizer(1, **SMALL).fit(X, y)
    quantizer.save(tmp_path / "model")
    loaded = PublishedQuantizer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.classes_, quantizer.classes_, strict=True)
    np.testing.assert_array_equal(loaded.predict(X), quantizer.predict(X), strict=True)


def test_parameters_given_as_numpy_numbers_survive_saving(clusters, tmp_path):
    settings = SMALL | {"quantization_weight": np.float64(0.5), "n_codewords": np.int64(8)}
    PublishedQuantizer(np.int64(2), **settings).fit(*clusters).save(tmp_path / "model")
    loaded = PublishedQuantizer.load(tmp_path / "model")
    assert (loaded.n_codebooks, loaded.n_codewords, loaded.quantization_weight) == (2, 8, 0.5)


def test_a_truncated_altered_or_foreign_file_is_refused(fitted, clusters, tmp_path):
    path = tmp_path / "model"
    fitted.save(path)
    content = path.read_bytes()
    altered = bytearray(content)
    altered[len(content) // 2] ^= 1
    for bad in (content[:-1], content[:100], bytes(altered), b"", b"PK\x03\x04 not ours"):
        path.write_bytes(bad)
        with pytest.raises(FileFormatError, match=str(path)):
            PublishedQuantizer.load(path)
    ProductQuantizer(2, n_codewords=8).fit(clusters[0]).save(path)
    with pytest.raises(
        FileFormatError, match="holds a 'product-quantizer', expected a 'published-quantizer'"
    ):
        PublishedQuantizer.load(path)
    fitted.codec_.save(path, kind="published-quantizer")
    with pytest.raises(FileFormatError, match="parameters"):
        PublishedQuantizer.load(path)
    fitted.codec_.save(path, kind="published-quantizer", settings={"parameters": {}})
    with pytest.raises(FileFormatError, match=str(path)):
        PublishedQuantizer.load(path)
    with pytest.raises(FileNotFoundError):
        PublishedQuantizer.load(tmp_path / "nowhere")


def test_a_full_disk_leaves_the_old_file(fitted, clusters, tmp_path, monkeypatch):
    path = tmp_path / "model"
    fitted.save(path)
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="nothing was changed: No space left on device") as raised:
        PublishedQuantizer(1, **SMALL).fit(*clusters).save(path)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
