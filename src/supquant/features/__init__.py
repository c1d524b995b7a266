"""Vectors to features."""

from supquant.features.anchor_kernel import AnchorKernel, GaussianMap, map_rows
from supquant.features.choice import WIDE, Features, check_features, fit_feature_map
from supquant.features.gist import gist_descriptors
from supquant.features.label_kernel import LabelKernel
from supquant.features.label_map import LabelMap

__all__ = [
    "WIDE",
    "AnchorKernel",
    "Features",
    "GaussianMap",
    "LabelKernel",
    "LabelMap",
    "check_features",
    "fit_feature_map",
    "gist_descriptors",
    "map_rows",
]
