"""Quantizers whose longer codes start from a shorter one, fitted before or in the same fit, as published."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from supquant.arrays import Codes
from supquant.errors import InputError
from supquant.estimators.base import Quantizer
from supquant.estimators.training_codes import encode_training_rows
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant.published.anchor_kernel import check_features, fit_feature_map
from supquant.published.training import SHORTEST_CODE, ProjectionName, Training
from supquant.rows import Rows


class ChainedQuantizer(Quantizer):
    """The parameter `init`, and where a fit begins."""

    init: Any
    n_components: int
    features: Any
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def _check_codebooks(self) -> None:
        """Check the features, the numbers of codebooks, codewords and components, and whether `init` agrees with them."""
        M = check_integer(self.n_codebooks, "n_codebooks", 1, 64)
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        check_integer(self.n_components, "n_components", 1)
        check_features(self.features)
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

    @property
    def _lengths(self) -> list[int]:
        """The code lengths to solve for: `n_codebooks`, and before it the shortest one unless there is an `init`."""
        M = self.n_codebooks
        return [M] if self.init is not None else sorted({min(SHORTEST_CODE, M), M})

    def _begin(
        self,
        X: Rows,
        labels: Labels,
        rng: np.random.Generator,
        weights: tuple[float, float, float],
        projection: ProjectionName = "learned",
    ) -> Training:
        """Return the state of a fit to rows X (n, p) that starts from `init`, or from product quantization."""
        n_jobs = resolve_jobs(self.n_jobs)
        if self.init is None:
            feature_map = fit_feature_map(self.features, X, rng, self.n_jobs)
            training = Training(X, labels, feature_map, self.n_codewords, rng, n_jobs, weights, projection)
            training.begin(self._lengths[0], self.n_components)
            return training
        codec = self.init.codec_
        if codec.n_inputs != X.shape[1]:
            raise InputError(f"init was fitted on {codec.n_inputs} features, X has {X.shape[1]}")
        training = Training(X, labels, codec.feature_map, self.n_codewords, rng, n_jobs, weights, projection)
        codes: Codes | None = getattr(self.init, "training_codes_", None)
        if codes is None or len(codes) != len(X):  # other rows than those of its fit
            codes = encode_training_rows(codec, X, None if codec.classes is None else labels, self.n_jobs)
        training.begin_from(codec, codes)
        return training
