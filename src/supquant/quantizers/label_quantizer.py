"""What a quantizer that was fitted to labels does with them: it encodes and predicts labels, and learns new ones."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes
from supquant.codec import AdditiveCodec, MissingLabels, SemanticCodec
from supquant.errors import InputError
from supquant.interrupts import defers_interrupts
from supquant.parallel import row_blocks
from supquant.quantizers.chain import ChainedQuantizer
from supquant.validation import check_vectors

BLOCK_SCORES = 1 << 24
"""`predict` holds at most this number of label scores at a time."""


class LabelQuantizer(ChainedQuantizer):
    """The part of `SupervisedQuantizer` that needs only its codec."""

    codec_: AdditiveCodec | SemanticCodec  # type: ignore[assignment]
    _codec_type: ClassVar[tuple[type[Any], ...]] = (SemanticCodec, AdditiveCodec)

    def encode(
        self, X: ArrayLike, y: ArrayLike | None = None, *, missing_labels: MissingLabels = "predict"
    ) -> Codes:
        """Return the codes of vectors.

        Parameters
        ----------
        X : (n, p) array
        y : labels as in `fit`, or None, default=None
            If labels are known, the codes hold them.
        missing_labels : {"predict", "drop"}, default="predict"
            Used without `y`: ``"predict"`` takes the predicted label vector instead, and ``"drop"`` looks at the quantization
            error alone.

        Returns
        -------
        (n, M) uint8
        """
        return self._codec().encode_items(X, y, missing_labels=missing_labels, n_jobs=self.n_jobs)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of all labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, L) float32
        """
        return self._codec().decision_function(X, n_jobs=self.n_jobs)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the probabilities of all labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, L) float32
        """
        return self._codec().predict_proba(X, n_jobs=self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n,) array of classes, or (n, L) uint8
            With several labels for a row it is the indicator matrix of the scores above one half.
        """
        X = check_vectors(X, n_features=self._codec().n_inputs, min_rows=0)
        if self.codec_.multilabel:
            return (self.decision_function(X) > 0.5).astype(np.uint8)
        best = [
            self.decision_function(X[start:stop]).argmax(axis=1)
            for start, stop in row_blocks(len(X), max(1, BLOCK_SCORES // len(self.classes_)))
        ]
        classes: NDArray[Any] = self.classes_[np.concatenate([np.zeros(0, dtype=np.intp), *best])]
        return classes

    def novelty(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the probability that vectors belong to no known class.

        It was learned by leaving classes out. With several labels for a row, it is the probability of none of them.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n,) float32
        """
        return self._semantic_codec("novelty is learned").novelty(X, n_jobs=self.n_jobs)

    @defers_interrupts
    def extend(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add new classes from a few labelled rows of each.

        This needs neither the rows of `fit` nor new codes. An index with the new codec (`CodeIndex.with_codec`) also finds the
        items that it already has by the new labels.

        Parameters
        ----------
        X : (n, p) array
        y : (n,) array
            One label for each row. The model must not know them yet.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import CodeIndex, SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> known, new = np.flatnonzero(y < 9), np.flatnonzero(y == 9)
        >>> sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[known], y[known])
        >>> index = CodeIndex(sq).add(X[new[5:]])
        >>> index = index.with_codec(sq.extend(X[new[:5]], y[new[:5]]))
        >>> sq.classes_
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        self.codec_ = self._semantic_codec("labels can be added").extended(X, y)
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels found in `fit`, then those of `extend`: (L,)."""
        classes = self._codec().classes
        assert classes is not None
        return classes

    def _semantic_codec(self, purpose: str) -> SemanticCodec:
        codec = self._codec()
        if not isinstance(codec, SemanticCodec):
            raise InputError(f"{purpose} with features='auto' or a LabelKernel")
        return codec
