"""Probabilities are compared with outcomes."""

import numpy as np
import pytest

from supquant import CodeIndex, SupervisedQuantizer
from supquant.inputs.labels import read_labels
from supquant_lab.probabilities import judge_first_answers, judge_probabilities


def test_the_error_is_the_mean_difference_over_bins(rng):
    probabilities = rng.random(1500)
    outcomes = rng.random(1500) < probabilities**2
    found = judge_probabilities(probabilities, outcomes, bins=15)
    order = np.argsort(probabilities)
    expected = np.mean(
        [abs(probabilities[part].mean() - outcomes[part].mean()) for part in np.split(order, 15)]
    )
    assert found.error == pytest.approx(expected)
    assert found.brier == pytest.approx(((probabilities - outcomes) ** 2).mean())
    assert found.base_brier == pytest.approx(outcomes.var())


def test_true_probabilities_are_calibrated_and_others_are_not(rng):
    probabilities = rng.random(200_000)
    outcomes = rng.random(len(probabilities)) < probabilities
    assert judge_probabilities(probabilities, outcomes).error < 0.01
    assert judge_probabilities(probabilities**2, outcomes).error > 0.1
    assert (
        judge_probabilities(probabilities, outcomes).brier
        < judge_probabilities(probabilities, outcomes).base_brier
    )


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    return SupervisedQuantizer(2, n_codewords=32, max_iter=3, random_state=0).fit(X[:1200], y[:1200])


def test_first_answers_are_those_of_an_index(fitted, digits):
    X, y = digits
    labels = read_labels(y)
    found = judge_first_answers(
        fitted.codec_,
        fitted.training_codes_,
        X[1200:],
        labels.take(np.arange(1200, len(y))),
        labels.take(np.arange(1200)),
        k=20,
    )
    scores, ids = CodeIndex(fitted).add_codes(fitted.training_codes_).search(X[1200:], 20)
    assert found == judge_probabilities(scores, y[ids] == y[1200:, None])
    assert found.error < 0.05
    assert found.brier < found.base_brier


def test_queries_of_known_and_of_new_classes_have_an_error_of_their_own(fitted, digits):
    X, y = digits
    labels = read_labels(y)
    is_new = y[1200:] >= 7
    asked = (X[1200:], labels.take(np.arange(1200, len(y))), labels.take(np.arange(1200)))
    codes = fitted.training_codes_
    found = judge_first_answers(fitted.codec_, codes, *asked, new_queries=is_new, k=20)
    scores, ids = CodeIndex(fitted).add_codes(codes).search(X[1200:], 20)
    outcomes = y[ids] == y[1200:, None]
    assert found.error_known == judge_probabilities(scores[~is_new], outcomes[~is_new]).error
    assert found.error_new == judge_probabilities(scores[is_new], outcomes[is_new]).error
    assert found.error == judge_probabilities(scores, outcomes).error
    assert found.brier == judge_probabilities(scores, outcomes).brier
