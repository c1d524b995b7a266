"""Scores become probabilities: scaling, and scores of rows that were left out."""

import numpy as np
from scipy.special import expit, softmax

from supquant import AnchorKernel, PublishedQuantizer
from supquant.inputs.labels import read_labels
from supquant.parallel import single_blas
from supquant.published.calibration import fit_scaling, left_out_scores
from supquant.published.projections import LearnedProjection
from supquant.published.training import Training


def test_a_temperature_is_recovered(rng):
    scores = rng.normal(size=(20_000, 5)).astype(np.float32)
    p = softmax(3.0 * scores, axis=1)
    y = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    scaling = fit_scaling(scores, read_labels(y))
    np.testing.assert_allclose(scaling[0], 3.0, rtol=0.05)
    np.testing.assert_array_equal(scaling[1], 0)


def test_each_of_several_labels_gets_its_own_line(rng):
    scores = rng.normal(size=(20_000, 3)).astype(np.float32)
    slopes, shifts = np.array([1.0, 2.0, 4.0]), np.array([-1.0, 0.0, 2.0])
    y = (rng.random(scores.shape) < expit(slopes * scores + shifts)).astype(int)
    scaling = fit_scaling(scores, read_labels(y))
    np.testing.assert_allclose(scaling, [slopes, shifts], rtol=0.1, atol=0.1)


def test_a_label_of_no_row_or_of_every_row_gets_a_finite_line(rng):
    scores = rng.normal(size=(50, 3)).astype(np.float32)
    y = np.zeros((50, 3), dtype=int)
    y[:, 1] = 1
    y[:20, 0] = 1
    labels = read_labels(y, classes=np.arange(3), multilabel=True)
    scaling = fit_scaling(scores, labels)
    assert np.isfinite(scaling).all()
    assert scaling[1, 2] < -3 < 3 < scaling[1, 1]


def test_left_out_scores_are_those_of_a_projection_learned_without_the_row(clusters):
    X, y = clusters
    quantizer = PublishedQuantizer(
        2, n_codewords=8, features=AnchorKernel(20, random_state=0), max_iter=2, random_state=0
    ).fit(X, y)
    codec = quantizer.codec_
    with single_blas():
        training = Training(X, read_labels(y), codec.feature_map, 8, np.random.default_rng(0), 1, (1, 0, 1))
        training.begin_from(codec, quantizer.training_codes_)
        rows = np.array([3, 77, 250])
        solver = training.start().solver()
        scores, kept = left_out_scores(codec, solver, X[rows], quantizer.training_codes_[rows])
    assert kept.all()
    phi = codec.features(X.astype(np.float32)).astype(np.float64)
    S, W = codec.decode(quantizer.training_codes_).astype(np.float64), codec.classifier
    ridge = LearnedProjection.ridge(training.moments) * np.eye(phi.shape[1])
    for row, found in zip(rows, scores, strict=True):
        others = np.delete(np.arange(len(X)), row)
        P = np.linalg.solve(phi[others].T @ phi[others] + ridge, phi[others].T @ S[others])
        np.testing.assert_allclose(found, phi[row] @ P @ W, rtol=1e-3, atol=1e-4)
        assert not np.allclose(found, codec.decision_function(X[[row]])[0], rtol=1e-3, atol=1e-4)
