"""Vectors to features."""

from supquant.features.anchor_kernel import AnchorKernel, GaussianMap
from supquant.features.choice import Features, check_features, fit_feature_map
from supquant.features.gist import gist_descriptors

__all__ = ["AnchorKernel", "Features", "GaussianMap", "check_features", "fit_feature_map", "gist_descriptors"]
