"""Vectors to features.

Codecs hold fitted maps. The estimators that fit them need scikit-learn, and are imported when they are used.

    gaussian_map       GaussianMap: the Gaussian kernel on anchors, and rows through any map block by block
    anchor_kernel      AnchorKernel, which draws the anchors
    choice             the map that an estimator's parameter `features` stands for
    label_map          LabelMap: probabilities of labels, and coordinates
    label_kernel       LabelKernel, which learns it
    kernel_rows        labelled rows seen through a kernel, and sums over them
    least_squares      least squares with a path of ridges
    descent            logistic regression, by steps as long as held-out rows choose
    kernel_classifier  one after the other, for rows seen through a kernel
    class_means        the classifier for many classes: linear discriminant analysis
    meaning_map        MeaningMap: what a vector means, how new it looks, and where it lies
    meaning            fit_meaning, which fits it
    position           coordinates and a metric in which classes lie close together
    novelty            how new a vector looks, learned from rows without labels
    leaving_out        how new a vector looks, learned from classes that are left out of training
    added_classes      classes that are added after the fit
    gist               pictures to vectors
"""

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
