"""Arrays and settings of a stored file, and what the tests of such files have in common."""

import numpy as np
from hypothesis import HealthCheck, settings

ARRAYS = {
    "codes": np.arange(51, dtype=np.uint8).reshape(17, 3),
    "codebooks": np.linspace(-1, 1, 24).reshape(2, 3, 4),
    "none": np.zeros((0, 5), dtype=np.float32),
}
SETTINGS = {
    "n_codewords": 256,
    "nested": {"list": [1, 2.5, None, True]},
    "text": 'señal " \\ supquant.header',
}
reusing_the_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array, dtype=found[name].dtype).tobytes()


def entry(shape, begin, end, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
