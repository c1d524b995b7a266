"""The probability of being new, learned from rows without labels."""

import numpy as np
import pytest
from scipy.special import expit

from supquant.model.new_classes import learn_discriminator, mixed_share, novelty_of_mixture


@pytest.fixture
def samples(rng):
    """Evidence and discriminator of known rows, and of a mixture in which three of ten rows are new."""
    known = rng.normal(size=(2000, 2))
    mixture = rng.normal(size=(2000, 2))
    new = np.arange(2000) < 600
    mixture[new] += [-1.5, 2.5]
    return known, mixture, new


def test_the_share_of_new_rows_is_found(samples):
    known, mixture, new = samples
    novelty = novelty_of_mixture(known, mixture)
    assert novelty.share == pytest.approx(new.mean(), abs=0.06)
    u = expit(mixture @ [novelty.slope, novelty.weight] + novelty.shift)
    assert u.mean() == pytest.approx(novelty.share, abs=1e-6)
    assert u[new].mean() > 0.65
    assert u[~new].mean() < 0.15
    assert novelty.slope < 0 < novelty.weight
    assert expit(novelty.of_new).mean() == pytest.approx(u[new].mean(), abs=0.1)


def test_the_share_is_minimal_if_nothing_is_new(rng):
    known, mixture = rng.normal(size=(2, 3000))
    assert mixed_share(known, mixture) < 0.08


def test_another_share_shifts_all_logits_equally(samples):
    known, mixture, _ = samples
    novelty = novelty_of_mixture(known, mixture)
    other = novelty.expecting(0.05)
    assert other.share == 0.05
    assert other.shift < novelty.shift
    np.testing.assert_allclose(novelty.of_new - other.of_new, novelty.shift - other.shift)
    assert (other.slope, other.weight) == (novelty.slope, novelty.weight)


def test_a_discriminator_tells_two_samples_apart(rng):
    labelled, unlabelled = rng.normal(size=(300, 5)), rng.normal([2, 0, 0, 0, 0], size=(900, 5))
    weights = learn_discriminator(None, labelled, unlabelled)
    assert weights.shape == (6,)
    low, high = (rows @ weights[:-1] + weights[-1] for rows in (labelled, unlabelled))
    assert low.mean() + 0.3 < high.mean()
    assert (low.mean() + high.mean()) / 2 == pytest.approx(0.5, abs=0.1)  # both samples have the same weight
