"""Report: vectors from Parquet files to codes, beside the same vectors from an .npy file, with speed and memory.

Both hold the same float16 numbers. A fresh process loads a default model of 64 bits, reads the source block by block, and encodes
every block on all threads. Its anonymous memory is watched from outside, and what the model itself takes is subtracted.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.model.quantizer import SupervisedQuantizer
from supquant.models import load_model
from supquant.sources import open_vectors
from supquant_lab.bench.memory import anonymous_mb
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 20
"""Number of Parquet files."""

LEARNED_ROWS, CLASSES, BITS = 8_000, 77, 64
"""The model is fitted to so many rows of so many classes, as Banking77 has them."""

MEMORY_LIMIT_MB, SPEED_LIMIT = 600.0, 0.7
"""Reading Parquet should take at most so much memory above the model, at no less than this share of the speed from .npy."""


def bench_reading(
    rows: int = 2_000_000,
    columns: int = 384,
    *,
    rounds: int = 2,
    folder: str | None = None,
    on_side: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Stream the same vectors from both kinds of files to codes, in turn.

    Parameters
    ----------
    rows, columns : int
        The size of the set.
    rounds : int, default=2
        How often each side is measured. The fastest round counts, and the largest memory.
    folder : path, optional
        The folder for the files, four bytes a number; the system's folder for temporary files by default.
    on_side : callable, optional
        Gets the name of each side before it is measured.

    Returns
    -------
    dict
        A record for `json`. `ratio` is the speed from Parquet over that from .npy.
    """
    with temporary_folder(folder) as home:
        _write_sources(home, rows, columns)
        sides: dict[str, dict[str, Any]] = {}
        for _ in range(rounds):
            for name, source in (("npy", home / "X.npy"), ("parquet", home / "parquet")):
                if on_side is not None:
                    on_side(name)
                found = _stream(home / "model", source)
                before = sides.setdefault(name, found)
                sides[name] = {
                    "seconds": min(before["seconds"], found["seconds"]),
                    "memory_mb": max(before["memory_mb"], found["memory_mb"]),
                    "digest": found["digest"],
                }
    if sides["npy"]["digest"] != sides["parquet"]["digest"]:
        raise InputError("the codes from Parquet differ from those from .npy")
    return {
        "benchmark": "reading",
        "rows": rows,
        "dimensions": columns,
        "dtype": "float16",
        "bits": BITS,
        "files": FILES,
        "sides": {
            name: {"seconds": side["seconds"], "memory_mb": side["memory_mb"]} for name, side in sides.items()
        },
        "vectors_per_second": {name: rows / side["seconds"] for name, side in sides.items()},
        "ratio": sides["npy"]["seconds"] / sides["parquet"]["seconds"],
        "speed_limit": SPEED_LIMIT,
        "memory_limit_mb": MEMORY_LIMIT_MB,
        "machine": describe_machine(),
    }


def _write_sources(home: Path, rows: int, columns: int) -> None:
    """Write the model, X.npy, and the folder of Parquet files with the same rows."""
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = np.random.default_rng(0)
    means = rng.normal(size=(CLASSES, columns)).astype(np.float32)

    def draw(n: int) -> tuple[Array, Array]:
        y = rng.integers(CLASSES, size=n)
        return means[y] + 2 * rng.standard_normal((n, columns), dtype=np.float32), y

    learned = min(LEARNED_ROWS, rows)
    SupervisedQuantizer(BITS // 8, random_state=0).fit(*draw(learned)).save(home / "model")
    X = np.lib.format.open_memmap(home / "X.npy", mode="w+", dtype=np.float16, shape=(rows, columns))
    (home / "parquet").mkdir()
    for number in range(FILES):
        start, stop = number * rows // FILES, (number + 1) * rows // FILES
        X[start:stop] = draw(stop - start)[0]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[start:stop].ravel()), columns)
        table = pa.table({"id": np.arange(start, stop), "embedding": vectors})
        pq.write_table(table, home / "parquet" / f"part-{number}.parquet", row_group_size=10_000)
    X.flush()


def _stream(model: Path, source: Path) -> dict[str, Any]:
    """Encode a source in a fresh process; return its seconds, and its memory above that of the model in MB."""
    held = [0.0]
    found: dict[str, Any] = run_fresh(
        __name__,
        model,
        source,
        purpose=f"encode {source}",
        watch=lambda process: held.append(anonymous_mb(process)),
    )
    return {**found, "memory_mb": max(held) - found["model_mb"]}


def _encode(model: Path, source: Path) -> None:
    import xxhash  # noqa: PLC0415

    codec = load_model(model).codec_
    model_mb = anonymous_mb("self")
    began = time.perf_counter()
    digest = xxhash.xxh3_128()
    for block in open_vectors(source).blocks():
        digest.update(codec.encode_items(block.X).tobytes())
    seconds = time.perf_counter() - began
    sys.stdout.write(json.dumps({"seconds": seconds, "model_mb": model_mb, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    _encode(Path(sys.argv[1]), Path(sys.argv[2]))
