"""Vectors to features."""

from supquant.features.anchor_kernel import AnchorKernel, GaussianMap, map_rows
from supquant.features.choice import WIDE, Features, check_features, fit_feature_map
from supquant.features.gist import gist_descriptors
from supquant.features.label_kernel import LabelKernel
from supquant.features.label_map import LabelMap
from supquant.features.meaning import FittedMeaning, fit_meaning
from supquant.features.meaning_map import MeaningMap

__all__ = [
    "WIDE",
    "AnchorKernel",
    "Features",
    "FittedMeaning",
    "GaussianMap",
    "LabelKernel",
    "LabelMap",
    "MeaningMap",
    "check_features",
    "fit_feature_map",
    "fit_meaning",
    "gist_descriptors",
    "map_rows",
]
