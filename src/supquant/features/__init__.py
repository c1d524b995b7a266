"""Vectors to features."""

from supquant.features.anchor_kernel import AnchorKernel, GaussianMap

__all__ = ["AnchorKernel", "GaussianMap"]
