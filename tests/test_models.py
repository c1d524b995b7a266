import numpy as np
import pytest

from supquant import ProductQuantizer, PublishedQuantizer, load_model, quantizers
from supquant.errors import FileFormatError
from supquant_lab import hashing
from supquant_lab.hashing import ClassifierBits, ClassifierLabels
from supquant_lab.hashing.binary_codec import BinaryCodec


@pytest.mark.parametrize(
    "estimator",
    [
        ProductQuantizer(2, n_codewords=4),
        PublishedQuantizer(2, n_codewords=4, features=None, max_iter=1),
        ClassifierBits(8, features=None),
        ClassifierLabels(features=None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_model_comes_back_as_what_it_was(estimator, clusters, tmp_path):
    X, y = clusters
    estimator.fit(X, y).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(estimator)
    np.testing.assert_array_equal(loaded.encode(X), estimator.encode(X))


def test_no_two_estimators_share_a_kind_of_file():
    classes = [getattr(package, name) for package in (quantizers, hashing) for name in package.__all__]
    kinds = [each._file_kind for each in classes if hasattr(each, "_file_kind")]
    assert len(kinds) == len(set(kinds)) == len(classes) - 1  # all but the base of the hashing methods


def test_other_files_are_refused(tmp_path):
    BinaryCodec(None, np.zeros(8, dtype=np.float32)).save(tmp_path / "codec")
    with pytest.raises(FileFormatError, match="codec: holds a 'codec', which is no model"):
        load_model(tmp_path / "codec")
    (tmp_path / "text").write_text("no model at all")
    with pytest.raises(FileFormatError, match="text: "):
        load_model(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")
