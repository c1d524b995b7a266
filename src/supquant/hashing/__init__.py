"""Features to bits: the hashing methods, each in a file of its name."""

from supquant.hashing.base import HashEstimator
from supquant.hashing.bre import BRE
from supquant.hashing.cca_itq import CCAITQ
from supquant.hashing.classifier import ClassifierBits, ClassifierLabels
from supquant.hashing.fasthash import FastHash
from supquant.hashing.ksh import KSH
from supquant.hashing.mlh import MLH
from supquant.hashing.sdh import SDH
from supquant.hashing.ssh import SSH

__all__ = [
    "BRE",
    "CCAITQ",
    "KSH",
    "MLH",
    "SDH",
    "SSH",
    "ClassifierBits",
    "ClassifierLabels",
    "FastHash",
    "HashEstimator",
]
