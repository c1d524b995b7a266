"""NumPy in place of a GPU, so that what a fit does there is tested without one.

Arrays "there" are of a class of their own. As with CuPy, arithmetic with an array of NumPy is an error: it would be a copy that
somebody forgot.
"""

from types import SimpleNamespace

import numpy as np
import scipy.linalg

from supquant import kernels
from supquant.kernels import pack_rows


class ThereArray(np.ndarray):
    """An array that lies on the stand-in of a GPU."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        for each in (*inputs, *out):
            if type(each) is np.ndarray and each.ndim:
                raise TypeError(f"{ufunc.__name__} of an array there and one of NumPy")
        given = [_plain(each) for each in inputs]
        if out:
            options["out"] = tuple(_plain(each) for each in out)
        made = getattr(ufunc, method)(*given, **options)
        return out[0] if out else _there(made)

    def __array_function__(self, function, types, args, options):
        if np.ndarray in types:
            raise TypeError(f"{function.__name__} of an array there and one of NumPy")
        return _there(function(*map(_plain, args), **{name: _plain(each) for name, each in options.items()}))

    def __dlpack_device__(self):
        return 2, 0

    def get(self):
        return np.array(self, subok=False)

    def __array__(self, *args, **options):
        raise TypeError("an implicit copy to NumPy")


def _plain(each):
    if isinstance(each, ThereArray):
        return each.view(np.ndarray)
    if isinstance(each, list | tuple):
        return type(each)(map(_plain, each))
    return each


def _there(each):
    return each.view(ThereArray) if isinstance(each, np.ndarray | np.generic) and each.ndim else each


class _Arrays:
    """The functions of NumPy, whose results lie there."""

    linalg = SimpleNamespace(eigh=lambda matrix: tuple(map(_there, np.linalg.eigh(_plain(matrix)))))

    def __getattr__(self, name):
        function = getattr(np, name)

        def call(*args, **options):
            with np.errstate(over="ignore"):  # a GPU does not warn
                return _there(function(*map(_plain, args), **options))

        return call


class _Matrix:
    def __init__(self, y):
        self.n = len(y)
        self._rows = pack_rows(y)

    def products(self, x):
        return _there(kernels.active().products(np.ascontiguousarray(_plain(x)), self._rows))


class _Search:
    def __init__(self, cross, product, K, mu, eps, beam=1):
        self._tables, self._K, self._options, self._beam = (cross, product), K, (mu, eps), beam

    def codes(self, unary, more=None, *, start=None, by_beam=False, max_sweeps=20):
        costs = _plain(unary) if more is None else _plain(unary) + _plain(more)
        codes = np.zeros((len(costs), costs.shape[1] // self._K), dtype=np.uint8)
        if start is not None:
            codes = np.ascontiguousarray(_plain(start))
        if by_beam:
            codes = kernels.active().beam(costs, self._tables[0], self._K, self._beam)
        return _there(kernels.active().assign(costs, *self._tables, *self._options, codes, max_sweeps))


def _cholesky(matrix):
    try:
        return _there(np.linalg.cholesky(_plain(matrix)))
    except np.linalg.LinAlgError:
        return None


def _solve_cholesky(lower, right):
    return _there(scipy.linalg.cho_solve((_plain(lower), True), _plain(right)))


stand_in_gpu = SimpleNamespace(
    arrays=_Arrays(),
    cholesky=_cholesky,
    solve_cholesky=_solve_cholesky,
    free_bytes=lambda: 1 << 30,
    Matrix=_Matrix,
    Search=_Search,
)
