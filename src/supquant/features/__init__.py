"""Vectors to features."""

from supquant.features.anchor_kernel import AnchorKernel, GaussianMap
from supquant.features.choice import Features, check_features, fit_feature_map

__all__ = ["AnchorKernel", "Features", "GaussianMap", "check_features", "fit_feature_map"]
