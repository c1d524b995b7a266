"""Models whose digests are right and whose content makes no sense: one error when they are read, or a model that works."""

import copy
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from supquant import AnchorKernel, PublishedQuantizer, SupervisedQuantizer, load_model
from supquant.codec.registry import load_codec, plugins
from supquant.errors import FileFormatError
from supquant.models import METHODS, _loaded
from supquant.storage import load_arrays, pack_arrays, read_kind
from supquant_lab.hashing.label_codec import LabelCodec

ABSURD = [None, True, -1, 0, 10**400, 1.5, "", "x", "<U80000000", [], {}, [[]], [None], {"dtype": "V8"}]
"""Values of which most are wrong in any place."""

SMALL = {
    "n_codebooks": 2,
    "n_codewords": 4,
    "n_bits": 8,
    "max_iter": 1,
    "n_epochs": 1,
    "n_trees": 2,
    "n_landmarks": 5,
    "n_components": 4,
    "max_rows": 100,
    "random_state": 0,
    "n_jobs": 1,
}
"""Parameters that make a fit short, of those estimators that have them."""


def small(kind, **parameters):
    known = kind().get_params()
    return kind(**{name: value for name, value in {**SMALL, **parameters}.items() if name in known})


ESTIMATORS = [
    *map(_loaded, METHODS.values()),
    *(each.load() for each in plugins("supquant.models").values()),
]
CASES = {each.__name__: small(each) for each in ESTIMATORS} | {
    "published features": small(PublishedQuantizer, features=AnchorKernel(6)),
    "no features": small(PublishedQuantizer, features=None),
}


FOUND = Path(__file__).parent / "fixtures" / "model-found"
"""A model with clusterings. A fit that finds classes needs more rows than those of the other cases."""


@pytest.fixture(scope="module", params=[*CASES, "found classes", "far from zero"])
def model(request, clusters, tmp_path_factory):
    """A file, its kind, its arrays and its settings."""
    X, y = clusters
    path = tmp_path_factory.mktemp("forged") / "model"
    if request.param == "found classes":
        shutil.copy(FOUND, path)
    elif request.param == "far from zero":
        small(SupervisedQuantizer).fit(X[:120] + 1e6, y[:120]).save(path)
    else:
        CASES[request.param].fit(X[:120], y[:120]).save(path)
    kind = read_kind(path)
    return path, kind, *load_arrays(path, kind)


def forge(path, kind, arrays, settings):
    """Write a file whose digests are right."""
    forged = path.with_name("other")
    pack_arrays(kind, arrays, settings).write(forged)
    return forged


def read(path):
    """Return the model in a file, and None; or None, and the text of the `FileFormatError`."""
    try:
        return load_model(path), None
    except FileFormatError as error:
        return None, str(error)


def refused_or_works(path, what):
    """Return whether a file is refused. If it is not, what the model does must not fail."""
    loaded, refusal = read(path)
    if refusal is not None:
        assert refusal.startswith(f"{path}: "), what
        assert len(refusal) < 1000, what
        return True
    try:
        X = np.ones((2, loaded.n_features_in_))
        loaded.codec_.query_tables(X)
        loaded.codec_.decode(loaded.encode(X))
    except Exception as error:
        raise AssertionError(f"{what}: was read, and then {error!r}") from error
    return False


def places(value, path=()):
    """Return the paths to all parts of a JSON value, at most two for the entries of a list."""
    yield path
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, part in inner:
        yield from places(part, (*path, key))


def with_value(value, path, new):
    forged = copy.deepcopy(value)
    inner = forged
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return forged


def test_the_tests_can_forge_files(model):
    assert not refused_or_works(forge(*model), "an honest copy")


def test_settings_of_another_type_are_refused_or_harmless(model):
    path, kind, arrays, settings = model
    rng = np.random.default_rng(0)
    refused = 0
    for place in places(settings):
        for i in rng.permutation(len(ABSURD))[:5] if place else ():
            forged = forge(path, kind, arrays, with_value(settings, place, ABSURD[i]))
            refused += refused_or_works(forged, (place, ABSURD[i]))
    assert refused > 20


def test_settings_that_are_missing_are_refused(model):
    path, kind, arrays, settings = model
    for name in settings:
        less = {key: value for key, value in settings.items() if key != name}
        assert refused_or_works(forge(path, kind, arrays, less), name)
    for more in ({"parameters": settings["parameters"] | {"unknown": 1}}, {"codec": {"type": "unknown"}}):
        assert refused_or_works(forge(path, kind, arrays, settings | more), more)


SHAPES = {
    "another dtype": lambda array: array.astype(np.float64 if array.dtype != np.float64 else np.float16),
    "whole numbers": lambda array: array.astype(np.int16),
    "one row less": lambda array: array[:-1],
    "one row more": lambda array: np.concatenate([array, array[-1:]]),
    "no rows": lambda array: array[:0],
    "one column less": lambda array: array[..., :-1],
    "one column more": lambda array: np.concatenate([array, array[..., -1:]], axis=-1),
    "no columns": lambda array: array[..., :0],
    "one axis more": lambda array: array[None],
    "one axis": lambda array: array.reshape(-1),
    "ones": lambda array: np.full_like(array, 255 if array.dtype == np.uint8 else 1),
}


def test_arrays_of_another_dtype_or_shape_are_refused_or_harmless(model):
    path, kind, arrays, settings = model
    refused = 0
    for name, array in arrays.items():
        less = {other: value for other, value in arrays.items() if other != name}
        refused_or_works(forge(path, kind, less, settings), name)
        for how, change in SHAPES.items():
            with np.errstate(all="ignore"):
                changed = change(array)
            forged = forge(path, kind, arrays | {name: changed}, settings)
            refused += refused_or_works(forged, (name, how))
    assert refused > 2 * len(arrays)


def test_a_dtype_of_long_strings_takes_no_memory(tmp_path, clusters):
    X, y = clusters
    small(SupervisedQuantizer).fit(X[:120], np.array(["a", "b", "c"])[y[:120]]).save(tmp_path / "model")
    kind = read_kind(tmp_path / "model")
    arrays, settings = load_arrays(tmp_path / "model", kind)
    settings["codec"]["classes"]["dtype"] = "<U20000000"
    forged = forge(tmp_path / "model", kind, arrays, settings)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="too wide"):
            load_model(forged)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20


def test_labels_of_very_different_lengths_are_saved_as_objects(tmp_path):
    few = LabelCodec(np.eye(3, dtype=np.float32), np.array(["a", "b", "c" * 100_000]))
    many = LabelCodec(
        np.zeros((1, 200), dtype=np.float32), np.array([f"{i:x>{1 + 99_999 * (i == 7)}}" for i in range(200)])
    )
    for each in (few, many):
        each.save(tmp_path / "codec")
        loaded = load_codec(tmp_path / "codec")
        assert loaded.classes.tolist() == each.classes.tolist()
    assert loaded.classes.dtype == object


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["projection", "codebooks", "classifier"])
def test_arrays_with_nan_or_infinity_are_refused(tmp_path, clusters, name, value):
    X, y = clusters
    CASES["published features"].fit(X[:120], y[:120]).save(tmp_path / "model")
    kind = read_kind(tmp_path / "model")
    arrays, settings = load_arrays(tmp_path / "model", kind)
    changed = arrays[name].copy()
    changed.flat[1] = value
    forged = forge(tmp_path / "model", kind, arrays | {name: changed}, settings)
    with pytest.raises(FileFormatError, match=f"{name} holds NaN or infinity"):
        load_model(forged)
