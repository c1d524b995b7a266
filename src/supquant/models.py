"""Files to fitted estimators, of whichever method the file holds."""

from __future__ import annotations

import os

from supquant import hashing, quantizers
from supquant.errors import FileFormatError
from supquant.estimator import CodeEstimator
from supquant.storage import read_kind


def load_model(path: str | os.PathLike[str]) -> CodeEstimator:
    """Read a model that the `save` of any estimator wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, foreign, or holds no model.
    FileNotFoundError
        If there is no file.

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
        f"{os.fspath(path)}: holds a {kind!r}, which is no model of this version of supquant"
    )


def _estimators() -> list[type[CodeEstimator]]:
    found = [getattr(package, name) for package in (quantizers, hashing) for name in package.__all__]
    return [each for each in found if hasattr(each, "_file_kind")]
