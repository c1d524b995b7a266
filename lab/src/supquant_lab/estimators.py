"""The estimators of the lab by the name of their method, as `supquant fit --method` and `make_estimator` take them."""

from __future__ import annotations

from functools import partial

from supquant.published import PublishedQuantizer
from supquant_lab.hashing import BRE, CCAITQ, KSH, MLH, SDH, SSH, ClassifierBits, ClassifierLabels, FastHash
from supquant_lab.triplets import TripletQuantizer

__all__ = [
    "bre",
    "cca_itq",
    "classifier",
    "classifier_bits",
    "fasthash",
    "ksh",
    "mlh",
    "sdh",
    "sdh_linear",
    "sq_no_transform",
    "sq_triplet",
    "ssh",
]


def sq_triplet(bits: int) -> TripletQuantizer:
    """Return the quantizer of the triplet loss."""
    return TripletQuantizer(bits // 8)


def sq_no_transform(bits: int) -> PublishedQuantizer:
    """Return the published quantizer without a learned projection."""
    return PublishedQuantizer(bits // 8, projection="identity")


def classifier(bits: int) -> ClassifierLabels:
    """Return the estimator whose codes are labels; the number of labels decides how long they are."""
    del bits
    return ClassifierLabels()


sdh = partial(SDH, max_rows=100_000)
sdh_linear = partial(SDH, max_rows=100_000, features=None)
cca_itq = partial(CCAITQ, max_rows=500_000)
ksh, fasthash, ssh, mlh, bre, classifier_bits = KSH, FastHash, SSH, MLH, BRE, ClassifierBits
