"""Report: your own method, named as ``package.module:Class``.

The class is a `Method`, an estimator of the library, a subclass of one, or any class that has `fit` and `encode`, and either
`tables` or `scores`. Its module may be in the current folder.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.errors import InputError
from supquant.estimators.base import CodeEstimator
from supquant.model.quantizer import SupervisedQuantizer
from supquant_lab.hashing.base import HashEstimator
from supquant_lab.methods.codes import FittedCodes
from supquant_lab.methods.interface import Fitted, Method, Steps, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from supquant.codec.gaussian_map import GaussianMap

OWN_RANKING = "own"
"""The name of the ranking that an estimator has by itself."""

LENGTHS: Mapping[str, Callable[[int], int]] = {
    "n_codebooks": lambda bits: bits // 8,
    "n_bits": lambda bits: bits,
    "bits": lambda bits: bits,
}
"""Parameters of a constructor that can hold the length of a code, each with its value for a number of bits."""

GUIDE = "docs/maintainers/own-method.md shows one"


def is_own(name: str) -> bool:
    """Whether a name of a method is that of a class, as ``package.module:Class``.

    Examples
    --------
    >>> is_own("mine:Halves"), is_own("sq")
    (True, False)
    """
    return ":" in name


@lru_cache(maxsize=64)
def own_method(name: str) -> type[Method]:
    """Return the method of a class that is named as ``package.module:Class``.

    Parameters
    ----------
    name : str
        The module is looked for in the current folder first, then where Python finds modules.

    Returns
    -------
    type of Method
        The class itself if it is a `Method`; otherwise a method that fits the class at every code length.

    Raises
    ------
    InputError
        If the module cannot be imported, has no such class, or the class lacks a method.

    Examples
    --------
    >>> own_method("supquant:ProductQuantizer").rankings
    ('own',)
    """
    kind = _imported(name)
    if issubclass(kind, Method):
        if missing := sorted(getattr(kind, "__abstractmethods__", ())):
            raise InputError(f"{name} has no method {missing[0]}; {GUIDE}")
        return kind
    if not issubclass(kind, CodeEstimator):
        _check_methods(kind, name)
    _length_parameter(kind, name)
    published = "encoded" if issubclass(kind, HashEstimator) else "learned"
    described = {"name": name, "kind": kind, "published": published, "__doc__": kind.__doc__}
    return type(kind.__name__, (OwnEstimator,), described)


class OwnEstimator(Method):
    """A class that is fitted at every code length; it gets vectors as they are, and ranks in its own way.

    Attributes
    ----------
    kind : type
        The class. Its constructor takes `n_codebooks`, `n_bits` or `bits`, and may take `random_state`, `n_jobs` and `callback`.
    """

    kind: ClassVar[type[Any]]
    rankings: ClassVar[tuple[str, ...]] = (OWN_RANKING,)

    @cached_property
    def _fits(self) -> dict[int, Fitted]:
        return {}

    def fitted(self, bits: int) -> Fitted:
        """Return the fit at a code length. Fits are not kept in files: the code of the class may change between two runs."""
        if bits not in self._fits:
            self._fits[bits] = self._fit(bits)
        return self._fits[bits]

    def arguments(self, bits: int) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        settings, known = self.settings, inspect.signature(self.kind).parameters
        length = _length_parameter(self.kind, self.name)
        usual = {"random_state": settings.seed, "n_jobs": settings.n_jobs}
        told = {length: LENGTHS[length](bits)} | {
            name: value for name, value in usual.items() if name in known
        }
        takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
        for name in () if takes_any else settings.parameters:
            if name not in known:
                raise InputError(f"{self.name} has no parameter {name!r}; it has {', '.join(known)}")
        return {**told, **settings.parameters}

    def _fit(self, bits: int) -> Fitted:
        told = self.arguments(bits)
        watch = Watch(self.settings.time_limit, self.callback)
        watched = {"callback": watch} if "callback" in inspect.signature(self.kind).parameters else {}
        estimator = self.kind(**told, **watched)
        rows = self.training if _learns_without_labels(self.kind) else self.training.labelled()
        record = watch.fit(estimator, self._vectors(rows.every_row), rows.every_label)
        record["parameters"] = told | ({"n_iter": estimator.n_iter_} if hasattr(estimator, "n_iter_") else {})
        if isinstance(estimator, CodeEstimator):
            return FittedLibraryCodes(
                estimator, **record, feature_map=self._vectors, n_labelled=len(self.training.X)
            )
        return FittedOwn(estimator, self.name, self._vectors, **record)

    def _vectors(self, X: Array) -> Array:
        return X if self._kernel is None else self._kernel(X)

    @cached_property
    def _kernel(self) -> GaussianMap | None:
        return self.settings.fitted_features(self.training.X) if self.settings.kernel_for_all else None


class FittedLibraryCodes(FittedCodes):
    """An estimator of the library or a subclass of one, ranked by the first ranking of its codec."""

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps of the ranking that the codec has by default."""
        del ranking
        return super().steps(items, self.estimator.codec_.rankings[0])


