"""The estimators of the lab by the name of their method, as `supquant fit --method` and `make_estimator` take them.

Each is a function from a number of bits to an estimator that is not fitted. The entry points in lab/pyproject.toml name them.
"""

from __future__ import annotations

from supquant.published import PublishedQuantizer
from supquant_lab.hashing import BRE, CCAITQ, KSH, MLH, SDH, SSH, ClassifierBits, ClassifierLabels, FastHash
from supquant_lab.triplets import TripletQuantizer

MAX_SDH_ROWS = 100_000
"""Maximum number of rows that SDH learns from: it keeps the kernel features of all of them in memory."""

MAX_CCA_ITQ_ROWS = 500_000
"""Maximum number of rows that CCA-ITQ learns from."""


def sq_triplet(bits: int) -> TripletQuantizer:
    """Return the quantizer of the triplet loss."""
    return TripletQuantizer(bits // 8)


def sq_no_transform(bits: int) -> PublishedQuantizer:
    """Return the published quantizer without a learned projection."""
    return PublishedQuantizer(bits // 8, projection="identity")


def sdh(bits: int) -> SDH:
    """Return SDH with kernel features."""
    return SDH(bits, max_rows=MAX_SDH_ROWS)


def sdh_linear(bits: int) -> SDH:
    """Return SDH on the vectors as they are."""
    return SDH(bits, max_rows=MAX_SDH_ROWS, features=None)


def cca_itq(bits: int) -> CCAITQ:
    """Return CCA-ITQ."""
    return CCAITQ(bits, max_rows=MAX_CCA_ITQ_ROWS)


def classifier(_bits: int) -> ClassifierLabels:
    """Return the estimator whose codes are labels; the number of labels decides how long they are."""
    return ClassifierLabels()


# The classes of the others are such functions themselves: their first parameter is the number of bits.
ksh, fasthash, ssh, mlh, bre, classifier_bits = KSH, FastHash, SSH, MLH, BRE, ClassifierBits
