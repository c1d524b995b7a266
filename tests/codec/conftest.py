"""An additive codec of random arrays, and vectors for it."""

import numpy as np
import pytest
from additive_sizes import D, K, L, M, P, R

from supquant import AdditiveCodec
from supquant.codec.gaussian_map import GaussianMap


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.fixture
def codec(rng):
    """A codec with all its parts; gamma and mu are of the same size."""

    def draw(*shape):
        return read_only(rng.normal(size=shape).astype(np.float32))

    return AdditiveCodec(
        codebooks=draw(M, K, R),
        projection=draw(D, R),
        classifier=draw(R, L),
        classes=read_only(np.array(["bird", "cat", "dog"])),
        constant=0.3,
        quantization_weight=0.2,
        constraint_weight=0.1,
        feature_map=GaussianMap(draw(D, P), 1.5),
    )


@pytest.fixture
def vectors(rng):
    return read_only(rng.normal(size=(30, P)).astype(np.float32))
