"""Vectors to features: what the parameter `features` of a supervised quantizer stands for.

``"auto"`` and a `LabelKernel` are learned from labels, and codes of such features hold meaning and position (`by_meaning`).
With an `AnchorKernel` or None the fit is the published one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.base import clone

from supquant.features import WIDE, AnchorKernel, LabelKernel, check_features

SupervisedFeatures = LabelKernel | AnchorKernel | Literal["auto"] | None


def check_supervised_features(features: object) -> None:
    """Raise an error if `features` is none of the four."""
    if not isinstance(features, LabelKernel):
        check_features(features)


def are_learned_from_labels(features: SupervisedFeatures) -> bool:
    """Return whether these features are learned from labels."""
    return features == "auto" or isinstance(features, LabelKernel)


def make_label_kernel(
    features: SupervisedFeatures, n_inputs: int, n_jobs: int | None, rng: np.random.Generator
) -> LabelKernel:
    """Return the kernel to fit: a copy of the given one, or that of ``"auto"``.

    ``"auto"`` has no anchors if the vectors have more than `WIDE` dimensions, because these separate classes linearly.

    Parameters
    ----------
    features : LabelKernel or "auto"
    n_inputs : int
        Number of dimensions of the vectors.
    n_jobs : int or None
        Number of threads; None uses all cores.
    rng : Generator
        Seeds a kernel that has no seed.

    Returns
    -------
    LabelKernel
        Not fitted, and without directions, since a `MeaningMap` has its own.
    """
    given = features if isinstance(features, LabelKernel) else LabelKernel(0 if n_inputs > WIDE else None)
    kernel: LabelKernel = clone(given)
    kernel.set_params(n_jobs=n_jobs, n_directions=0)
    if kernel.random_state is None:
        kernel.set_params(random_state=int(rng.integers(2**31)))
    return kernel
