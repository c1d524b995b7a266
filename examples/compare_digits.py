"""Fit several methods to labelled digits and compare the codes they give to digits without labels."""

import numpy as np
from sklearn.datasets import load_digits

from supquant import AnchorKernel, CompositeQuantizer, ProductQuantizer, SupervisedQuantizer
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import CCAITQ, KSH, SDH, ClassifierLabels, FastHash

X, y = load_digits(return_X_y=True)  # (1797, 64), (1797,)
rows = np.random.default_rng(0).permutation(len(X))
train, items, queries = np.split(rows, [900, 1700])
labels = read_labels(y)
kernel = AnchorKernel(200, random_state=0)

methods = [
    SupervisedQuantizer(n_codebooks=4, random_state=0),  # the default method
    ClassifierLabels(features=kernel),  # an item is its predicted label: 1 byte
    SDH(32, features=kernel, random_state=0),
    KSH(32, features=kernel, max_iter=50, random_state=0),
    FastHash(32, n_trees=10, random_state=0),
    CCAITQ(32, random_state=0),
    CompositeQuantizer(n_codebooks=4, max_iter=1, random_state=0),  # these two use no labels
    ProductQuantizer(n_codebooks=4, random_state=0),
]
for method in methods:
    codes = method.fit(X[train], y[train]).encode(X[items])  # (800, bytes) uint8
    found = evaluate_tables(method.codec_.tables(X[queries]), codes, labels.take(queries), labels.take(items))
    print(f"{type(method).__name__:20} {codes.shape[1]} bytes  MAP {found.map:.3f}")
