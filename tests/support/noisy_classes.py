"""Vectors around the centres of classes. The same classes come with every seed."""

import numpy as np


def draw_classes(n_classes, n, p, seed=0, spread=0.6):
    """Return vectors (n, p) float32 and their classes (n,)."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(n_classes, p))
    y = rng.integers(0, n_classes, n)
    return (centres[y] + spread * rng.normal(size=(n, p))).astype(np.float32), y
