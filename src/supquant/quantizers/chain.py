"""Quantizers of which a longer code starts from a shorter one, fitted before or within the same fit, as published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from supquant.arrays import Codes
from supquant.codec import FeatureMap
from supquant.errors import InputError
from supquant.features import Features, fit_feature_map
from supquant.quantizers.base import FittedQuantizer
from supquant.quantizers.training import SHORTEST, Training
from supquant.validation import check_integer


class ChainedQuantizer(FittedQuantizer):
    """The shared part of the supervised quantizers: what `init` means, and the lengths that a fit goes through."""

    init: Any
    n_codebooks: int
    n_codewords: int
    n_components: int
    features: Features
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def _check_codebooks(self) -> None:
        """Check the sizes, and that `init` is fitted and fits them."""
        M = check_integer(self.n_codebooks, "n_codebooks", 1, 64)
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        check_integer(self.n_components, "n_components", 1)
        if self.init is None:
            return
        if not isinstance(self.init, type(self)):
            raise InputError(f"init must be a fitted {type(self).__name__} or None, got {self.init!r}")
        shorter = self.init._codec()
        if shorter.n_codebooks > M or shorter.n_codewords != K:
            raise InputError(
                f"init must have at most n_codebooks={M} codebooks of n_codewords={K} codewords, "
                f"got {shorter.n_codebooks} of {shorter.n_codewords}"
            )

    def _fit_features(self, X: NDArray[Any], rng: np.random.Generator) -> FeatureMap | None:
        """Fit the map from vectors to features, or take that of `init`."""
        if self.init is None:
            return fit_feature_map(self.features, X, rng, self.n_jobs)
        shorter = self.init.codec_
        if shorter.n_inputs != X.shape[1]:
            raise InputError(f"init was fitted on {shorter.n_inputs} features, X has {X.shape[1]}")
        feature_map: FeatureMap | None = shorter.feature_map
        return feature_map

    def _begin(self, training: Training, codes: Callable[[], Codes]) -> list[int]:
        """Start from `init` and the codes of the rows under it, or from nothing.

        Returns the numbers of codebooks to solve for, one after the other.
        """
        if self.init is None:
            shortest = min(SHORTEST, self.n_codebooks)
            training.begin(shortest, self.n_components)
            return sorted({shortest, self.n_codebooks})
        training.begin_from(self.init.codec_, codes())
        return [self.n_codebooks]

    def _init_codes(self, X: NDArray[Any], **encoding: Any) -> Codes:
        """Give the codes of X under `init`, made by its codec if X are other rows than it was fitted to."""
        codes: Codes | None = getattr(self.init, "training_codes_", None)
        if codes is None or len(codes) != len(X):
            codes = self.init.codec_.encode(X, n_jobs=self.n_jobs, **encoding)
        return codes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
