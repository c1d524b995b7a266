"""Vectors to features: how new a vector looks, learned from rows whose labels are unknown.

Rows without labels are a mixture of known classes, which labelled rows have too, and of new ones. What tells unlabelled rows from
labelled ones therefore tells what is new. A linear discriminator of the two, on the features of the classifier, costs a query one
more column of logits. It is calibrated on rows that it was not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from supquant.arrays import Float32, Float64
from supquant.codec.gaussian_map import GaussianMap
from supquant.inputs.validation import as_float32

MIN_UNLABELLED = 200
"""With fewer rows without labels, or a quarter as many held-out rows with labels, there is no discriminator."""

MAX_ROWS = 16384
"""The discriminator learns from at most this number of labelled rows, and of unlabelled ones."""

MAX_ANCHORS = 1024
"""The discriminator has weights for at most this number of anchors of the classifier."""

RIDGE = 1e-2
"""Ridge of the discriminator, in units of the mean variance of a feature, times the number of rows."""

N_QUANTILES = 200
"""Number of logits of new rows that are kept, as quantiles of all of them."""

SHARE_LIMITS = (0.02, 0.9)
"""The least and the greatest share of new rows that an estimate may have."""


@dataclass(frozen=True)
class Novelty:
    """The logit of being new: ``slope * evidence + weight * discriminator + shift``.

    Attributes
    ----------
    slope, weight, shift : float
    share : float
        The share of new rows for which the logit is right.
    of_new : ndarray of shape (s,), float64
        Logits of some new rows.
    """

    slope: float
    weight: float
    shift: float
    share: float
    of_new: Float64

    def expecting(self, share: float) -> Novelty:
        """Return the logit for another share of new rows."""
        moved = log_odds(share) - log_odds(self.share)
        return Novelty(self.slope, self.weight, self.shift + moved, share, self.of_new + moved)


NOTHING_NEW = Novelty(0.0, 0.0, -np.inf, 0.0, np.zeros(0))
"""The logit under which no row is new."""


def learn_discriminator(
    kernel: GaussianMap | None, labelled: NDArray[Any], unlabelled: NDArray[Any]
) -> Float32:
    """Learn to tell unlabelled rows (s, p) from labelled ones (n, p) by the features of the classifier.

    Returns
    -------
    ndarray of shape (d + 1,), float32
        Weights of the features, and the shift. The sum is greater for rows that look unlabelled.
    """
    rows = as_float32(np.concatenate([labelled, unlabelled]))
    width = rows.shape[1] if kernel is None else len(kernel.anchors)
    used = np.arange(width)
    features = rows
    if kernel is not None:
        used = np.unique(np.linspace(0, width - 1, MAX_ANCHORS).astype(np.intp))
        features = GaussianMap(kernel.anchors[used], kernel.bandwidth)(rows)
    is_unlabelled = np.arange(len(rows)) >= len(labelled)
    balance = np.where(is_unlabelled, len(rows) / len(unlabelled), len(rows) / len(labelled)) / 2
    variance = float(features.var(axis=0, dtype=np.float64).mean())
    fitted = Ridge(alpha=max(RIDGE * variance * len(rows), 1e-9)).fit(
        features.astype(np.float64), is_unlabelled, sample_weight=balance
    )
    weights = np.zeros(width + 1)
    weights[used] = fitted.coef_
    weights[-1] = fitted.intercept_
    return weights.astype(np.float32)


def novelty_of_mixture(known: Float64, mixture: Float64) -> Novelty:
    """Learn the logit of being new from a mixture of known and new rows.

    Parameters
    ----------
    known : ndarray of shape (k, 2), float64
        Evidence and discriminator of labelled rows that neither was learned from.
    mixture : ndarray of shape (s, 2), float64
        The same of unlabelled rows.

    Returns
    -------
    Novelty
    """
    both = np.concatenate([known, mixture])
    centre, spread = both.mean(axis=0), both.std(axis=0) + 1e-12
    is_mixed = np.arange(len(both)) >= len(known)
    apart = LogisticRegression(C=1.0, class_weight="balanced").fit((both - centre) / spread, is_mixed)
    # log of the density of the mixture over the density of known rows
    ratio = apart.decision_function((both - centre) / spread)
    share = mixed_share(ratio[~is_mixed], ratio[is_mixed])
    new = np.clip(1 - (1 - share) * np.exp(-ratio[is_mixed]), 1e-3, 1 - 1e-3)  # (s,) probabilities
    scaled, of_known = (mixture - centre) / spread, (known - centre) / spread
    fitted = LogisticRegression(C=100.0).fit(
        np.concatenate([scaled, scaled, of_known]),
        np.repeat([1, 0, 0], [len(scaled), len(scaled), len(known)]),
        sample_weight=np.concatenate([new, 1 - new, np.full(len(known), len(mixture) / len(known))]),
    )
    slopes = fitted.coef_[0] / spread
    odds = np.sort(fitted.decision_function(scaled))
    moved = brentq(lambda by: expit(odds + by).mean() - share, -40, 40)  # so that the mixture has this share
    odds += moved
    # Each row counts by its probability of being new; the quantiles are those of new rows.
    masses = np.cumsum(expit(odds))
    at = np.searchsorted(masses, (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES * masses[-1])
    shift = float(fitted.intercept_[0] + moved - slopes @ centre)
    return Novelty(float(slopes[0]), float(slopes[1]), shift, share, odds[at])


def mixed_share(known: Float64, mixture: Float64) -> float:
    """Estimate the share of new rows in a mixture, from scores (n,) that are low for known rows (Garg et al., 2021).

    Below a low score there are only known rows. The part of the mixture that lies below it, divided by the part of the known rows
    that does, is therefore the share of known rows in the mixture. Of several such scores, the one with the lowest upper bound of
    this share is taken.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known, new = rng.normal(0, 1, 6000), rng.normal(4, 1, 1200)
    >>> round(mixed_share(known[:3000], np.concatenate([known[3000:], new])), 1)
    0.3
    """
    edges = np.quantile(known, np.linspace(0.05, 1, 96))
    of_known = np.searchsorted(np.sort(known), edges, side="right") / len(known)
    of_mixture = np.searchsorted(np.sort(mixture), edges, side="right") / len(mixture)
    slack = np.sqrt(np.log(40) / 2) * (len(known) ** -0.5 + len(mixture) ** -0.5)
    at = int(np.argmin((of_mixture + slack) / of_known))
    return float(np.clip(1 - of_mixture[at] / of_known[at], *SHARE_LIMITS))


def log_odds(share: float) -> float:
    """Return ``log(share / (1 - share))``.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    return float(np.log(share / (1 - share)))
