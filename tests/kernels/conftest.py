import numpy as np
import pytest

from supquant.kernels import native


@pytest.fixture(params=native.available_levels())
def level(request):
    """Run the test once for every instruction set of this machine."""
    before = native.level()
    native.force_level(request.param)
    yield request.param
    native.force_level(before)


@pytest.fixture(scope="session")
def draw_problem():
    """Return a function that draws the arguments of `assign` up to the codes."""

    def draw(n, M, K, seed=0, *, whole_numbers=False, mu=0.7, eps=0.3):
        rng = np.random.default_rng(seed)
        if whole_numbers:  # float32 sums of small whole numbers are exact, and ties are everywhere
            unary = rng.integers(-3, 4, size=(n, M * K))
            halves = [rng.integers(-2, 3, size=(M * K, M * K)) for _ in range(2)]
            cross, product = (half + half.T for half in halves)
            mu, eps = 1.0, 2.0
        else:
            codewords = rng.normal(size=(M * K, 6))
            unary = rng.normal(size=(n, M * K))
            cross = codewords @ codewords.T + codewords[:, :1] @ codewords[:, :1].T
            product = codewords @ codewords.T
        arrays = [np.ascontiguousarray(array, dtype=np.float32) for array in (unary, cross, product)]
        codes = rng.integers(0, K, size=(n, M), dtype=np.uint8)
        return (*arrays, mu, eps, codes)

    return draw
