"""Compare default fits of versions of the library: MAP of items with labels and of items without, on the same splits.

    python benchmarks/quality.py OLD NEW --data banking77 --data mnist [--bits 16 --bits 64] [--seeds 4] [--json FILE]

OLD and NEW are folders that the versions were installed to (`pip install --target`). Each split has at most 8,000 rows to learn
from, which are the items with labels, 4,000 other items, and 2,000 queries. The mean of all splits is printed for both versions,
and the difference NEW - OLD.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from supquant_lab.datasets import load
from supquant_lab.machine import describe_machine

ROWS, ITEMS, QUERIES = 8000, 4000, 2000
"""Maximum numbers of rows to learn from, of items without labels, and of queries."""

MEASURE = """
import json, sys
import numpy as np
from supquant import CodeIndex, SupervisedQuantizer

split, bits = np.load(sys.argv[1]), int(sys.argv[2])

def mean_average_precision(codes, y):
    index, found = CodeIndex(model.codec_).add_codes(codes), []
    for start in range(0, len(split["Q"]), 250):
        _, ids = index.search(split["Q"][start : start + 250], len(y))
        asked = split["yq"][start : start + 250]
        same = asked[:, None] == y[None] if y.ndim == 1 else asked.astype(np.float32) @ y.T.astype(np.float32) > 0
        hits = np.take_along_axis(same, ids.astype(np.int64), 1)
        precision = np.where(hits, hits.cumsum(1) / np.arange(1, len(y) + 1), 0)
        some = hits.any(1)
        found.append(precision[some].sum(1) / hits[some].sum(1))
    return float(np.concatenate(found).mean())

model = SupervisedQuantizer(bits // 8, random_state=0, n_jobs=1).fit(split["X"], split["y"])
json.dump({
    "labelled": mean_average_precision(model.training_codes_, split["y"]),
    "unlabelled": mean_average_precision(model.encode(split["I"]), split["yi"]),
}, sys.stdout)
"""


def write_split(path: Path, name: str, seed: int) -> None:
    """Write a random split of a data set, prepared as experiments prepare it."""
    data = load(name)
    y = np.asarray(data.y.todense() if hasattr(data.y, "todense") else data.y)
    order = np.random.default_rng(100 + seed).permutation(len(y))  # files are often sorted by class
    most = len(y) // 6
    queries, items, rest = np.split(order, np.cumsum([min(QUERIES, most), min(ITEMS, most)]))
    rows = np.sort(rest[:ROWS])
    prepare = data.prepare(data.X[rows])
    X, Q, others = (prepare(data.X[each]) for each in (rows, queries, items))
    np.savez(path, X=X, y=y[rows], Q=Q, yq=y[queries], I=others, yi=y[items])


def measured(site: str, split: Path, bits: int) -> dict[str, float]:
    """Return MAP of one version, measured in a fresh process."""
    environment = os.environ | {"PYTHONPATH": site, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURE, str(split), str(bits)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {str(name): float(value) for name, value in json.loads(done.stdout).items()}


def summed_up(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the means over the splits of each data set and code length."""
    cases = dict.fromkeys((run["data"], run["bits"]) for run in runs)
    summary = []
    for name, bits in cases:
        splits = [run for run in runs if (run["data"], run["bits"]) == (name, bits)]
        for items in ("labelled", "unlabelled"):
            old, new = (statistics.mean(run[side][items] for run in splits) for side in ("old", "new"))
            summary.append(
                {"data": name, "bits": bits, "items": items, "old": old, "new": new, "difference": new - old}
            )
    return summary


def main() -> None:
    """Measure both versions on every split, and print their means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--bits", action="append", type=int)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        split = Path(folder) / "split.npz"
        for name in asked.data:
            for seed in range(asked.seeds):
                write_split(split, name, seed)
                for bits in asked.bits or [64]:
                    sides = {side: measured(getattr(asked, side), split, bits) for side in ("old", "new")}
                    runs.append({"data": name, "seed": seed, "bits": bits, **sides})
    for case in summed_up(runs):
        print("{data:18} {bits:4} bits  {items:10} {old:.4f} {new:.4f}  {difference:+.4f}".format_map(case))
    if asked.json:
        record = {
            "benchmark": "quality",
            "machine": describe_machine(),
            "mean": summed_up(runs),
            "runs": runs,
        }
        asked.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
