"""What an interrupt leaves behind."""

import os
import signal
from functools import partial

import numpy as np
import pytest

from supquant import PublishedQuantizer
from supquant.published import alternating
from supquant.published.rows import CodedRows

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}


def assert_usable(quantizer, X, y):
    assert (quantizer.predict(X) == y).mean() > 0.5
    assert quantizer.encode(X).shape == quantizer.encode(X, y).shape == (len(X), 2)
    assert quantizer.n_features_in_ == X.shape[1]
    totals = [entry["total"] for entry in quantizer.objective_]
    assert totals[-1] <= min(totals) * (1 + 1e-9)


@pytest.mark.parametrize("again", [False, True], ids=["first fit", "refit"])
def test_an_interrupt_leaves_the_best_model_so_far_and_is_raised_again(
    clusters, solver, again, assert_same_model
):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    settings = SMALL | {"max_iter": 20, "tol": 0.0, "solver": solver}
    quantizer = PublishedQuantizer(2, **settings)
    if again:
        quantizer.set_params(n_codewords=4, max_iter=1).fit(*clusters).set_params(n_codewords=8, max_iter=20)
    quantizer.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert_usable(quantizer, *clusters)
    assert quantizer.n_iter_ == 2
    assert_same_model(quantizer, PublishedQuantizer(2, **settings | {"max_iter": 2}).fit(*clusters))


@pytest.mark.parametrize("at", ["assign", "statistics"])
def test_an_interrupt_within_a_pass_leaves_the_last_finished_step(clusters, solver, monkeypatch, at):
    calls = []
    original = getattr(CodedRows, at)

    def interrupted(self, *arguments):
        calls.append(at)
        if len(calls) == 3 or at == "statistics":
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(CodedRows, at, interrupted)
    quantizer = PublishedQuantizer(2, **SMALL | {"max_iter": 20, "tol": 0.0, "solver": solver})
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    if at == "assign":  # the start, then two iterations, the second unfinished
        assert_usable(quantizer, *clusters)
        assert quantizer.n_iter_ == 1
        assert quantizer.objective_[-1]["step"] in {"solve", "codebooks"}
    else:  # before the solver's first step there is nothing to leave
        assert not hasattr(quantizer, "codec_")


@pytest.mark.parametrize("at", ["first iteration", "between", "second iteration"])
def test_an_interrupt_on_the_way_to_a_long_code_leaves_a_long_code(clusters, solver, monkeypatch, at):
    """Four codebooks start from two: the interrupt comes while there are two, four, or just before the four begin."""
    calls = []

    def interrupt(progress):
        if (at, progress.stage, progress.step) in {
            ("first iteration", f"{solver}, 2 codebooks", 1),
            ("second iteration", f"{solver}, 4 codebooks", 1),
        }:
            raise KeyboardInterrupt

    def statistics(self):
        calls.append(self)
        if at == "between" and len(calls) == 2:
            raise KeyboardInterrupt
        return original(self)

    original = CodedRows.statistics
    monkeypatch.setattr(CodedRows, "statistics", statistics)
    quantizer = PublishedQuantizer(4, **SMALL, solver=solver, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    X, y = clusters
    assert quantizer.codec_.codebooks.shape[:2] == (4, 8)
    assert quantizer.training_codes_.shape == (300, 4)
    assert quantizer.encode(X).shape == quantizer.encode(X, y).shape == (300, 4)
    assert quantizer.decode(quantizer.training_codes_).shape == (300, 8)
    scores = quantizer.decode(quantizer.training_codes_) @ quantizer.codec_.classifier
    assert (scores.argmax(axis=1) == y).mean() > 0.7


def test_an_interrupt_between_two_turns_leaves_the_model_of_the_last_record(
    clusters, monkeypatch, assert_last_objective
):
    calls = []
    minimise = alternating.minimise_codebooks

    def interrupted(*arguments, **settings):
        calls.append("codebooks")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return minimise(*arguments, **settings)

    monkeypatch.setattr(alternating, "minimise_codebooks", interrupted)
    monkeypatch.setattr(alternating, "CALM_SHARE", 2.0)  # two turns in the second iteration
    quantizer = PublishedQuantizer(2, **SMALL, solver="alternating", tol=0.0)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert quantizer.objective_[-1]["step"] == "constant"
    assert_last_objective(quantizer, *clusters)


def test_an_interrupt_before_the_solver_begins_leaves_the_old_model(clusters, monkeypatch):
    quantizer = PublishedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))

    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("supquant.published.training.product_start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert vars(quantizer) == before


def fit_until_interrupted(solver, tell):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background otherwise
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, size=6000)
    X = (rng.normal(scale=3, size=(5, 20))[y] + rng.normal(size=(6000, 20))).astype(np.float32)
    sq = PublishedQuantizer(
        4,
        n_codewords=64,
        features=None,
        solver=solver,
        quantization_weight=1.0,
        tol=0.0,
        max_iter=10_000,
        random_state=0,
        n_jobs=2,
        callback=lambda progress: tell("step"),
    )
    try:
        sq.fit(X, y)
    except KeyboardInterrupt:
        codes, right = sq.encode(X[:10]), (sq.predict(X) == y).mean()
        tell(f"interrupted {codes.shape} {right > 0.5} {len(sq.objective_) > 1}")


def test_a_real_interrupt_returns_at_once_with_a_usable_model(solver, telling_child):
    child, lines = telling_child(partial(fit_until_interrupted, solver))
    assert lines.readline() == "step\n"
    os.kill(child, signal.SIGINT)
    *steps, last = lines.read().splitlines()
    assert last == "interrupted (10, 4) True True"
    assert set(steps) <= {"step"}
