"""Estimators by the name of their method, and models from the files of any method."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from supquant.codec.registry import plugins
from supquant.errors import FileFormatError, InputError
from supquant.inputs.parameters import check_choice
from supquant.storage import read_kind, shorten

if TYPE_CHECKING:
    from supquant.estimators.base import CodeEstimator

METHODS = {
    "sq": "supquant.model:SupervisedQuantizer",
    "published": "supquant.published:PublishedQuantizer",
    "cq": "supquant.baselines:CompositeQuantizer",
    "pq": "supquant.baselines:ProductQuantizer",
    "opq": "supquant.baselines:OptimizedProductQuantizer",
}
"""Every estimator of the library, by the name of its method.

Other packages add methods in the group ``supquant.methods``, each a function from a number of bits to an estimator. They add the
classes whose files `load_model` reads in the group ``supquant.models``, each by the kind of its files.
"""


def method_names() -> tuple[str, ...]:
    """Return the names of all methods, with those of other packages at the end.

    Examples
    --------
    >>> method_names()[:2]
    ('sq', 'published')
    """
    return (*METHODS, *plugins("supquant.methods"))


def make_estimator(name: str, bits: int, parameters: Mapping[str, Any] | None = None) -> CodeEstimator:
    """Return the estimator of a method.

    Parameters
    ----------
    name : str
        Name of the method, one of `method_names`.
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
    check_method(name, bits)
    if name in METHODS:
        estimator: CodeEstimator = _loaded(METHODS[name])(bits // 8)
    else:
        estimator = plugins("supquant.methods")[name].load()(bits)
    known = estimator.get_params(deep=False)
    for each in parameters or ():
        if each not in known:
            owners = [
                other for other, place in METHODS.items() if each in _loaded(place)().get_params(deep=False)
            ]
            others = f"methods {', '.join(owners)}" if len(owners) > 1 else f"method {''.join(owners)}"
            hint = f"it is one of the {others}" if owners else f"it has {', '.join(known)}"
            raise InputError(f"the method {name} has no parameter {each!r}; {hint}")
    return estimator.set_params(**parameters or {})


def check_method(name: str, bits: int) -> None:
    """Raise an InputError if there is no method of this name, or if its codes cannot have this number of bits.

    Examples
    --------
    >>> check_method("pq", 12)
    Traceback (most recent call last):
    supquant.errors.InputError: bits must be a multiple of 8, one byte per codebook; got 12
    """
    check_choice(name, "method", method_names())
    if bits < 8 or bits % 8:
        raise InputError(f"bits must be a multiple of 8, one byte per codebook; got {bits}")


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
    for each in METHODS.values():
        if (found := _loaded(each))._file_kind == kind:
            return found.load(path)
    if kind in plugins("supquant.models"):
        model: CodeEstimator = plugins("supquant.models")[kind].load().load(path)
        return model
    raise FileFormatError(
        f"{os.fspath(path)}: holds a {shorten(kind)}, which is not a model of this version of supquant"
    )


def _loaded(place: str) -> type[CodeEstimator]:
    module, name = place.split(":")
    found: type[CodeEstimator] = getattr(import_module(module), name)
    return found
