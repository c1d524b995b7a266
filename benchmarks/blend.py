"""How much of what serves new classes an item without labels should keep: chosen by leaving training classes out.

    SUPQUANT_DATA=... python benchmarks/blend.py [--out FILE]

The default of `blend`, and `LIE_SHARE`, come from here. The classes that the protocol `unseen` holds out are not touched: of the
others each is left out once, label features are learned from the rest, and queries of the class left out and of known ones
are ranked over items of all these classes, none with labels, by features before any code. Chosen is what serves the class
left out best among those pairs that keep .98 of the best MAP of known classes, on every data set.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from supquant.datasets import load
from supquant.evaluation import evaluate_scores, pose
from supquant.features import LabelKernel
from supquant.labels import read_labels
from supquant.quantizers.label_vectors import item_shares

DATASETS = ("cifar10", "mnist")
BLENDS = (0.0, 0.2, 0.4, 0.6, 0.8)
LIES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # blend times LIE_SHARE
N_QUERIES, N_NEW, N_KNOWN = 500, 1500, 8000
KEPT = 0.98


def measured(name: str) -> list[dict[str, float | str]]:
    """Measure every pair of shares for every class left out."""
    problem = pose(load(name), protocol="unseen", seed=0)
    y = np.asarray(problem.y)
    rng = np.random.default_rng(0)
    found = []
    for left_out in np.unique(y):
        new, known = (rng.permutation(np.flatnonzero(is_it)) for is_it in (y == left_out, y != left_out))
        learned = known[N_QUERIES + N_KNOWN :]
        kernel = LabelKernel(random_state=0).fit(problem.X[learned], y[learned])
        items = np.concatenate([new[N_QUERIES:][:N_NEW], known[N_QUERIES:][:N_KNOWN]])
        features = kernel.transform(problem.X[items])
        asked = {"new": new[:N_QUERIES], "known": known[:N_QUERIES]}
        queries = {part: kernel.transform(problem.X[rows]) for part, rows in asked.items()}
        labels = read_labels(y)
        for blend, lie in itertools.product(BLENDS, LIES):
            shares = item_shares(len(kernel.classes_), features.shape[1], blend)
            shares[2 * len(kernel.classes_) :] = lie
            vectors = np.ascontiguousarray((features * shares).T)

            def scores(block: np.ndarray, vectors: np.ndarray = vectors) -> np.ndarray:
                return -(block @ vectors)

            quality = {
                part: evaluate_scores(scores, queries[part], labels.take(rows), labels.take(items)).map
                for part, rows in asked.items()
            }
            found.append({"dataset": name, "left_out": str(left_out), "blend": blend, "lie": lie, **quality})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="write every figure there, as JSON")
    out = parser.parse_args().out
    found = [entry for name in DATASETS for entry in measured(name)]
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")
    pairs = list(itertools.product(BLENDS, LIES))
    means = {
        (name, part): np.array(
            [
                np.mean([e[part] for e in found if (e["dataset"], e["blend"], e["lie"]) == (name, *pair)])
                for pair in pairs
            ]
        )
        for name in DATASETS
        for part in ("new", "known")
    }
    print("blend   lie  " + "  ".join(f"{name:>8} {part:5}" for name, part in means))
    for at, (blend, lie) in enumerate(pairs):
        print(f"{blend:5.1f} {lie:5.2f}  " + "  ".join(f"{values[at]:14.4f}" for values in means.values()))
    kept = np.all([means[name, "known"] >= KEPT * means[name, "known"].max() for name in DATASETS], axis=0)
    served = np.mean([means[name, "new"] for name in DATASETS], axis=0)
    print("chosen: blend {}, lie {}".format(*pairs[int(np.argmax(np.where(kept, served, -1)))]))


if __name__ == "__main__":
    main()
