"""Vectors of Gaussian classes in Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.arrays import Array
from supquant.parallel import row_blocks

GROUP_ROWS = 10_000
"""Rows of a row group."""

NOISE = np.float32(2.5)
"""Standard deviation of the vectors of a class around its centre, whose coordinates have a standard deviation of 1."""


def write_classes(folder: Path, rows: int, columns: int, n_classes: int, n_files: int) -> None:
    """Write vectors (rows, columns) float16 with the columns `label` and `vector`, in files of equal size."""
    centres = np.random.default_rng(0).standard_normal((n_classes, columns), dtype=np.float32)
    folder.mkdir(parents=True)
    for number, (start, stop) in enumerate(row_blocks(rows, -(-rows // n_files))):
        schema, name = _table(centres, 0, 1).schema, f"part-{number}.parquet"
        # No value comes twice, so a dictionary would only cost time.
        with pq.ParquetWriter(folder / name, schema, use_dictionary=False, compression="none") as writer:
            for a, b in row_blocks(stop - start, GROUP_ROWS):
                writer.write_table(_table(centres, start + a, start + b))


def _table(centres: Array, start: int, stop: int) -> pa.Table:
    rng = np.random.default_rng([1, start])
    labels = rng.integers(len(centres), size=stop - start)
    noise = rng.standard_normal((stop - start, centres.shape[1]), dtype=np.float32)
    X = (centres[labels] + NOISE * noise).astype(np.float16)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    return pa.table({"label": labels.astype(np.int32), "vector": lists})
