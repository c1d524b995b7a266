"""What all estimators offer once they are fitted: the ways of their codec, and files."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant import kernels
from supquant.codec import load_codec_of
from supquant.errors import FileFormatError
from supquant.validation import resolve_jobs


class CodeEstimator(TransformerMixin, BaseEstimator):
    """The shared part of quantizers and hashing: everything that needs no more than `codec_`."""

    codec_: Any
    n_jobs: int | None
    _file_kind: ClassVar[str]
    _recorded: ClassVar[tuple[str, ...]] = ()
    """Attributes, less their underscore, that a file holds beside the codec."""
    _former_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that older files hold and that are no more."""
    _codec_type: ClassVar[tuple[type[Any], ...]]
    """What `codec_` may be."""

    def decode(self, codes: object) -> NDArray[np.float32]:
        """Give the vectors (n, r) float32 that codes (n, M) stand for, in the space of `transform`."""
        return self._codec().decode(codes)

    @property
    def features_need_labels(self) -> bool:
        """Whether the features themselves are learned from labels."""
        return False

    def tables(self, Q: object, ranking: str | None = None) -> NDArray[np.float32]:
        """Make the look-up tables of queries.

        Parameters
        ----------
        Q : (q, p) array
        ranking : str, optional
            One of ``codec_.rankings``; the first of them by default.

        Returns
        -------
        (q, M, K) float32
            Summed over the codewords of a code, smaller is nearer.
        """
        return self._codec().query_tables(Q, ranking, n_jobs=self.n_jobs).tables

    def rank(self, Q: object, codes: object, ranking: str | None = None) -> NDArray[np.intp]:
        """Rank all codes for every query, exactly.

        Parameters
        ----------
        Q : (q, p) array
        codes : (n, M) uint8
        ranking : str, optional
            As for `tables`.

        Returns
        -------
        (q, n) int
            Row numbers of the codes, nearest first; of equal ones the earlier.
        """
        checked = self._codec().check_codes(codes)
        sums = kernels.active().table_sums(
            checked, self.tables(Q, ranking), n_threads=resolve_jobs(self.n_jobs)
        )
        return sums.argsort(axis=1, kind="stable")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; a failure leaves what was there before.

        The file holds the codec, the parameters and the record of the fit, but not the training codes.
        """
        codec = self._codec()
        record = {name: getattr(self, f"{name}_") for name in self._recorded}
        codec.save(path, kind=self._file_kind, settings={"parameters": self._parameters(), **record})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote."""
        codec, settings = load_codec_of(path, cls._file_kind)
        try:
            if not isinstance(codec, cls._codec_type):
                raise TypeError(f"it holds a {type(codec).__name__}")  # noqa: TRY301
            given = settings.pop("parameters")
            model = cls(
                **{name: value for name, value in given.items() if name not in cls._former_parameters}
            )
            for name in cls._recorded:
                setattr(model, f"{name}_", settings[name])
        except (KeyError, TypeError) as error:
            raise FileFormatError(
                f"{os.fspath(path)}: it is of another version of supquant: {error!r}"
            ) from error
        model.codec_ = codec
        model.n_features_in_ = codec.n_inputs
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # float32 whatever comes in
        return tags

    def _codec(self) -> Any:
        check_is_fitted(self, "codec_")
        return self.codec_

    def _parameters(self) -> dict[str, Any]:
        """Give the constructor's parameters that a file can hold; live objects are left to their defaults."""
        given = cast("dict[str, Any]", self.get_params(deep=False))
        values = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()
        }
        return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
