"""Vectors to features. Maps are what codecs hold; what fits them needs scikit-learn, and is imported when it is used."""

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.features.anchor_kernel import AnchorKernel
    from supquant.features.choice import WIDE, Features, check_features, fit_feature_map
    from supquant.features.gaussian_map import GaussianMap, map_rows
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

__getattr__ = lazy_names(
    __name__,
    {
        "anchor_kernel": ("AnchorKernel",),
        "choice": ("WIDE", "Features", "check_features", "fit_feature_map"),
        "gaussian_map": ("GaussianMap", "map_rows"),
        "gist": ("gist_descriptors",),
        "label_kernel": ("LabelKernel",),
        "label_map": ("LabelMap",),
        "meaning": ("FittedMeaning", "fit_meaning"),
        "meaning_map": ("MeaningMap",),
    },
)
