"""Supervised quantizers whose longer codes start from a shorter one, fitted before or in the same fit, as published."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes
from supquant.codec import FeatureMap
from supquant.errors import InputError
from supquant.features import fit_feature_map
from supquant.labels import Labels
from supquant.parallel import single_blas
from supquant.parameters import check_integer, random_generator
from supquant.quantizers.base import FitPlan, Quantizer, check_enough_rows
from supquant.quantizers.remote_codes import encode_training_rows
from supquant.quantizers.training import SHORTEST_CODE, Training
from supquant.validation import check_training_vectors


class ChainedQuantizer(Quantizer):
    """The shared part of the supervised quantizers: their fit, the meaning of `init`, and the code lengths of a fit."""

    init: Any
    n_components: int
    features: Any
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def _fit(self, X: ArrayLike, y: ArrayLike) -> Labels:
        """Check, prepare, learn and store; return the labels of the rows."""
        self._check_codebooks()
        self._check_parameters()
        X = check_training_vectors(X)
        labels = self._read_labels(y, len(X))
        check_enough_rows(len(X), self.n_codewords)
        with single_blas():
            self._run(self._plan(X, labels, random_generator(self.random_state)))
        return labels

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check the parameters that the other supervised quantizers do not have."""

    @abstractmethod
    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        """Check and read the labels that came with the rows."""

    @abstractmethod
    def _plan(self, X: NDArray[Any], labels: Labels, rng: np.random.Generator) -> FitPlan[Any]:
        """Prepare the fit to checked vectors X (n, p) and their labels."""

    # parts of a plan --------------------------------------------------------------------------------------------------

    def _fit_features(self, X: NDArray[Any], rng: np.random.Generator) -> FeatureMap | None:
        """Return the fitted map from vectors to features; with `init` it is the map of `init`."""
        if self.init is None:
            return fit_feature_map(self.features, X, rng, self.n_jobs)
        self._check_width(X)
        feature_map: FeatureMap | None = self.init.codec_.feature_map
        return feature_map

    def _begin(self, training: Training, codes: Callable[[], Codes]) -> list[int]:
        """Start from `init` and the codes (n, M) of the rows under it, or from product quantization.

        Returns
        -------
        list of int
            The numbers of codebooks for which the fit solves, in this order.
        """
        if self.init is None:
            shortest = min(SHORTEST_CODE, self.n_codebooks)
            training.begin(shortest, self.n_components)
            return sorted({shortest, self.n_codebooks})
        training.begin_from(self.init.codec_, codes())
        return [self.n_codebooks]

    def _init_codes(self, X: NDArray[Any], labels: Labels | None = None) -> Codes:
        """Return the codes (n, M) of X under `init`: those of its fit, or new ones if X has another number of rows."""
        codes: Codes | None = getattr(self.init, "training_codes_", None)
        if codes is None or len(codes) != len(X):
            codes = encode_training_rows(self.init.codec_, X, labels, self.n_jobs)
        return codes

    # checks -----------------------------------------------------------------------------------------------------------

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

    def _check_width(self, X: NDArray[Any]) -> None:
        """Check that `init` was fitted to vectors as wide as X (n, p)."""
        width = self.init.codec_.n_inputs
        if width != X.shape[1]:
            raise InputError(f"init was fitted on {width} features, X has {X.shape[1]}")
