"""Report: methods whose items are codes of an estimator."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.codec.additive import AdditiveCodec
from supquant.codec.gaussian_map import GaussianMap
from supquant.model.codec import SupervisedCodec
from supquant.model.feature_map import SupervisedMap
from supquant.models import make_estimator
from supquant.parallel import row_blocks
from supquant_lab.hashing.binary_codec import BinaryCodec, hamming_distances
from supquant_lab.methods.interface import Fitted, Method, Steps, Watch
from supquant_lab.methods.kept import fingerprint
from supquant_lab.problem import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from supquant.estimators.base import CodeEstimator
    from supquant.published.anchor_kernel import AnchorKernel

SHORTEST_BITS = 16
"""The code length in bits that starts a chain."""

_UNRECORDED = ("features", "init", "callback", "verbose")
"""Parameters that are not recorded: objects, and those that do not change the codes."""


class FittedCodes(Fitted):
    """A fitted estimator; items are codes (n, M) uint8."""

    def __init__(
        self,
        estimator: Any,
        *,
        encode_settings: Mapping[str, Any] | None = None,
        feature_map: Callable[[Array], Array],
        n_labelled: int,
        **record: Any,
    ) -> None:
        super().__init__(**record)
        self.estimator = estimator
        self._mapped = feature_map  # from vectors to what the estimator takes
        self.encode_settings = encode_settings or {}
        self._n_labelled = n_labelled

    def learned(self) -> Array:
        """Return the codes (n, M) of the labelled training rows at the end of training."""
        codes: Array = self.estimator.training_codes_[: self._n_labelled]
        return codes

    def encoded(self, X: Array) -> Array:
        """Return the codes (n, M) of vectors without labels."""
        codes: Array = self.estimator.encode(self._mapped(X), **self.encode_settings)
        return codes

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: features, projection, look-up tables and scan; for binary codes features, encoding and scan."""
        codec = self.estimator.codec_

        def features(x: Array) -> Array:
            made: Array = codec.features(self._mapped(x))
            return made

        if isinstance(codec, BinaryCodec):
            return {
                "features": features,
                "encode": lambda features: codec.bits_of(codec.project(features)),
                "scan": lambda bits: hamming_distances(items, bits),
            }
        settled = isinstance(codec, SupervisedCodec) and not codec.any_unlabelled(items)

        def prepared(features: Array) -> Array:
            made: Array
            if settled:  # as in an index: if all items have labels, no query is new
                features = features.copy()
                features[:, codec.map.n_columns] = 0
                made = codec.prepare(features, ranking, all_labelled=True)
            else:
                made = codec.prepare(features, ranking)
            return made

        return {
            "features": features,
            "projection": prepared,
            "tables": lambda prepared: codec.tables_of(prepared, ranking),
            "scan": lambda tables: kernels.active().table_sums(items, tables),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Return M, one byte for each codebook."""
        return float(items.shape[1])

    def distinct(self, items: Array) -> int:
        """Return the number of different codes."""
        codes, _ = kernels.active().distinct(items)
        return len(codes)

    def quantization_error(self, X: Array, items: Array) -> float | None:
        """Return the relative error of decoded vectors, computed in blocks; None for codes that are not decoded."""
        codec = self.estimator.codec_
        if not isinstance(codec, AdditiveCodec):  # other codes are not in one space
            return None
        error, squares, total = 0.0, 0.0, np.zeros(1)
        for start, stop in row_blocks(len(X)):
            projected = np.asarray(
                codec.project(codec.features(self._mapped(X[start:stop]))), dtype=np.float64
            )  # (b, r)
            error += float(np.square(projected - codec.decode(items[start:stop])).sum())
            squares += float(np.square(projected).sum())
            total = total + projected.sum(axis=0)
        return error / (squares - float(np.square(total).sum()) / len(X))


class EstimatorMethod(Method):
    """An estimator at every code length, fitted alone or from the next shorter code.

    Attributes
    ----------
    kernel : bool
        Whether the method is published with kernel features; if not, it takes the vectors as they are.
    chained : bool
        Whether a longer code starts from the shorter one: 16, 32, 64, ... bits.
    takes_unlabelled : bool
        Whether the estimator is also fitted to rows without labels.
    """

    kernel: ClassVar[bool] = False
    chained: bool = False
    takes_unlabelled: bool = False

    @cached_property
    def _fits(self) -> dict[int, FittedCodes]:
        """The fits so far, by code length in bits."""
        return {}

    @property
    def estimator_name(self) -> str:
        """The name under which `make_estimator` knows the estimator."""
        return self.name

    def make(self, bits: int, parameters: Mapping[str, Any] | None = None) -> CodeEstimator:
        """Return the estimator before its fit."""
        return make_estimator(self.estimator_name, bits, parameters)

    def estimator(self, bits: int) -> CodeEstimator:
        """Return the estimator before its fit, without the shorter code that it starts from."""
        settings = self.settings
        estimator = self.make(bits, settings.parameters)
        known = estimator.get_params(deep=False)
        told: dict[str, Any] = {"random_state": settings.seed, "n_jobs": settings.n_jobs}
        if "features" in known:
            told["features"] = self.features()
        return estimator.set_params(**told)

    def features(self) -> AnchorKernel | Literal["auto"] | None:
        """Return the value of the parameter `features` of the estimator."""
        return self.settings.features() if self.kernel or self.settings.kernel_for_all else None

    @property
    def learned_from(self) -> Training:
        """The rows that the estimator is fitted to."""
        return self.training if self.takes_unlabelled else self.training.labelled()

    def vectors(self, X: Array) -> Array:
        """Return vectors (n, d) as the estimator takes them: as kernel features if it needs these and cannot make them."""
        return X if self._kernel is None else self._kernel(X)

    @cached_property
    def _kernel(self) -> GaussianMap | None:
        settings = self.settings
        if not settings.kernel_for_all or "features" in self.make(SHORTEST_BITS).get_params(deep=False):
            return None
        return settings.fitted_features(self.training.X)

    def fitted(self, bits: int) -> FittedCodes:
        """Return the fit at a code length; shorter codes of a chain are fitted first, and all fits are kept."""
        if bits not in self._fits:
            shorter_bits = next_shorter(bits) if self.chained else None
            self._fits[bits] = self._fit(bits, None if shorter_bits is None else self.fitted(shorter_bits))
        return self._fits[bits]

    def encode_settings(self) -> Mapping[str, Any]:
        """Return the arguments of `encode`."""
        return {}

    def _fit(self, bits: int, shorter: FittedCodes | None) -> FittedCodes:
        """Return the kept fit, or a new one."""
        estimator = self.estimator(bits)
        name = self._fit_name(estimator, bits) if self.kept else ""
        found = self.kept.find(name) if self.kept else None
        estimator, record = found or self._fit_now(estimator, bits, shorter)
        if self.kept and found is None:
            self.kept.keep(name, estimator, record)
        return FittedCodes(
            estimator,
            **record,
            encode_settings=self.encode_settings(),
            feature_map=self.vectors,
            n_labelled=len(self.training.X),
        )

    def _fit_now(
        self, estimator: CodeEstimator, bits: int, shorter: FittedCodes | None
    ) -> tuple[CodeEstimator, dict[str, Any]]:
        if shorter is not None:
            estimator.set_params(init=shorter.estimator)
        rows = self.learned_from
        watch = Watch(self.settings.time_limit, self.callback)
        if "callback" in estimator.get_params(deep=False):
            estimator.set_params(callback=watch)
        record = watch.fit(estimator, self.vectors(rows.every_row), rows.every_label)
        record["parameters"] = self._record(estimator, None if shorter is None else next_shorter(bits))
        if shorter is not None:
            record["chain_seconds"] = record["seconds"] + shorter.chain_seconds
            record["truncated"] |= shorter.truncated
        return estimator, record

    def _fit_name(self, estimator: CodeEstimator, bits: int) -> str:
        """Return the name of a fit, from everything that it depends on; the number of threads does not change codes."""
        settings = self.settings
        told = {
            name: value
            for name, value in estimator.get_params(deep=False).items()
            # `sdh-linear` is `sdh` without features, and is another fit
            if name not in (*_UNRECORDED, "n_jobs")
            or (name == "features" and (value is None or isinstance(value, str)))
        }
        kernel = (settings.n_anchors, settings.bandwidth, settings.kernel_for_all, settings.time_limit)
        kind = type(estimator).__name__
        return f"{kind}-{bits}bits-{fingerprint(self.learned_from, (kind, sorted(told.items()), kernel))}"

    def _record(self, estimator: CodeEstimator, starts_from: int | None) -> Mapping[str, Any]:
        told = estimator.get_params(deep=False)
        record = {name: value for name, value in told.items() if name not in _UNRECORDED}
        if "features" in told or self._kernel is not None:
            on_kernel = told.get("features", self._kernel) is not None
            record["anchors"] = self.settings.n_anchors if on_kernel else 0
            record["bandwidth"] = self.settings.bandwidth if on_kernel else None
            record["features"] = "raw" if not on_kernel else "kernel" if self.kernel else "kernel, ours"
            if told.get("features") == "auto":
                record["features"] = "labels"
                record["anchors"] = _n_anchors(estimator.codec_.feature_map)
        if self.chained:
            record["starts_from_bits"] = starts_from
        if hasattr(estimator, "n_iter_"):
            record["n_iter"] = estimator.n_iter_
        return {**record, **self.encode_settings()}


def _n_anchors(feature_map: object) -> int:
    """Return the number of anchors of a kernel, which may be inside a `SupervisedMap`; None without a kernel."""
    kernel = feature_map.kernel if isinstance(feature_map, SupervisedMap) else feature_map
    return len(kernel.anchors) if isinstance(kernel, GaussianMap) else 0


def next_shorter(bits: int) -> int | None:
    """Return the code length that a longer one starts from; None for the shortest.

    Examples
    --------
    >>> [next_shorter(bits) for bits in (8, 16, 32, 40, 64)]
    [None, None, 16, 32, 32]
    """
    if bits <= SHORTEST_BITS:
        return None
    shorter = SHORTEST_BITS
    while 2 * shorter < bits:
        shorter *= 2
    return shorter
