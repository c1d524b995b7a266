"""The 1,797 handwritten digits of scikit-learn: 8 x 8 pixels of 0..16, ten classes."""

from __future__ import annotations

from sklearn.datasets import load_digits

from supquant_lab.datasets.dataset import Dataset, divided_by


def load(name: str = "digits") -> Dataset:
    """Load the digits; no file is needed.

    Examples
    --------
    >>> load().X.shape
    (1797, 64)
    """
    X, y = load_digits(return_X_y=True)
    return Dataset(name=name, X=X, y=y, prepare=divided_by(16), image_shape=(8, 8))
