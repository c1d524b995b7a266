"""A map keeps near items together, and is there without the extra that lays it out."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from supquant import ProductQuantizer
from supquant.serve import mapping


@pytest.fixture(scope="module")
def many():
    """Codes of 12 classes around the corners of a cube in 12 dimensions, which no plane shows apart, with their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 12
    X = (np.eye(12)[y] + rng.normal(scale=0.08, size=(600, 12))).astype(np.float32)
    model = ProductQuantizer(6, n_codewords=32, random_state=0).fit(X)
    return model.codec_, model.encode(X), y


def neighbours_with_the_same_label(places, y):
    near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(places, return_distance=False)[:, 1:]
    return float((y[near] == y[:, None]).mean())


def test_a_layout_of_the_graph_shows_classes_apart_that_a_linear_map_heaps(many):
    pytest.importorskip("openTSNE")
    codec, codes, y = many
    told = []
    places = mapping.layout(codec, codes, 1, told.append)
    assert places.min() == 0
    assert places.max() == 1
    assert neighbours_with_the_same_label(places, y) > 0.95
    assert neighbours_with_the_same_label(mapping.two_dimensions(codec.decode(codes)), y) < 0.8
    assert told == sorted(told)
    assert told[-1] == 1
    assert np.array_equal(places, mapping.layout(codec, codes, 1))


def test_without_the_extra_the_map_is_linear(many, monkeypatch):
    codec, codes, _ = many
    monkeypatch.setattr(mapping, "lays_out", lambda: False)
    places = mapping.layout(codec, codes)
    linear = mapping.two_dimensions(codec.decode(codes))
    for side in (0, 1):
        assert np.corrcoef(places[:, side], linear[:, side])[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_few_items_have_places_too(many, n):
    codec, codes, _ = many
    places = mapping.layout(codec, codes[:n])
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
