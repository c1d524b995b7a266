"""Learn 4-byte codes from labelled digits, index others, search among all or some of them, and save the index."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from supquant import CodeIndex, SupervisedQuantizer

X, y = load_digits(return_X_y=True)  # (1797, 64), (1797,)
X_train, X_items, X_queries = np.split(X, [900, 1700])
y_train, y_items, y_queries = np.split(y, [900, 1700])

quantizer = SupervisedQuantizer(n_codebooks=4, random_state=0).fit(X_train, y_train)
names = np.array([f"digit-{row}" for row in range(len(X_items))])
index = CodeIndex(quantizer).add(X_items, ids=names)
print(f"{len(index)} items: {index.info()['bytes']['codes']:,} bytes of codes, {X_items.nbytes:,} of vectors")

scores, ids = index.search(X_queries, k=5)  # (97, 5) float32, (97, 5) str; nearest first
digit_of = dict(zip(names, y_items, strict=True))
right = [digit_of[name] == digit for row, digit in zip(ids, y_queries, strict=True) for name in row]
print(f"{np.mean(right):.0%} of the answers show the digit asked for")

odd = index.filter(names[y_items % 2 == 1])  # by ids, prepared once, for any number of searches
scores, ids = index.search(X_queries[:1], k=5, where=odd)
print(f"the odd digits nearest to a {y_queries[0]}:", *(digit_of[name] for name in ids[0]))

index.remove(names[:100])
with tempfile.TemporaryDirectory() as folder:
    index.save(Path(folder) / "digits.index")
    opened = CodeIndex.load(Path(folder) / "digits.index")
    print(f"{len(opened)} items opened again, the first of them is {opened.ids[0]}")
