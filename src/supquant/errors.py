"""The exceptions of the library, raised at every stage; all derive from `SupquantError`.

An estimator used before `fit` raises scikit-learn's own `NotFittedError`, and a missing file
raises `FileNotFoundError`.
"""

__all__ = [
    "DeviceError",
    "FileFormatError",
    "InputError",
    "InputTypeError",
    "SaveConflictError",
    "SupquantError",
    "WorkerError",
]


class SupquantError(Exception):
    """Base of what supquant raises on purpose.

    Examples
    --------
    >>> try:
    ...     raise InputError("n_codebooks must be at least 1, got 0")
    ... except SupquantError as error:
    ...     print(error)
    n_codebooks must be at least 1, got 0
    """


class InputError(SupquantError, ValueError):
    """Vectors, labels or parameters that cannot be used as they are.

    Examples
    --------
    >>> issubclass(InputError, ValueError)
    True
    """


class InputTypeError(InputError, TypeError):
    """Input of a kind that holds no numbers: a sparse matrix, an array of dictionaries.

    It is a `TypeError` as well because scikit-learn's estimator checks ask for one.

    Examples
    --------
    >>> issubclass(InputTypeError, InputError)
    True
    """


class FileFormatError(SupquantError, ValueError):
    """A file that is damaged, truncated, altered, or not written by supquant.

    Examples
    --------
    >>> issubclass(FileFormatError, ValueError)
    True
    """


class SaveConflictError(SupquantError):
    """A folder holds a different index from the one to be replaced. Nothing was written.

    Examples
    --------
    >>> issubclass(SaveConflictError, SupquantError)
    True
    """


class DeviceError(SupquantError, RuntimeError):
    """A GPU was asked for that this process cannot use. The error says in one line what is missing.

    Examples
    --------
    >>> issubclass(DeviceError, SupquantError)
    True
    """


class WorkerError(SupquantError, RuntimeError):
    """Workers of a cluster that could not start, or were lost more often than they may be restarted.

    Examples
    --------
    >>> issubclass(WorkerError, SupquantError)
    True
    """
