"""Published pickles, read without running any code in them."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read_pickle(content: bytes, path: Path) -> Any:
    """Return the content of a pickle, also of Python 2: arrays, numbers, texts, and tuples, lists and dictionaries of them.

    Parameters
    ----------
    content : bytes
    path : Path
        The file, for the error.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_pickle(pickle.dumps({"labels": [6, 9]}), Path("batch"))
    {'labels': [6, 9]}
    >>> read_pickle(pickle.dumps(print), Path("batch"))
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: batch is not a pickle of plain arrays: it must not hold builtins.print
    """
    try:
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    # a damaged pickle is a program with random instructions, which may raise nearly any error
    except Exception as error:
        raise InputError(f"{path} is not a pickle of plain arrays: {error}") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Reads NumPy arrays and built-in types only: with other types a pickle could run any code."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module.endswith("core.multiarray"):
            return np.ndarray(0).__reduce__()[
                0
            ]  # the function itself, which versions of NumPy keep in different modules
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it must not hold {module}.{name}")
