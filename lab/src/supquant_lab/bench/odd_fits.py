"""Report: fits of odd vectors, compared with a plain classifier: a fit may be refused or warn, but not be silently wrong."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.model import SupervisedQuantizer
from supquant_lab.machine import describe_machine

MIN_RATIO = 0.9
"""A model that recognises less than this fraction of what logistic regression recognises must warn."""

MAX_SECONDS = 60
"""A fit should take at most this number of seconds."""

ASKED_ROWS = 1000
"""Number of rows whose labels are predicted."""


@dataclass
class OddProblem:
    """Rows of normally distributed classes that were made odd; the last `ASKED_ROWS` rows are asked for."""

    X: Array  # (n, p)
    y: Array  # (n,)
    oddities: list[str]

    @classmethod
    def draw(cls, rng: np.random.Generator) -> OddProblem:
        """Draw a problem with one to three oddities."""
        n, p, n_labels = (int(rng.choice(each)) for each in ((150, 400, 1500), (1, 3, 20, 150), (2, 3, 10)))
        y = np.arange(n + ASKED_ROWS) % n_labels
        means = rng.normal(scale=2 / np.sqrt(min(p, 5)), size=(n_labels, p))
        problem = cls(means[y] + rng.normal(size=(len(y), p)), y, [f"{n} x {p}, {n_labels} labels"])
        # The type comes last: what it cannot hold is lost.
        drawn = sorted(rng.choice(len(_ODDITIES), size=rng.integers(1, 4), replace=False))
        for number in drawn:
            problem.oddities.append(_ODDITIES[number](problem, rng))
        return problem

    def keep(self, rows: Array) -> None:
        """Keep some of the rows to learn from, given by their numbers, and all that are asked for."""
        asked = np.arange(len(self.y) - ASKED_ROWS, len(self.y))
        rows = np.concatenate([rows, asked])
        self.X, self.y = self.X[rows], self.y[rows]


def _imbalance(problem: OddProblem, rng: np.random.Generator) -> str:
    """Give nearly all rows the label 0; rarely there are 100,000 of them."""
    ratio = 100_000 if rng.random() < 0.3 else 1000
    learned = problem.y[:-ASKED_ROWS]
    others = np.concatenate([np.flatnonzero(learned == label)[:3] for label in np.unique(learned)[1:]])
    first = np.flatnonzero(learned == 0)
    problem.keep(np.concatenate([rng.choice(first, size=ratio), others]))
    problem.X[:ratio] += rng.normal(scale=0.1, size=(ratio, problem.X.shape[1]))
    return f"{ratio} rows to 3"


def _lone_rows(problem: OddProblem, rng: np.random.Generator) -> str:
    """Give some rows a label of their own."""
    few = int(rng.integers(1, 30))
    problem.y[rng.choice(len(problem.y) - ASKED_ROWS, size=few, replace=False)] = 100 + np.arange(few)
    return f"{few} classes of one row"


def _copied_rows(problem: OddProblem, rng: np.random.Generator) -> str:
    n = len(problem.y) - ASKED_ROWS
    problem.keep(rng.integers(max(n // 10, 20), size=n))
    return "ten copies of every row"


def _column_scales(problem: OddProblem, rng: np.random.Generator) -> str:
    power = rng.uniform(0, 6)
    problem.X *= 10 ** rng.uniform(-power, power, size=problem.X.shape[1])
    return f"columns times 1e-{power:.1f} to 1e{power:.1f}"


def _one_scale(problem: OddProblem, rng: np.random.Generator) -> str:
    power = rng.uniform(1, 6)
    problem.X[:, rng.integers(problem.X.shape[1])] *= 10**power
    return f"one column times 1e{power:.1f}"


def _constant(problem: OddProblem, rng: np.random.Generator) -> str:
    value = 10 ** rng.uniform(-3, 9)
    problem.X = np.hstack([problem.X, np.full((len(problem.X), 3), value)])
    return f"three columns of {value:.2g}"


def _copied_columns(problem: OddProblem, rng: np.random.Generator) -> str:
    times = int(rng.integers(2, 20))
    problem.X = np.tile(problem.X, times)
    return f"{times} copies of every column"


def _noise(problem: OddProblem, rng: np.random.Generator) -> str:
    problem.X = np.hstack([problem.X, rng.normal(size=(len(problem.X), 200))])
    return "200 columns of noise"


def _outliers(problem: OddProblem, rng: np.random.Generator) -> str:
    power, few = rng.uniform(1, 8), int(rng.integers(1, 6))
    problem.X[rng.choice(len(problem.X) - ASKED_ROWS, size=few)] *= 10**power
    return f"{few} rows times 1e{power:.1f}"


def _offset(problem: OddProblem, rng: np.random.Generator) -> str:
    power = rng.uniform(0, 9)
    problem.X += 10**power * rng.choice([-1, 1])
    return f"offset 1e{power:.1f}"


def _column_offsets(problem: OddProblem, rng: np.random.Generator) -> str:
    power = rng.uniform(0, 6)
    problem.X += 10**power * rng.normal(size=problem.X.shape[1])
    return f"offsets of columns of 1e{power:.1f}"


def _scale(problem: OddProblem, rng: np.random.Generator) -> str:
    power = rng.uniform(-30, 30)
    problem.X *= 10**power
    return f"times 1e{power:.1f}"


def _half(problem: OddProblem, rng: np.random.Generator) -> str:
    del rng
    problem.X = np.clip(problem.X, -6e4, 6e4).astype(np.float16)
    return "float16"


_ODDITIES: list[Callable[[OddProblem, np.random.Generator], str]] = [
    _imbalance,
    _lone_rows,
    _copied_rows,
    _column_scales,
    _one_scale,
    _constant,
    _copied_columns,
    _noise,
    _outliers,
    _offset,
    _column_offsets,
    _scale,
    _half,
]


def bench_odd_fits(
    problems: int = 60,
    *,
    seed: int = 0,
    before: Mapping[str, Any] | None = None,
    on_step: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit random odd problems, and compare each with logistic regression on standardised columns.

    Parameters
    ----------
    problems : int
        Number of problems.
    seed : int
        Seed of the problems and fits.
    before : dict, optional
        The record of a run with the same seed, whose fits are not made again.
    on_step : callable, optional
        Gets the record so far, after each fit that was made.

    Returns
    -------
    dict
        A record for `json`. Its `failures` are fits that ended with another error than an `InputError`, took more than
        `MAX_SECONDS`, or recognised less than `MIN_RATIO` of what logistic regression recognises without a warning.
    """
    if before is not None and (before.get("benchmark"), before.get("seed")) != ("odd-fits", seed):
        raise InputError(f"expected a record of odd fits with seed {seed} to continue")
    fits = [] if before is None else list(before["fits"][:problems])
    for number in range(len(fits), problems):
        problem = OddProblem.draw(np.random.default_rng([seed, number]))
        fits.append({"number": number} | fit_odd(problem, seed))
        if on_step is not None:
            on_step(_record(fits, seed))
    return _record(fits, seed)


