"""What the tests of the solvers share."""

import numpy as np
import pytest
import small_problems

from supquant import PublishedQuantizer
from supquant.parallel import single_blas
from supquant.published.projections import RELATIVE_RIDGE
from supquant.published.rows import Penalties

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Solvers run as in `fit`: on busy cores, two threads of BLAS wait for each other longer than they work."""
    with single_blas():
        yield


@pytest.fixture(scope="session")
def draw():
    return small_problems.draw_problem


@pytest.fixture(scope="session")
def psi_terms():
    return small_problems.psi_terms


@pytest.fixture(scope="module")
def indicator(clusters):
    return small_problems.several_labels(*clusters)


@pytest.fixture(params=["joint", "alternating"])
def solver(request):
    return request.param


@pytest.fixture(params=["one label", "several labels"])
def target(request, clusters, indicator):
    return clusters[1] if request.param == "one label" else indicator


@pytest.fixture(scope="module")
def fitted(clusters):
    return PublishedQuantizer(2, **SMALL).fit(*clusters)


@pytest.fixture(scope="session")
def assert_same_model():
    """Return a function that compares two fitted quantizers, bit for bit."""

    def assert_same_model(one, other):
        for name in ("codebooks", "projection", "classifier", "classes"):
            np.testing.assert_array_equal(getattr(one.codec_, name), getattr(other.codec_, name), strict=True)
        assert one.codec_.constant == other.codec_.constant
        np.testing.assert_array_equal(one.training_codes_, other.training_codes_)
        assert one.objective_ == other.objective_

    return assert_same_model


@pytest.fixture(scope="session")
def assert_last_objective(psi_terms):
    """Return a function that compares the last objective with psi written out for the stored model."""

    def assert_last_objective(quantizer, X, target):
        codec, X = quantizer.codec_, X.astype(np.float64)
        delta = RELATIVE_RIDGE * (X**2).sum() / X.shape[1]
        weights = Penalties(
            quantizer.quantization_weight, quantizer.constraint_weight, quantizer.classifier_ridge, delta
        )
        want = psi_terms(
            X,
            target if target.ndim == 2 else np.eye(3)[target],
            quantizer.training_codes_,
            *(array.astype(np.float64) for array in (codec.codebooks, codec.classifier, codec.projection)),
            codec.constant,
            weights,
        )
        found = {name: quantizer.objective_[-1][name] for name in want}
        assert found == pytest.approx(want, rel=1e-4, abs=1e-4)  # the codec is float32

    return assert_last_objective