class FittedOwn(Fitted):
    """A fitted class that the library does not know; items are what its `encode` returns, one row per item."""

    def __init__(
        self,
        estimator: Any,
        name: str,
        vectors: Callable[[Array], Array],
        **record: Any,
    ) -> None:
        super().__init__(**record)
        self.estimator, self._name, self._vectors = estimator, name, vectors

    def learned(self) -> Array | None:
        """Return `training_codes_` of the estimator; None if it has none."""
        return getattr(self.estimator, "training_codes_", None)

    def encoded(self, X: Array) -> Array:
        """Return what `encode` makes of vectors."""
        items = np.asarray(self.estimator.encode(self._vectors(X)))
        if items.ndim != 2 or len(items) != len(X):
            raise InputError(
                f"encode of {self._name} must return one row for each of {len(X)} vectors, got shape {items.shape}"
            )
        return items

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: look-up tables and their sums, or the scores that the class computes itself."""
        del ranking
        if not hasattr(self.estimator, "tables"):
            return {"features": self._vectors, "scan": lambda Q: np.asarray(self.estimator.scores(Q, items))}
        codes = np.ascontiguousarray(items, dtype=np.uint8)
        return {
            "features": self._vectors,
            "tables": lambda Q: np.ascontiguousarray(self.estimator.tables(Q), dtype=np.float32),
            "scan": lambda tables: kernels.active().table_sums(codes, tables),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Return the bytes of a row of the items."""
        return float(items.itemsize * items.shape[1])

    def distinct(self, items: Array) -> int:
        """Return the number of different items."""
        return len(np.unique(items, axis=0))


def _imported(name: str) -> type[Any]:
    """Return the class of a name ``package.module:Class``."""
    module_name, _, class_name = name.partition(":")
    here = os.getcwd()  # noqa: PTH109  sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module does, it is not the method that was asked for
        raise InputError(
            f"cannot import {module_name} of {name}: {type(error).__name__}: {error} "
            f"(looked in {here} and among the installed packages)"
        ) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"{module_name} has no {class_name!r}; it has {_classes(module)}")
    if not isinstance(found, type):
        raise InputError(f"{name} is not a class; {module_name} has {_classes(module)}")
    return found


def _classes(module: Any) -> str:
    names = [name for name, each in vars(module).items() if isinstance(each, type) and name[0] != "_"]
    return f"the classes {', '.join(names)}" if names else "no class"


def _check_methods(kind: type[Any], name: str) -> None:
    missing = [each for each in ("fit", "encode") if not callable(getattr(kind, each, None))]
    if not missing and not any(callable(getattr(kind, each, None)) for each in ("tables", "scores")):
        missing = ["tables and no method scores"]
    if missing:
        raise InputError(
            f"{name} has no method {' and no method '.join(missing)}: "
            f"your own method has fit and encode, and tables or scores; {GUIDE}"
        )


def _length_parameter(kind: type[Any], name: str) -> str:
    """Return the parameter of the constructor that holds the length of a code."""
    known = inspect.signature(kind).parameters
    for each in LENGTHS:
        if each in known:
            return each
    raise InputError(f"the constructor of {name} needs a parameter {' or '.join(LENGTHS)}; {GUIDE}")


def _learns_without_labels(kind: type[Any]) -> bool:
    """Whether a class can be fitted to rows without labels too."""
    if not issubclass(kind, CodeEstimator):
        return False
    return issubclass(kind, SupervisedQuantizer) or not kind._needs_labels