def _record(fits: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    failures = [
        f"problem {each['number']} ({each['problem']}): {each['failure']}" for each in fits if each["failure"]
    ]
    return {
        "benchmark": "odd-fits",
        "seed": seed,
        "fits": fits,
        "refused": sum(each["refused"] is not None for each in fits),
        "warned": sum(bool(each["warnings"]) for each in fits),
        "failures": failures,
        "machine": describe_machine(),
    }


def fit_odd(problem: OddProblem, seed: int = 0) -> dict[str, Any]:
    """Fit one problem; return its accuracy, that of logistic regression, the time, and what went wrong."""
    (X, Q), (y, asked) = (np.split(each, [len(problem.y) - ASKED_ROWS]) for each in (problem.X, problem.y))
    record: dict[str, Any] = {"problem": "; ".join(problem.oddities)}
    record |= dict.fromkeys(["accuracy", "regression", "refused", "failure"]) | {"warnings": []}
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(action="error"):
            quantizer = SupervisedQuantizer(4, n_codewords=64, random_state=seed).fit(X, y)
            record["accuracy"] = float((quantizer.predict(Q) == asked).mean())
            record["warnings"] = list(quantizer.summary_.warnings) if quantizer.summary_ else []
    except InputError as error:
        record["refused"] = str(error)
    except Exception as error:  # noqa: BLE001  # any is a finding
        record["failure"] = repr(error)
    record["seconds"] = time.perf_counter() - began
    if record["accuracy"] is not None:
        record["regression"] = _regression_accuracy(X, y, Q, asked)
        if record["accuracy"] < MIN_RATIO * record["regression"] and not record["warnings"]:
            record["failure"] = (
                f"accuracy {record['accuracy']:.3f}, and logistic regression {record['regression']:.3f}"
            )
    if record["seconds"] > MAX_SECONDS and record["failure"] is None:
        record["failure"] = f"{record['seconds']:.0f} s"
    return record


def _regression_accuracy(X: Array, y: Array, Q: Array, asked: Array) -> float:
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        found = regression.fit(X.astype(np.float64), y).predict(Q.astype(np.float64))
    return float((found == asked).mean())
