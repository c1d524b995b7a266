import numpy as np
import pytest

from supquant import AdditiveCodec, load_model
from supquant.codec.registry import plugins
from supquant.errors import FileFormatError, InputError
from supquant.models import METHODS, make_estimator, method_names


@pytest.mark.parametrize("name", method_names())
def test_a_model_of_any_method_is_loaded_from_its_file(name, clusters, tmp_path):
    X, y = clusters
    made = make_estimator(name, 16)
    small = {
        "n_codewords": 4,
        "max_iter": 2,
        "n_epochs": 1,
        "n_trees": 2,
        "features": None,
        "random_state": 0,
    }
    if name == "sq":
        del small["features"]
    made.set_params(**{key: value for key, value in small.items() if key in made.get_params(deep=False)})
    made.fit(X, y).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(made)
    np.testing.assert_array_equal(loaded.encode(X), made.encode(X))


def test_no_two_estimators_share_a_kind_of_file():
    own = [type(make_estimator(name, 8)) for name in METHODS]
    kinds = [each._file_kind for each in own]
    added = plugins("supquant.models")
    assert len({*kinds, *added}) == len(kinds) + len(added)
    assert all(entry.load()._file_kind == kind for kind, entry in added.items())


def test_unknown_parameters_are_refused_with_the_method_that_has_them():
    with pytest.raises(
        InputError, match="method pq has no parameter 'tol'; it is one of the methods sq, published"
    ):
        make_estimator("pq", 8, {"tol": 0.0})
    with pytest.raises(
        InputError, match="method pq has no parameter 'nothing'; it has max_iter, n_codebooks"
    ):
        make_estimator("pq", 8, {"nothing": 0.0})


def test_other_files_are_refused(tmp_path):
    AdditiveCodec(np.zeros((1, 2, 3), dtype=np.float32)).save(tmp_path / "codec")
    with pytest.raises(FileFormatError, match="codec: holds a 'codec', which is not a model"):
        load_model(tmp_path / "codec")
    (tmp_path / "text").write_text("not a model at all")
    with pytest.raises(FileFormatError, match="text: "):
        load_model(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")
