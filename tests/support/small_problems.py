"""Small problems for the solvers, and psi written out from its definition."""

from dataclasses import dataclass

import numpy as np

from supquant.inputs.labels import read_labels
from supquant.published.objective import SmallProblem
from supquant.published.rows import CodedRows, Penalties
from supquant.published.solvers import Start


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


def draw_problem(
    seed=0, *, n=40, d=5, r=3, L=3, M=2, K=4, gamma=0.1, mu=0.2, ridge=1.0, delta=0.05, multilabel=False
):
    """Return a small problem with random codes."""
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


def psi_terms(X, Y, codes, codebooks, W, P, eps, weights):
    """Return the four terms of psi, computed from the rows."""
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


def several_labels(X, y):
    """Return the indicator (n, 4) of several labels per row for three classes; some rows have none."""
    Y = np.stack([y == 0, y == 1, y == 2, X[:, 0] > 0], axis=1).astype(np.int64)
    Y[:5] = 0
    Y.flags.writeable = False
    return Y
