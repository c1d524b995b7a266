import json
import re

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.bench import odd_fits
from supquant_lab.bench.odd_fits import ASKED_ROWS, OddProblem, bench_odd_fits, fit_odd


def test_odd_fits_are_printed_and_written(run, tmp_path):
    result = run("bench", "odd-fits", "--problems", 2, "--seed", 0, "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert len(record["fits"]) == 2
    assert f"{record['fits'][0]['accuracy']:.3f}" in result.output
    assert "2 problems: " in result.output
    assert record["failures"] == []


def test_a_problem_is_drawn_again_from_its_seed():
    one, other = (OddProblem.draw(np.random.default_rng([0, 3])) for _ in range(2))
    assert one.oddities == other.oddities
    assert np.array_equal(one.X, other.X)


@pytest.mark.parametrize("make", odd_fits._ODDITIES)
def test_every_oddity_leaves_rows_to_learn_from(make):
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 3
    problem = OddProblem(rng.normal(size=(1200, 4)), y, [])
    assert make(problem, rng)
    assert len(problem.X) == len(problem.y) > ASKED_ROWS + 20
    assert len(np.unique(problem.y[-ASKED_ROWS:])) == 3


def clouds():
    rng = np.random.default_rng(0)
    y = np.arange(1300) % 3
    return OddProblem(rng.normal(size=(1300, 4)) + 3 * np.eye(4)[y], y, ["clouds"])


def test_what_went_wrong_is_recorded(monkeypatch):
    found = fit_odd(clouds())
    assert found["accuracy"] > 0.9
    assert found["failure"] is None

    def answer(self, X):
        return np.zeros(len(X))

    monkeypatch.setattr("supquant.model.SupervisedQuantizer.predict", answer)
    assert "and logistic regression 0.9" in fit_odd(clouds())["failure"]
    monkeypatch.setattr(odd_fits, "MAX_SECONDS", 0)
    monkeypatch.setattr(odd_fits, "MIN_RATIO", 0)
    assert re.fullmatch(r"\d+ s", fit_odd(clouds())["failure"])

    def fail(self, X, y):
        raise error

    monkeypatch.setattr("supquant.model.SupervisedQuantizer.fit", fail)
    error = MemoryError("37 GiB")
    assert fit_odd(clouds())["failure"] == "MemoryError('37 GiB')"
    error = InputError("no")
    assert fit_odd(clouds())["refused"] == "no"
    assert bench_odd_fits(1)["refused"] == 1


def test_a_run_that_was_stopped_goes_on_with_its_record(run, tmp_path, monkeypatch):
    fitted = []

    def fit(problem, seed):
        fitted.append(problem)
        if len(fitted) == 3:
            raise KeyboardInterrupt
        return {"problem": "; ".join(problem.oddities), "accuracy": None, "refused": "no"} | dict.fromkeys(
            ["warnings", "failure"]
        )

    monkeypatch.setattr(odd_fits, "fit_odd", fit)
    options = ("bench", "odd-fits", "--problems", 5, "--resume", "--json", tmp_path / "r.json")
    assert run(*options).exit_code != 0
    assert len(json.loads((tmp_path / "r.json").read_text())["fits"]) == 2
    assert run(*options).exit_code == 0
    assert [each["number"] for each in json.loads((tmp_path / "r.json").read_text())["fits"]] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert len(fitted) == 6
    assert "seed 1 to continue" in run(*options, "--seed", 1).output
    assert "needs --json" in run("bench", "odd-fits", "--resume").output
