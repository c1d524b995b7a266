"""Arrays of .npz files that tests wrote."""

import numpy as np


def read_arrays(path, names):
    with np.load(path) as archive:
        return tuple(archive[name] for name in names)
