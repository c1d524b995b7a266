"""Codes to files: a Parquet table of ids and codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.arrays import Codes
from supquant.sources import Block

__all__ = ["write_code_table"]


def write_code_table(
    file: BinaryIO,
    blocks: Iterable[tuple[Codes, Block]],
    n_bytes: int,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a Parquet file with the columns `id` and `code`, block by block.

    Parameters
    ----------
    file : binary file
        Open for writing.
    blocks : iterable of (codes, block)
        Codes (b, M) of the rows of each block. Rows without ids are numbered.
    n_bytes : int
        M, the number of bytes of a code.
    notes : mapping of str to str, default={}
        What the metadata of the file say.
    """
    writer = None
    try:
        for codes, block in blocks:
            ids = np.arange(block.start, block.start + len(codes)) if block.ids is None else block.ids
            data = pa.py_buffer(np.ascontiguousarray(codes))
            column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(n_bytes), len(codes), [None, data])
            table = pa.table({"id": pa.array(ids), "code": column}).replace_schema_metadata(dict(notes))
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
