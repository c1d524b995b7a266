"""`encode_dataset` in a process that is killed at random moments and started again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.distributed import encode_dataset
from supquant.models import load_model
from supquant.sources import open_vectors


def kill_encoding(model: Path, source: Path, target: Path, kills: int) -> dict[str, Any]:
    """Kill a process that encodes until it was killed `kills` times in its midst, then let it end, and check every row.

    Returns
    -------
    dict
        `kills`, `rows`, whether `every_row_once` and `codes_are_right`, and `rows_per_second` of a run that was not killed.
    """
    draw = random.Random(0)
    began = time.perf_counter()
    encode_dataset(model, source, target.with_name("timed"))
    seconds = time.perf_counter() - began
    done = 0
    while done < kills:
        process = subprocess.Popen([sys.executable, "-m", __name__, str(model), str(source), str(target)])
        time.sleep(draw.uniform(0, 1.2 * seconds))
        if process.poll() is None:
            process.kill()
            done += 1
        elif files := sorted(target.glob("*.parquet")):  # it was finished: a part of its work is undone
            for file in files[:: draw.randrange(1, 4)]:
                file.unlink()
        process.wait()
    written = encode_dataset(model, source, target)
    table = pa.concat_tables([pq.read_table(file) for file in written.files])
    vectors = open_vectors(source, "vector", ids=False)
    codes = load_model(model).codec_.encode_items(vectors.X)
    found = np.frombuffer(b"".join(table["code"].to_pylist()), dtype=np.uint8).reshape(codes.shape)
    return {
        "kills": done,
        "rows": len(vectors),
        "every_row_once": table["id"].to_pylist() == list(range(len(vectors))),
        "codes_are_right": bool(np.array_equal(found, codes)),
        "rows_per_second": len(vectors) / seconds,
    }


if __name__ == "__main__":
    encode_dataset(*sys.argv[1:])
