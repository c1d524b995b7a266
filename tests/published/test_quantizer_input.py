"""What cannot be used is refused, and changes nothing."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from supquant import AnchorKernel, PublishedQuantizer
from supquant.errors import InputError

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}


def with_value(value):
    def change(X, y):
        X = X.copy()
        X[7, 3] = value
        return X, y

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value(np.nan), r"Input X contains NaN \(first in row 7\)"),
        (with_value(np.inf), r"Input X contains infinity .*\(first in row 7\)"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:7], y[:7]), "n_samples=7 should be >= n_codewords=8: give more rows, or ask for fewer"),
        (lambda X, y: (X[0], y), "Reshape your data"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:299]), "each of the 300 rows of X, got 299"),
        (lambda X, y: (X, np.zeros(300)), "single class"),
        (lambda X, y: (X, np.eye(3, dtype=int)[y * 0]), "single class"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, np.full(300, np.nan)), "y has no labelled row: all 300 labels are missing"),
        (lambda X, y: (scipy.sparse.csr_array(X), y), "(?i)sparse"),
        (lambda X, y: (X.astype(complex), y), "(?i)complex"),
    ],
    ids=[
        "NaN", "infinity", "no rows", "few rows", "1d", "no columns", "short y", "one class", "one label",
        "continuous", "no y", "NaN y", "sparse", "complex",
    ],
)  # fmt: skip
def test_bad_data_are_refused_and_change_nothing(clusters, change, message):
    quantizer = PublishedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))
    with pytest.raises(InputError, match=message):
        quantizer.fit(*change(*clusters))
    assert vars(quantizer) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantization_weight": 0}, "quantization_weight must be a finite number above 0, got 0"),
        ({"quantization_weight": -1e-3}, "quantization_weight"),
        ({"quantization_weight": np.nan}, "quantization_weight"),
        ({"constraint_weight": -0.1}, r"constraint_weight must be a finite number, 0 or above, got -0\.1"),
        ({"classifier_ridge": 0}, "classifier_ridge must be a finite number above 0, got 0"),
        ({"solver": "newton"}, "solver must be 'joint' or 'alternating', got 'newton'"),
        ({"features": "gist"}, "features must be 'auto', an AnchorKernel or None, got 'gist'"),
        ({"features": AnchorKernel}, "features must be"),
        ({"features": AnchorKernel(0)}, "n_anchors must be an integer of at least 1, got 0"),
        ({"n_codebooks": 0}, "n_codebooks must be an integer from 1 to 64, got 0"),
        ({"n_codebooks": 2.0}, "n_codebooks"),
        ({"n_codewords": 257}, "n_codewords must be an integer from 2 to 256, got 257"),
        ({"n_codewords": 1}, "n_codewords"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_turns": 0}, "max_turns"),
        ({"tol": -1}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "seed"}, "random_state"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    quantizer = PublishedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(*clusters)
    assert vars(quantizer) == before | settings


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        (np.full((2, 8), np.nan), None, {}, "NaN"),
        (np.full((2, 8), np.inf), None, {}, "infinity"),
        (np.zeros((2, 5)), None, {}, r"X has 5 features, but .* expecting 8"),
        (np.zeros((2, 5)), [0, 1], {}, r"X has 5 features, but .* expecting 8"),
        (np.zeros((2, 8)), [0, 1, 1], {}, "each of the 2 rows of X, got 3"),
        (np.zeros((2, 8)), [0, 9], {}, "y holds 1 unknown label: 9; the 3 known ones are 0, 1, 2"),
        (np.zeros((2, 8)), ["0", "1"], {}, "2 unknown labels"),
        (np.zeros((2, 8)), [[1, 0, 0], [0, 1, 1]], {}, "1d array of class labels as in fit"),
        (np.zeros((2, 8)), None, {"missing_labels": "ignore"}, "missing_labels must be 'predict' or 'drop'"),
        (np.zeros((2, 8)), [0, 1], {"missing_labels": None}, "missing_labels must be 'predict' or 'drop'"),
    ],
)
def test_what_cannot_be_encoded_is_refused(fitted, X, y, settings, message):
    with pytest.raises(InputError, match=message):
        fitted.encode(X, y, **settings)


def test_labels_of_another_form_are_refused_by_a_model_of_several_labels(clusters, indicator):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL).fit(X, indicator)
    with pytest.raises(InputError, match="an indicator matrix as in fit"):
        quantizer.encode(X, y)
    with pytest.raises(InputError, match="4 columns, one per label, got 3"):
        quantizer.encode(X, indicator[:, :3])


def test_an_unknown_ranking_is_refused(fitted, clusters):
    with pytest.raises(InputError, match=r"ranking must be .*got 'manhattan'"):
        fitted.codec_.tables(clusters[0], "manhattan")


@pytest.mark.parametrize("codes", [np.zeros((3, 3), np.uint8), np.full((3, 2), 8), np.zeros((3, 2)), "code"])
def test_bad_codes_are_refused(fitted, codes):
    with pytest.raises(InputError, match="codes must"):
        fitted.decode(codes)


def test_use_before_fit_is_refused(clusters, tmp_path):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL)
    ways = [
        quantizer.encode,
        quantizer.transform,
        quantizer.predict,
        quantizer.decision_function,
    ]
    for way in ways:
        with pytest.raises(NotFittedError, match="not fitted"):
            way(X)
    with pytest.raises(NotFittedError):
        quantizer.encode(X, y)
    with pytest.raises(NotFittedError):
        quantizer.decode(np.zeros((1, 2), np.uint8))
    with pytest.raises(NotFittedError):
        quantizer.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    assert not hasattr(quantizer, "classes_")
