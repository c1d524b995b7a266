"""Quantizers whose longer codes start from a shorter one, fitted before or in the same fit, as published."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from supquant.arrays import ArrayLike, Codes
from supquant.codec.feature_map import FeatureMap
from supquant.errors import InputError
from supquant.estimators.quantizer import Quantizer, check_enough_rows
from supquant.estimators.training_codes import encode_training_rows
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer
from supquant.inputs.validation import check_training_rows
from supquant.published.features import fit_feature_map
from supquant.published.training import SHORTEST_CODE, Training
from supquant.rows import Rows


class ChainedQuantizer(Quantizer):
    """The meaning of `init`, and the code lengths of a fit."""

    init: Any
    n_components: int
    features: Any
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    @abstractmethod
    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        """Check and read the labels that came with the rows."""

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Rows, Labels]:
        """Return checked rows (n, p) and their labels."""
        rows = check_training_rows(X)
        labels = self._read_labels(y, len(rows))
        check_enough_rows(len(rows), self.n_codewords)
        return rows, labels

    def _fit_features(self, X: Rows, rng: np.random.Generator) -> FeatureMap | None:
        """Return the fitted map from vectors to features; with `init` it is the map of `init`."""
        if self.init is None:
            return fit_feature_map(self.features, X, rng, self.n_jobs)
        codec = self.init.codec_
        if codec.n_inputs != X.shape[1]:
            raise InputError(f"init was fitted on {codec.n_inputs} features, X has {X.shape[1]}")
        feature_map: FeatureMap | None = codec.feature_map
        return feature_map

    def _begin(self, training: Training, labels: Labels | None) -> list[int]:
        """Start from `init`, whose codes of the rows use their labels if there are any, or from product quantization.

        Returns
        -------
        list of int
            The numbers of codebooks for which the fit solves, in this order.
        """
        if self.init is None:
            shortest = min(SHORTEST_CODE, self.n_codebooks)
            training.begin(shortest, self.n_components)
            return sorted({shortest, self.n_codebooks})
        codes: Codes | None = getattr(self.init, "training_codes_", None)
        if codes is None or len(codes) != len(training.X):  # other rows than those of its fit
            codes = encode_training_rows(self.init.codec_, training.X, labels, self.n_jobs)
        training.begin_from(self.init.codec_, codes)
        return [self.n_codebooks]

    def _check_codebooks(self) -> None:
        """Check the numbers of codebooks, codewords and components, and whether `init` agrees with them."""
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
