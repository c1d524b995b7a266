"""Small problems for the solvers, and psi written out from its definition."""

from dataclasses import dataclass

import numpy as np
import pytest

from supquant import PublishedQuantizer
from supquant.inputs.labels import read_labels
from supquant.parallel import single_blas
from supquant.published.objective import SmallProblem
from supquant.published.projections import RELATIVE_RIDGE
from supquant.published.rows import CodedRows
from supquant.published.statistics import Penalties
from supquant.published.steps import Start

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Solvers run as in `fit`: on busy cores, two threads of BLAS wait for each other longer than they work."""
    with single_blas():
        yield


@dataclass(frozen=True)
class Drawn:
    """Rows with random codes, and a solver's start from them."""

    X: np.ndarray  # (n, d) float64
    Y: np.ndarray  # (n, L)
    codes: np.ndarray  # (n, M) uint8, recoded by the solver in place
    start: Start

    @property
    def problem(self) -> SmallProblem:
        return self.start.problem(self.start.solver(), self.start.rows.statistics())

    def indicator(self) -> np.ndarray:
        """B (n, MK)."""
        M, K, _ = self.start.codebooks.shape
        return np.hstack([np.eye(K)[self.codes[:, m]] for m in range(M)])


@pytest.fixture(scope="session")
def draw():
    """Return a function that draws a small problem."""

    def draw(
        seed=0, *, n=40, d=5, r=3, L=3, M=2, K=4, gamma=0.1, mu=0.2, ridge=1.0, delta=0.05, multilabel=False
    ):
        rng = np.random.default_rng(seed)
        centres = rng.normal(scale=2.0, size=(L, d))
        if multilabel:
            Y = (rng.random((n, L)) < 0.4).astype(int)
            Y[:2, :2] = np.eye(2)  # at least two labels are in use
            X = Y @ centres + rng.normal(size=(n, d))
            labels = read_labels(Y)
        else:
            y = np.arange(n) % L
            X = centres[y] + rng.normal(size=(n, d))
            labels = read_labels(y)
        X = X.astype(np.float32)
        codes = rng.integers(0, K, size=(n, M), dtype=np.uint8)
        rows = CodedRows(X, labels, codes, K)
        start = Start(
            rows,
            rows.moments(),
            rng.normal(size=(M, K, r)),
            rng.normal(size=(d, r)),
            Penalties(gamma, mu, ridge, delta),
        )
        return Drawn(X.astype(np.float64), labels.dense(0, n), codes, start)

    return draw


@pytest.fixture(scope="session")
def psi_terms():
    """Return a function that gives the four terms of psi from the rows."""

    def psi_terms(X, Y, codes, codebooks, W, P, eps, weights):
        M = len(codebooks)
        words = np.stack([codebooks[m][codes[:, m]] for m in range(M)])  # (M, n, r)
        S = words.sum(axis=0)
        e = np.zeros(len(X))
        for a in range(M):
            for b in range(M):
                if a != b:
                    e += (words[a] * words[b]).sum(axis=1)
        return {
            "classification": ((Y - S @ W) ** 2).sum(),
            "ridge": weights.ridge * (W**2).sum(),
            "quantization": weights.quantization
            * (((S - X @ P) ** 2).sum() + weights.projection_ridge * (P**2).sum()),
            "constraint": weights.constraint * ((e - eps) ** 2).sum(),
        }

    return psi_terms


@pytest.fixture(scope="module")
def indicator(clusters):
    """Several labels a row, some rows with none: (300, 4)."""
    X, y = clusters
    Y = np.stack([y == 0, y == 1, y == 2, X[:, 0] > 0], axis=1).astype(np.int64)
    Y[:5] = 0
    Y.flags.writeable = False
    return Y


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
