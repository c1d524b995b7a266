"""Classes that are left out: how new rows differ from known ones, and what that says of the evidence for known classes."""

import numpy as np
import pytest
from scipy.special import expit

from supquant.inputs.labels import read_labels
from supquant.model.left_out import evidence_logit, leave_classes_out
from supquant.model.position import principal_directions


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_logit_of_being_new_is_that_of_two_normal_densities(rng, share):
    known, new = rng.normal(0, 1, size=20_000), rng.normal(-2, 1, size=5_000)
    slope, shift = evidence_logit(known, new, share)
    assert slope == pytest.approx(-2, rel=0.05)  # log ratio of densities: -2 x - 2
    assert shift == pytest.approx(-2 + np.log(share / (1 - share)), rel=0.1)
    mean = (1 - share) * expit(slope * known + shift).mean() + share * expit(slope * new + shift).mean()
    assert mean == pytest.approx(share, abs=0.01)


def test_novelty_never_rises_with_the_evidence_for_known_classes(rng):
    slope, shift = evidence_logit(rng.normal(0, 1, size=500), rng.normal(1, 1, size=500), 0.2)
    assert slope == 0
    assert expit(shift) == pytest.approx(0.2)


@pytest.fixture(scope="module")
def study_rows():
    """Vectors of twelve classes in ten dimensions, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(12, size=600)
    X = (1.5 * rng.normal(size=(12, 10))[y] + rng.normal(size=(600, 10))).astype(np.float32)
    return X, read_labels(y)


def study_of(X, labels, n_jobs=1):
    directions = principal_directions(X, 1)
    return leave_classes_out(X, labels, directions, np.random.default_rng(0), anchored=False, n_jobs=n_jobs)


def test_left_out_rows_have_less_evidence_than_known_ones(study_rows):
    study = study_of(*study_rows)
    assert len(study.left_out) == 600  # every class is left out once
    assert np.median(study.left_out) < np.quantile(study.known, 0.3)
    assert np.median(study.known) == pytest.approx(0, abs=0.1)  # in units of the spread among known rows
    assert np.diff(np.quantile(study.known, (0.25, 0.75)))[0] == pytest.approx(1, abs=0.1)


def test_the_study_does_not_depend_on_the_number_of_threads(study_rows):
    one, three = study_of(*study_rows), study_of(*study_rows, n_jobs=3)
    np.testing.assert_array_equal(three.known, one.known)
    np.testing.assert_array_equal(three.left_out, one.left_out)
    assert three.metric_ridge == one.metric_ridge


@pytest.mark.parametrize("n", [30, 600])
def test_there_is_no_study_of_few_rows_or_of_two_classes(study_rows, n):
    X, labels = study_rows[0][:n], study_rows[1].indices[:n]
    assert study_of(X, read_labels(labels if n < 600 else labels % 2)) is None
