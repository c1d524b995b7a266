"""What every estimator can do after its fit: the methods of its codec, predictions, and files."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant.arrays import ArrayLike, Codes
from supquant.codec.additive import AdditiveCodec
from supquant.codec.codebooks import MissingLabels
from supquant.codec.registry import load_codec_of
from supquant.errors import FileFormatError, InputError
from supquant.estimators.course import Record
from supquant.inputs.parameters import check_integer, random_generator, resolve_jobs
from supquant.inputs.unlabelled import labelled_rows
from supquant.inputs.validation import check_training_vectors, check_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import row_blocks, single_blas
from supquant.storage import shorten

BLOCK_SCORES = 1 << 24
"""`predict` computes at most this number of label scores at a time."""


class CodeEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of all estimators: everything that needs only `codec_`."""

    codec_: Any
    training_codes_: Codes
    n_jobs: int | None
    random_state: int | np.random.Generator | None
    _file_kind: ClassVar[str]
    """The kind of file that `save` writes; every estimator has its own."""
    _recorded: ClassVar[tuple[str, ...]] = ()
    """Names, without their last underscore, of the attributes that a file holds in addition to the codec."""
    _codec_type: ClassVar[type[Any]]
    """The class of `codec_`."""
    _needs_labels: ClassVar[bool] = True
    """Whether `fit` needs `y`."""

    def encode(self, X: ArrayLike) -> Codes:
        """Return the codes of vectors.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, M) uint8
        """
        return self._codec().encode(X, n_jobs=self.n_jobs)

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Return the vectors that codes stand for.

        Parameters
        ----------
        codes : (n, M) uint8

        Returns
        -------
        (n, r) float32
            In the space of `transform`.
        """
        return self._codec().decode(codes)

    def rank(self, Q: ArrayLike, codes: ArrayLike, ranking: str | None = None) -> NDArray[np.intp]:
        """Rank all codes for every query.

        Parameters
        ----------
        Q : (q, p) array
            Queries.
        codes : (n, M) uint8
            Codes of the items.
        ranking : str or None, default=None
            One of ``codec_.rankings``; None is the first of them.

        Returns
        -------
        (q, n) int
            Row numbers of the codes, nearest first; ties are in the order of the rows.
        """
        return self._codec().rank(Q, codes, ranking, n_jobs=self.n_jobs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file.

        The file holds the codec, the parameters and the record of the fit, but not the training codes. If writing fails, an
        older file of that name stays as it is.

        Parameters
        ----------
        path : str or path-like
        """
        codec = self._codec()
        record = {name: getattr(self, f"{name}_") for name in self._recorded}
        codec.save(path, kind=self._file_kind, settings={"parameters": self._parameters(), **record})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        CodeEstimator
            Fitted, without training codes.

        Raises
        ------
        FileFormatError
            If the file is damaged or holds something else.
        """
        codec, settings = load_codec_of(path, cls._file_kind)
        try:
            if not isinstance(codec, cls._codec_type):
                raise TypeError(f"it holds a {type(codec).__name__}")  # noqa: TRY301
            model = cls(**settings.pop("parameters"))
            _check_parameters(model, cls())
            for name in cls._recorded:
                setattr(model, f"{name}_", _checked_record(name, settings[name]))
        except (AttributeError, InputError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{os.fspath(path)}: it is from another version of supquant: {shorten(error)}"
            ) from error
        model.codec_ = codec
        model.n_features_in_ = codec.n_inputs
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the output is float32 for every input
        tags.target_tags.required = self._needs_labels
        return tags

    def _codec(self) -> Any:
        check_is_fitted(self, "codec_")
        return self.codec_

    @property
    def _n_features_out(self) -> int:
        return int(self._codec().codebooks.shape[2])

    def _store(self, codec: Any, codes: Codes) -> None:
        """Keep a fitted codec and the codes (n, M) of the training rows."""
        self.codec_ = codec
        self.n_features_in_ = int(codec.n_inputs)
        self.training_codes_ = codes

    def _parameters(self) -> dict[str, Any]:
        """Return the constructor's parameters that a file can hold; other objects are left out and load as their defaults."""
        given = cast("dict[str, Any]", self.get_params(deep=False))
        values = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()
        }
        return {name: value for name, value in values.items() if _is_plain(value)}


