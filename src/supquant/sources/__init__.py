"""Before the flow: vectors from anyone's file, table or array, read in blocks.

    file, folder, table, array --> VectorSource --> Block: vectors (b, p), labels, ids, metadata

`opening` decides by format: arrays (`matrices`, `named_arrays`) need only NumPy, tables (`opening_tables`, `parquet`, `text`)
need pyarrow. `fields` chooses columns, `values` turns them into arrays, `beside` reads labels and ids from files of their own.
"""

from supquant.sources.beside import read_id_file, typed_texts
from supquant.sources.opening import open_vectors
from supquant.sources.source import Block, VectorSource

__all__ = ["Block", "VectorSource", "open_vectors", "read_id_file", "typed_texts"]
