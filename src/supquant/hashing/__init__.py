"""Features to bits: hashing methods, each in a file named after its method."""

from supquant.hashing.base import HashEstimator

__all__ = ["HashEstimator"]
