import numpy as np
import pytest
from noisy_classes import draw_classes

from supquant import SupervisedQuantizer
from supquant.kernels import device


def pytest_collection_modifyitems(items):
    """Skip these tests with a word where there is no GPU."""
    if reason := device.why_no_gpu():
        for item in items:
            if "tests/gpu" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def gpu():
    """The kernels of the GPU."""
    return device.cuda()


@pytest.fixture
def on_gpu():
    """Let searches and items take the GPU."""
    with device.use_device("cuda"):
        yield


@pytest.fixture(scope="session")
def models():
    """Models by name, of all kinds of features, spellings and codes."""
    X, y = draw_classes(10, 600, 24)
    many, many_y = draw_classes(300, 2400, 40, spread=0.3)
    several = (np.abs(X[:, :5]) > 1).astype(int)
    hidden = [label if label < 8 else None for label in y]
    return {
        "default": SupervisedQuantizer(8, random_state=0).fit(X, y),
        "short": SupervisedQuantizer(2, n_codewords=64, random_state=0).fit(X, y),
        "one byte": SupervisedQuantizer(1, random_state=0).fit(X, y),
        "long": SupervisedQuantizer(16, n_codewords=32, random_state=0).fit(X, y),
        "many labels": SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(many, many_y),
        "several labels": SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, several),
        "new classes": SupervisedQuantizer(4, random_state=0).fit(X, hidden),
        "far from zero": SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X + 1e4, y),
    }
