"""Positions: the metric in which classes lie close together, and the cosine that its products give."""

import numpy as np
import pytest

from supquant.inputs.labels import read_labels
from supquant.model.feature_map import unit_rows
from supquant.model.position import learn_metric, principal_directions, within_scatter


@pytest.fixture(scope="module")
def rows():
    """Vectors of six classes in eight dimensions, wide along the first two, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=400)
    X = 2 * rng.normal(size=(6, 8))[y] + rng.normal(size=(400, 8)) * ([3, 3] + 6 * [0.5])
    return X.astype(np.float32), read_labels(y)


@pytest.fixture(params=[np.inf, 1.0, 0.3])
def metric(rows, request):
    X, labels = rows
    directions = principal_directions(X, 1)
    return learn_metric(directions, X, within_scatter(directions(X), labels), request.param)


def test_the_mean_squared_length_of_positions_is_one(metric, rows):
    assert np.square(metric.placed(rows[0])).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)


def test_products_with_positions_are_cosines_less_a_constant_of_the_query(metric, rows):
    X, _ = rows
    units = unit_rows(X)
    products = (units @ metric.cosine) @ metric.placed(X).T
    differences = units @ units.T - products
    assert differences.std(axis=1).mean() < 0.03  # of the variance that the directions leave
    assert (units @ units.T).std(axis=1).mean() > 0.3


def test_directions_in_which_classes_are_wide_count_less_with_a_small_ridge(rows):
    X, labels = rows
    directions = principal_directions(X, 1)
    scatter = within_scatter(directions(X), labels)

    def wide(ridge):
        z = learn_metric(directions, X, scatter, ridge).placed(X)
        spread = within_scatter(z, labels)
        return np.linalg.eigvalsh(spread)[-1] / np.trace(spread)

    assert wide(0.1) < wide(1.0) < wide(np.inf)