class LabelEstimator(CodeEstimator):
    """Base class of the estimators whose codec knows labels."""

    def encode(
        self, X: ArrayLike, y: ArrayLike | None = None, *, missing_labels: MissingLabels = "predict"
    ) -> Codes:
        """Return the codes of vectors.

        Parameters
        ----------
        X : (n, p) array
        y : labels as in `fit`, or None, default=None
            If labels are given, the codes hold them.
        missing_labels : {"predict", "drop"}, default="predict"
            Used without `y`: ``"predict"`` uses the predicted labels instead, and ``"drop"`` considers only the quantization
            error.

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
            With several labels per row, the indicator matrix of the scores above one half.
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

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the accuracy of `predict`, for scikit-learn's searches and cross-validation.

        Parameters
        ----------
        X : (n, p) array
        y : labels as in `fit`
            Rows without a label do not count.

        Returns
        -------
        float
            The fraction of rows whose label is predicted; with several labels per row, whose labels are all predicted.
        """
        labels, known = labelled_rows(y, missing=True, missing_label=getattr(self, "missing_label", None))
        predicted = self.predict(X)
        return float(accuracy_score(labels, predicted if known is None else predicted[known]))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that the model knows: (L,)."""
        classes = self._codec().classes
        assert classes is not None
        return classes


class Quantizer(CodeEstimator):
    """Base class of the quantizers with an `AdditiveCodec`."""

    codec_: AdditiveCodec
    objective_: list[Record]
    n_iter_: int
    n_codebooks: int
    n_codewords: int
    _codec_type: ClassVar[type[Any]] = AdditiveCodec

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Project vectors into the space of the codebooks.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, r) float32
        """
        codec: AdditiveCodec = self._codec()
        return codec.transform(X, n_jobs=self.n_jobs)


class UnsupervisedQuantizer(Quantizer):
    """Base class of the quantizers that need no labels."""

    _needs_labels = False

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the codebooks.

        Parameters
        ----------
        X : (n, p) array
            Vectors of any real dtype, at least as many as there are codewords in a codebook.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step, the estimator has the best model so far.
        """
        del y
        X = check_training_vectors(X)
        check_integer(self.n_codebooks, "n_codebooks", 1, X.shape[1])
        check_integer(self.n_codewords, "n_codewords", 2, 256)
        self._check_parameters(X.shape[1])
        check_enough_rows(len(X), self.n_codewords)
        with single_blas():
            self._learn(X, random_generator(self.random_state))
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None:
        """Check the parameters of this quantizer alone, for vectors of `n_features` dimensions."""

    @abstractmethod
    def _learn(self, X: NDArray[Any], rng: np.random.Generator) -> None:
        """Learn from checked vectors X (n, p) and store the result."""


def check_enough_rows(n_rows: int, n_codewords: int) -> None:
    """Raise an error if there are fewer rows than codewords in a codebook."""
    if n_rows < n_codewords:
        raise InputError(
            f"n_samples={n_rows} should be >= n_codewords={n_codewords}: give more rows, or ask for fewer codewords"
        )


def _check_parameters(model: CodeEstimator, default: CodeEstimator) -> None:
    """Raise a `TypeError` for parameters from a file that differ in type from their defaults, or that methods cannot use.

    A parameter that is None by default may be of any type that `_parameters` saves. Any parameter may be None.
    """
    usual = default.get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        kinds = next((each for each in (bool, str) if isinstance(usual[name], each)), int | float)
        fits = _is_plain(value) if usual[name] is None else value is None or isinstance(value, kinds)
        if not fits:
            raise TypeError(f"parameter {name!r} is {shorten(value)}")
    resolve_jobs(model.n_jobs)


def _checked_record(name: str, value: object) -> object:
    """Return what a file says about the course of a fit; raise a `TypeError` unless it is a number or a list of records."""
    if name == "n_iter":
        fits = type(value) is int and value >= 0
    else:
        fits = isinstance(value, list) and all(
            isinstance(entry, dict) and all(map(_is_plain, entry.values())) for entry in value
        )
    if not fits:
        raise TypeError(f"{name!r} is {shorten(value)}")
    return value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
