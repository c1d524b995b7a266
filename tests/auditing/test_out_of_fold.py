"""Scores in closed form are those of a classifier that was fitted without the row."""

import numpy as np
import pytest
import scipy.linalg

from supquant.auditing.judgement import learn_out_of_fold
from supquant.inputs.labels import read_labels
from supquant.model import kernel_rows


@pytest.mark.parametrize("some_rows_would_do", [False, True])
def test_scores_equal_those_of_a_fit_without_the_row(clusters, monkeypatch, some_rows_would_do):
    if some_rows_would_do:  # for a classifier that is not asked about the rows that it has seen
        monkeypatch.setattr(kernel_rows, "ROWS_PER_FEATURE", 0)
        monkeypatch.setattr(kernel_rows, "MIN_GRAM_ROWS", 20)
    X, y = clusters[0][:60], clusters[1][:60]
    labels = read_labels(y)
    judge = learn_out_of_fold(X, labels, np.random.default_rng(0), 1)
    rows = judge.rows.blocks[0]
    phi = judge.rows.features(rows).astype(np.float64)
    Y = labels.dense(0, 60)
    gram = phi.T @ phi
    ridge = np.append(np.full(len(gram) - 1, judge.ridge * np.diag(gram)[:-1].mean()), 0)
    scores = judge.scores(rows)
    for row in (0, 17, 59):
        others = np.delete(np.arange(60), row)
        left = phi[others].T @ phi[others] + np.diag(ridge)
        weights = scipy.linalg.solve(left, phi[others].T @ Y[others], assume_a="pos")
        assert scores[row] == pytest.approx(phi[row] @ weights, abs=2e-3)
