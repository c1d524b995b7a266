"""Features to bits: the hashing methods, each in a file of its name."""

from supquant_lab.hashing.base import HashEstimator
from supquant_lab.hashing.bre import BRE
from supquant_lab.hashing.cca_itq import CCAITQ
from supquant_lab.hashing.classifier import ClassifierBits, ClassifierLabels
from supquant_lab.hashing.fasthash import FastHash
from supquant_lab.hashing.ksh import KSH
from supquant_lab.hashing.mlh import MLH
from supquant_lab.hashing.sdh import SDH
from supquant_lab.hashing.ssh import SSH

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
