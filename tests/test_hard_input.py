"""Vectors that are hard for arithmetic: every estimator learns from them, or refuses them with one clear error.

Warnings are errors in all tests, so nothing here overflows or divides by zero unseen.
"""

import numpy as np
import pytest

from supquant import AnchorKernel, LabelKernel, PublishedQuantizer
from supquant.algebra import leading_eigenvectors, positive_factor, solve_positive
from supquant.errors import InputError
from supquant.inputs.validation import MAX_VALUE, MIN_VALUE, check_training_vectors
from supquant.models import make_estimator, method_names

QUICK = {
    "fasthash": {"n_trees": 5, "n_pairs": 20},
    "ksh": {"max_iter": 20},
    "mlh": {"n_epochs": 1},
    "bre": {"max_iter": 2},
}
"""Parameters by name of the method that make a small fit quick."""

every = pytest.mark.parametrize("name", method_names())


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch):
    """Let an epoch of MLH have a tenth of its pairs: still 111 for each row."""
    if "mlh" in method_names():
        monkeypatch.setattr("supquant_lab.hashing.mlh.EPOCH_PAIRS", 10_000)


def rows(n=90, p=5):
    """Return n rows of p columns in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (rng.normal(scale=3, size=(3, p))[y] + rng.normal(size=(n, p))).astype(np.float32), y


def estimator(name, **parameters):
    """Return an estimator of 8 bits whose fit is quick."""
    made = make_estimator(name, 8, {"random_state": 0, "n_jobs": 1, **QUICK.get(name, {})})
    known = made.get_params(deep=False)
    small = {"n_codewords": 8, **({} if name in QUICK else {"max_iter": 2}), **parameters}
    return made.set_params(**{key: value for key, value in small.items() if key in known})


def with_row(value):
    X, y = rows()
    X[7] = value
    return X, y


def constant_columns():
    X, y = rows()
    X[:, 1:3] = 7
    return X, y


def rare_classes():
    X, _ = rows()
    return X, np.r_[0, 1, np.full(len(X) - 2, 2)]


SOUND = {
    "constant columns": constant_columns,
    "all rows equal": lambda: (np.full((90, 5), 7, np.float32), rows()[1]),
    "all zero": lambda: (np.zeros((90, 5), np.float32), rows()[1]),
    "duplicate rows": lambda: (rows()[0][np.arange(90) % 6], rows()[1]),
    "far from zero": lambda: (rows()[0] + np.float32(1e7), rows()[1]),
    "one column": lambda: (rows()[0][:, :1], rows()[1]),
    "more columns than rows": lambda: rows(30, 60),
    "two classes of one row": rare_classes,
    "large": lambda: (rows()[0] * np.float32(1e13), rows()[1]),
    "small": lambda: (rows()[0] * np.float32(1e-14), rows()[1]),
}
REFUSED = {
    "1e30": (lambda: (rows()[0] * np.float32(1e30), rows()[1]), "divide X by a constant"),
    "1e18": (lambda: (rows()[0] * np.float32(1e18), rows()[1]), "divide X by a constant"),
    "one row of 1e30": (lambda: with_row(1e30), "in row 7"),
    "integers of 1e18": (lambda: (np.int64(1e18) + rows()[0].astype(np.int64), rows()[1]), "divide X"),
    "1e-30": (lambda: (rows()[0] * np.float32(1e-30), rows()[1]), "multiply X by a constant"),
    "1e-18": (lambda: (rows()[0] * np.float32(1e-18), rows()[1]), "multiply X by a constant"),
}


def assert_learns(made, X, y):
    made.fit(X, y)
    codes = made.encode(X)
    assert len(codes) == len(X)
    assert np.isfinite(made.codec_.tables(X[:4])).all()
    assert np.isfinite(made.decode(codes[:4])).all()


@every
@pytest.mark.parametrize("case", SOUND)
def test_hard_rows_are_learned(name, case):
    assert_learns(estimator(name), *SOUND[case]())


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("published", None),
        ("published", AnchorKernel(10, random_state=0)),
        ("published", AnchorKernel(1000)),
        ("sq", LabelKernel(0)),
    ],
)
@pytest.mark.parametrize("case", SOUND)
def test_hard_rows_are_learned_with_every_feature_map(name, features, case):
    assert_learns(estimator(name, features=features), *SOUND[case]())


@every
@pytest.mark.parametrize("case", REFUSED)
def test_rows_with_squares_beyond_float32_are_refused(name, case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        estimator(name).fit(*make())


@pytest.mark.parametrize("case", REFUSED)
def test_feature_maps_refuse_them_too(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        AnchorKernel(10).fit(*make())


@pytest.mark.parametrize("name", ["published", "sq-triplet"])
def test_a_kernel_with_more_anchors_than_its_rank_is_learned(name):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    X = (rng.normal(size=(5, 5))[y] * 3 + rng.normal(size=(300, 5))).astype(np.float32)
    parameters = {"features": AnchorKernel(1000, random_state=0), "n_codewords": 256, "max_iter": 1}
    made = make_estimator(name, 16, {"random_state": 0, **parameters}).fit(X, y)
    if isinstance(made, PublishedQuantizer):
        assert (made.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize("name", ["sq", "published", "sdh", "ksh", "classifier", "classifier-bits"])
@pytest.mark.parametrize("value", [1e18, 1e30, 3e38])
def test_a_model_encodes_vectors_that_are_extremely_far_out(name, value):
    X, y = rows()
    made = estimator(name).fit(X, y)
    far = np.sign(X[:4]) * np.float32(value)
    assert len(made.encode(far)) == 4
    assert np.isfinite(made.codec_.tables(far)).all()


def test_the_bounds_on_training_vectors_are_inclusive():
    for value in (MAX_VALUE, -MAX_VALUE, MIN_VALUE, -MIN_VALUE):
        check_training_vectors(np.array([[0.0, value]]))
    for value in (1.1 * MAX_VALUE, -1.1 * MAX_VALUE, 0.9 * MIN_VALUE, -0.9 * MIN_VALUE):
        with pytest.raises(InputError):
            check_training_vectors(np.array([[0.0, value]]))


def test_the_factor_of_a_singular_or_slightly_indefinite_matrix_is_near_it(rng):
    thin = rng.normal(size=(50, 3))
    for matrix in (thin @ thin.T, thin @ thin.T - 1e-12 * np.eye(50), np.zeros((4, 4)), np.zeros((0, 0))):
        lower = positive_factor(matrix)
        np.testing.assert_allclose(lower @ lower.T, matrix, atol=1e-9)
    with pytest.raises(InputError, match="not finite"):
        positive_factor(np.full((2, 2), np.nan))


def test_a_regular_problem_is_solved_as_it_is(rng):
    half = rng.normal(size=(6, 6))
    matrix, right = half @ half.T + np.eye(6), rng.normal(size=(6, 2))
    np.testing.assert_allclose(solve_positive(matrix, right), np.linalg.solve(matrix, right), rtol=1e-9)


def test_eigenvectors_are_found_where_the_fast_routine_fails(rng, monkeypatch):
    eigh = leading_eigenvectors.__globals__["scipy"].linalg.eigh

    def failing(matrix, **settings):
        if "subset_by_index" in settings:
            raise np.linalg.LinAlgError("Internal Error.")
        return eigh(matrix, **settings)

    half = rng.normal(size=(8, 8))
    expected = leading_eigenvectors(half @ half.T, 3)
    monkeypatch.setattr("scipy.linalg.eigh", failing)
    values, vectors = leading_eigenvectors(half @ half.T, 3)
    np.testing.assert_allclose(values, expected[0])
    np.testing.assert_allclose(abs(vectors), abs(expected[1]), atol=1e-9)
