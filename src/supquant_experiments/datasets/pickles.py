"""Published pickles, read without running what they may hold."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read_pickle(content: bytes, path: Path) -> Any:
    """Read a pickle, also one of Python 2, of arrays, numbers, texts, and tuples, lists and dictionaries of them.

    Parameters
    ----------
    content : bytes
    path : Path
        Where it is from.

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
    # a damaged pickle is a program with random instructions: nearly any error may come out of it
    except Exception as error:
        raise InputError(f"{path} is not a pickle of plain arrays: {error}") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles NumPy arrays and nothing else that is not built in: a pickle could otherwise run any code."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module.endswith("core.multiarray"):
            return np.ndarray(0).__reduce__()[0]  # that very function, wherever this NumPy keeps it
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it must not hold {module}.{name}")
