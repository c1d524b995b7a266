"""Compare versions of the library in one run: the time of a fit, and that of queries before and with the scan.

    python benchmarks/versions.py OLD NEW --data banking77.npz [--rounds 3]

OLD and NEW are folders that the versions were installed to (`pip install --target`). The data are arrays X and y of an .npz
file. The versions take turns; fits have `--threads` threads, queries have one. Medians are printed, and the ratio NEW over OLD.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

MEASURE = """
import json, sys, time
import numpy as np
from supquant import CodeIndex, SupervisedQuantizer

path, queries, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = np.load(path)
X, y = data["X"].reshape(len(data["X"]), -1).astype(np.float32), data["y"]
order = np.random.default_rng(0).permutation(len(X))  # files are often sorted by class
X, y = X[order] / (255 if X.max() > 100 else 1), y[order]
Q, X, y = X[:queries], X[queries:], y[queries:]

def seconds(function, times):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return min(taken)

start = time.perf_counter()
model = SupervisedQuantizer(8, n_jobs=threads, random_state=0).fit(X, y)
fit = time.perf_counter() - start
index = CodeIndex(model).add(X, y)
codec = model.codec_
index.search(Q[:50], 10, n_jobs=1)
json.dump({
    "fit, s": fit,
    "tables of a batch, us per query": 1e6 * seconds(lambda: codec.query_tables(Q, n_jobs=1), 5) / len(Q),
    "search of a batch, us per query": 1e6 * seconds(lambda: index.search(Q, 10, n_jobs=1), 5) / len(Q),
    "tables of one query, us": 1e6 * seconds(lambda: codec.query_tables(Q[:1], n_jobs=1), 300),
    "search of one query, us": 1e6 * seconds(lambda: index.search(Q[:1], 10, n_jobs=1), 300),
}, sys.stdout)
"""


def measured(site: str, data: str, queries: int, threads: int) -> dict[str, float]:
    """Return the times of one version, measured in a fresh process."""
    environment = os.environ | {"PYTHONPATH": site, "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", MEASURE, data, str(queries), str(threads)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {str(name): float(value) for name, value in json.loads(done.stdout).items()}


def main() -> None:
    """Measure the versions in turn and print their times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", required=True)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    sites = (asked.old, asked.new)
    found: dict[str, list[dict[str, float]]] = {site: [] for site in sites}
    for _ in range(asked.rounds):
        for site in sites:
            found[site].append(measured(site, asked.data, asked.queries, asked.threads))
    for name in found[asked.old][0]:
        old, new = (statistics.median(each[name] for each in found[site]) for site in sites)
        print(f"{name:32} {old:9.1f} {new:9.1f}  {new / old:5.2f}")


if __name__ == "__main__":
    main()
