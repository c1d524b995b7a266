"""Vectors to features: how new a vector looks, learned from rows whose labels are unknown.

Rows without labels are a mixture: of known classes, as the labelled rows are, and of new ones. What tells the two samples apart
is what is new. A linear discriminator of labelled and unlabelled rows on the features of the classifier costs a query one more
column of logits; it is calibrated on rows that it has not seen.
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
from supquant.features.gaussian_map import GaussianMap
from supquant.validation import as_float32

FEWEST_ROWS = 200
"""So many rows without labels, and held-out rows with labels, are needed to tell them apart."""

MOST_ROWS = 16384
"""Rows of each kind that the discriminator learns from, at the most."""

MOST_ANCHORS = 1024
"""Anchors of the classifier that the discriminator looks at."""

RIDGE = 1e-2
"""In units of the mean variance of a feature, times rows."""

QUANTILES = 200
"""Of the logits of new rows, that are kept."""

SHARE_LIMITS = (0.02, 0.9)
"""Of the share of new rows that is found."""


@dataclass(frozen=True)
class Novelty:
    """The logit of being new: ``slope * evidence + weight * discriminator + shift``.

    Attributes
    ----------
    slope, weight, shift : float
    share : float
        Of new rows, at which the logit holds.
    of_new : (s,) float64
        The logits of some new rows.
    """

    slope: float
    weight: float
    shift: float
    share: float
    of_new: Float64

    def expecting(self, share: float) -> Novelty:
        """Return the same for another share of new rows."""
        moved = log_odds(share) - log_odds(self.share)
        return Novelty(self.slope, self.weight, self.shift + moved, share, self.of_new + moved)


def discriminator(kernel: GaussianMap | None, labelled: NDArray[Any], unlabelled: NDArray[Any]) -> Float32:
    """Learn weights (d + 1,) on the classifier's features that tell unlabelled rows from labelled ones; the last is the shift."""
    rows = as_float32(np.concatenate([labelled, unlabelled]))
    width = rows.shape[1] if kernel is None else len(kernel.anchors)
    used = np.arange(width)
    features = rows
    if kernel is not None:
        used = np.unique(np.linspace(0, width - 1, MOST_ANCHORS).astype(np.intp))
        features = GaussianMap(kernel.anchors[used], kernel.bandwidth)(rows)
    is_unlabelled = np.arange(len(rows)) >= len(labelled)
    balance = np.where(is_unlabelled, len(rows) / len(unlabelled), len(rows) / len(labelled)) / 2
    variance = float(features.var(axis=0, dtype=np.float64).mean())
    told = Ridge(alpha=max(RIDGE * variance * len(rows), 1e-9)).fit(
        features.astype(np.float64), is_unlabelled, sample_weight=balance
    )
    weights = np.zeros(width + 1)
    weights[used] = told.coef_
    weights[-1] = told.intercept_
    return weights.astype(np.float32)


def novelty_of_mixture(known: Float64, mixture: Float64) -> Novelty:
    """Learn what is new in a mixture of known and new rows.

    Both are ``(evidence, discriminator)`` of rows that taught neither: `known` (k, 2) of labelled rows, `mixture` (s, 2) of
    unlabelled ones.
    """
    both = np.concatenate([known, mixture])
    centre, spread = both.mean(axis=0), both.std(axis=0) + 1e-12
    is_mixed = np.arange(len(both)) >= len(known)
    told = LogisticRegression(C=1.0, class_weight="balanced").fit((both - centre) / spread, is_mixed)
    ratio = told.decision_function(
        (both - centre) / spread
    )  # log density of the mixture over that of known rows
    share = mixed_share(ratio[~is_mixed], ratio[is_mixed])
    new = np.clip(1 - (1 - share) * np.exp(-ratio[is_mixed]), 1e-3, 1 - 1e-3)  # (s,)
    scaled, of_known = (mixture - centre) / spread, (known - centre) / spread
    fitted = LogisticRegression(C=100.0).fit(
        np.concatenate([scaled, scaled, of_known]),
        np.repeat([1, 0, 0], [len(scaled), len(scaled), len(known)]),
        sample_weight=np.concatenate([new, 1 - new, np.full(len(known), len(mixture) / len(known))]),
    )
    slopes = fitted.coef_[0] / spread
    odds = np.sort(fitted.decision_function(scaled))
    moved = brentq(lambda by: expit(odds + by).mean() - share, -40, 40)  # in the mixture alone
    odds += moved
    masses = np.cumsum(expit(odds))
    at = np.searchsorted(
        masses, (np.arange(QUANTILES) + 0.5) / QUANTILES * masses[-1]
    )  # of rows that are new
    shift = float(fitted.intercept_[0] + moved - slopes @ centre)
    return Novelty(float(slopes[0]), float(slopes[1]), shift, share, odds[at])


def mixed_share(known: Float64, mixture: Float64) -> float:
    """Estimate the share of new rows in a mixture, from scores that are low for known rows (Garg et al., 2021).

    Where scores are low there are none but known rows, so the part of the mixture that lies there, over the part of the known
    rows that does, is the share of known ones; chosen is where this is surest.

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
    """Return the logit of a share.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    return float(np.log(share / (1 - share)))
