"""Forecasts are compared with the quality of retrieval."""

import numpy as np
import pytest

from supquant import ProductQuantizer, SupervisedQuantizer
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables, forecast
from supquant.inputs.labels import read_labels


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    return SupervisedQuantizer(2, n_codewords=32, max_iter=3, random_state=0).fit(X[:1200], y[:1200])


def test_a_forecast_is_close_to_the_quality_of_retrieval(fitted, digits):
    X, y = digits
    expected = forecast(
        SupervisedQuantizer(2, n_codewords=32, max_iter=3, random_state=0), X[:1200], y[:1200], random_state=1
    )
    labels = read_labels(y)
    rest = np.arange(1200, len(y))
    true = evaluate_tables(
        fitted.codec_.tables(X[rest]), fitted.training_codes_, labels.take(rest), labels.take(np.arange(1200))
    )
    assert expected.labelled == pytest.approx(true.map, abs=0.05)
    assert expected.unlabelled > 0.8
    assert (expected.n_queries, expected.n_unlabelled) == (120, 120)
    assert str(expected).startswith(f"MAP {expected.labelled:.3f} for items with labels")


def test_a_forecast_takes_any_estimator_and_does_not_fit_it(digits):
    X, y = digits[0][:300], digits[1][:300]
    estimator = ProductQuantizer(2, n_codewords=16, random_state=0)
    assert 0.2 < forecast(estimator, X, y).unlabelled < 1
    assert not hasattr(estimator, "codec_")


def test_a_forecast_of_several_labels(digits):
    X, y = digits[0][:400], digits[1][:400]
    several = np.stack([y % 2 == 0, y < 5, y > 4], axis=1).astype(int)
    expected = forecast(SupervisedQuantizer(2, n_codewords=16, max_iter=2, random_state=0), X, several)
    assert expected.labelled > 0.8


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="at least 20 rows"):
        forecast(SupervisedQuantizer(2), np.eye(10), np.arange(10) % 2)
