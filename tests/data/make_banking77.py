"""Make banking77.npz, the embeddings of a part of Banking77 that the floors of the default model are measured on.

python tests/data/make_banking77.py FOLDER    the folder has banking77_minilm.npz; docs/datasets.md says where from
"""

import sys
from pathlib import Path

import numpy as np

CLASSES, ROWS = 40, 90


def main(folder):
    with np.load(folder / "banking77_minilm.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
    rng = np.random.default_rng(0)
    classes = np.sort(rng.permutation(y.max() + 1)[:CLASSES])
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == each))[:ROWS] for each in classes])
    rows = rng.permutation(rows)
    scale = np.abs(X[rows]).max() / 127
    np.savez_compressed(
        Path(__file__).parent / "banking77.npz",
        X=np.round(X[rows] / scale).astype(np.int8),  # of unit length, but for the rounding
        y=np.searchsorted(classes, y[rows]).astype(np.uint8),
        scale=np.float32(scale),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
