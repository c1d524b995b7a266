"""Gaussian classes, many of them: what short codes keep of their labels, beside storing the label and the Bayes rule.

    python benchmarks/labels.py --labels 1000 --rows 200000 --dimensions 384 --spread 0.3 --bytes 2

Classes are normal around means that are normal themselves, `--spread` as wide. Printed are the seconds of the fit, also as
multiples of one float32 X'X, and its peak memory above the data; how often the classifier inside is right; MAP of a sample of
items with their labels, and of other rows without, each beside float scores; and the time from a vector to its tables.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from supquant import CodeIndex, SupervisedQuantizer
from supquant.metrics import average_precision

QUERIES, ITEMS = 200, 20_000


def peak_mb() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Draw classes, fit, and print what it took and gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--spread", type=float, default=0.3)
    parser.add_argument("--bytes", type=int, default=2)
    parser.add_argument("--new-classes", type=float, default=None)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    means = asked.spread * rng.standard_normal((asked.labels, asked.dimensions), dtype=np.float32)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(asked.labels, size=n)
        return means[y] + rng.standard_normal((n, asked.dimensions), dtype=np.float32), y

    (X, y), (Q, of_queries), (others, of_others) = draw(asked.rows), draw(1000), draw(ITEMS)
    start = time.perf_counter()
    _ = X.T @ X
    product, before = time.perf_counter() - start, peak_mb()
    start = time.perf_counter()
    model = SupervisedQuantizer(asked.bytes, new_classes=asked.new_classes, random_state=0).fit(X, y)
    fit = time.perf_counter() - start
    print(
        f"fit {fit:.1f} s, {fit / product:.0f} times X'X; peak memory {peak_mb() - before:.0f} MB above the data"
    )

    bayes = (Q @ means.T - 0.5 * np.square(means).sum(axis=1)).argmax(axis=1)
    p = model.predict_proba(Q)
    right = [float((found == of_queries).mean()) for found in (bayes, model.classes_[p.argmax(axis=1)])]
    print(f"right: Bayes rule {right[0]:.4f}, inside {right[1]:.4f}, {right[1] / right[0]:.3f} of it")

    def judged(name: str, orders: tuple[np.ndarray, np.ndarray], labels: np.ndarray) -> None:
        ours, best = (
            float(average_precision(labels[each] == of_queries[:QUERIES, None]).mean()) for each in orders
        )
        print(f"MAP, items {name}: {ours:.4f}, float {best:.4f}, {ours / best:.4f} of it")

    some, asking = np.sort(rng.permutation(len(X))[:ITEMS]), Q[:QUERIES]
    codes = model.encode(X[some], y[some])
    stored = np.argsort(-p[:QUERIES][:, np.searchsorted(model.classes_, y[some])], axis=1, kind="stable")
    index = CodeIndex(model).add_codes(codes)  # which sees that all items have labels, so that nothing is new
    judged("with labels", (index.search(asking, len(codes))[1], stored), y[some])
    products = p[:QUERIES] @ model.predict_proba(others).T
    judged(
        "without",
        (model.rank(asking, model.encode(others)), np.argsort(-products, axis=1, kind="stable")),
        of_others,
    )
    taken = []
    for query in Q[:200]:
        start = time.perf_counter()
        model.codec_.query_tables(query[None], n_jobs=1)
        taken.append(time.perf_counter() - start)
    print(
        f"vector to tables: {1e3 * float(np.median(taken)):.2f} ms; {len(np.unique(codes, axis=0))} distinct codes"
    )


if __name__ == "__main__":
    main()
