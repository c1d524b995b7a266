"""Estimators by the name of their method, and models from files of any method."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from supquant import hashing, quantizers
from supquant.errors import FileFormatError, InputError
from supquant.estimator import CodeEstimator
from supquant.hashing import BRE, CCAITQ, KSH, MLH, SDH, SSH, ClassifierBits, ClassifierLabels, FastHash
from supquant.parameters import check_choice
from supquant.quantizers import (
    CompositeQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    SupervisedQuantizer,
    TripletQuantizer,
)
from supquant.storage import read_kind, shorten


def _quantizer(kind: Callable[..., CodeEstimator], **parameters: Any) -> Callable[[int], CodeEstimator]:
    return lambda bits: kind(bits // 8, **parameters)


ESTIMATORS: Mapping[str, Callable[[int], CodeEstimator]] = {
    "sq": _quantizer(SupervisedQuantizer),
    "sq-triplet": _quantizer(TripletQuantizer),
    "sq-no-transform": _quantizer(SupervisedQuantizer, projection="identity"),
    "cq": _quantizer(CompositeQuantizer),
    "pq": _quantizer(ProductQuantizer),
    "opq": _quantizer(OptimizedProductQuantizer),
    "sdh": partial(SDH, max_rows=100_000),
    "sdh-linear": partial(SDH, max_rows=100_000, features=None),
    "ksh": KSH,
    "fasthash": FastHash,
    "cca-itq": partial(CCAITQ, max_rows=500_000),
    "ssh": SSH,
    "mlh": MLH,
    "bre": BRE,
    "classifier": lambda _: ClassifierLabels(),
    "classifier-bits": ClassifierBits,
}
"""For each method by name, a function that takes the number of bits of a code and returns the estimator with its defaults."""


def make_estimator(name: str, bits: int, parameters: Mapping[str, Any] | None = None) -> CodeEstimator:
    """Return the estimator of a method.

    Parameters
    ----------
    name : str
        Name of the method, a key of `ESTIMATORS`.
    bits : int
        Number of bits of a code, a multiple of 8.
    parameters : mapping or None, default=None
        Parameters of the estimator to set, by name.

    Returns
    -------
    CodeEstimator
        Not fitted.

    Raises
    ------
    InputError
        If there is no such method or parameter, or `bits` is not a multiple of 8.

    Examples
    --------
    >>> make_estimator("pq", 16, {"max_iter": 5})
    ProductQuantizer(max_iter=5, n_codebooks=2)
    """
    check_choice(name, "method", tuple(ESTIMATORS))
    if bits < 8 or bits % 8:
        raise InputError(f"bits must be a multiple of 8, one byte a codebook; got {bits}")
    estimator = ESTIMATORS[name](bits)
    known = estimator.get_params(deep=False)
    if unknown := [each for each in parameters or () if each not in known]:
        raise InputError(
            f"{type(estimator).__name__} has no parameter {unknown[0]!r}; it has {', '.join(known)}"
        )
    return estimator.set_params(**parameters or {})


def load_model(path: str | os.PathLike[str]) -> CodeEstimator:
    """Read a model that the method `save` of any estimator wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    CodeEstimator
        Of the class that wrote the file.

    Raises
    ------
    FileFormatError
        If the file is damaged, or holds no model.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from supquant import ProductQuantizer, load_model
    >>> pq = ProductQuantizer(2, n_codewords=4).fit(np.random.default_rng(0).normal(size=(50, 4)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.save(f"{folder}/model")
    ...     load_model(f"{folder}/model")
    ProductQuantizer(n_codebooks=2, n_codewords=4)
    """
    kind = read_kind(path)
    for each in _estimators():
        if each._file_kind == kind:
            return each.load(path)
    raise FileFormatError(
        f"{os.fspath(path)}: holds a {shorten(kind)}, which is no model of this version of supquant"
    )


def _estimators() -> list[type[CodeEstimator]]:
    found = [getattr(package, name) for package in (quantizers, hashing) for name in package.__all__]
    return [each for each in found if hasattr(each, "_file_kind")]
