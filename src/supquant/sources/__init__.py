"""Before the flow: vectors from anyone's file, table or array, read in blocks.

    file, folder, table, array --> VectorSource --> Block: vectors (b, p), labels, ids, metadata

`opening` decides by format. Arrays (`matrices`) need only NumPy; tables (`table_files`, `tables`) need pyarrow. `fields` chooses
columns, and `values` turns them into arrays. All of them import `source`, and none imports `opening`.
"""

from supquant.sources.opening import is_file_name, open_vectors, read_id_file, read_labels_by_id, typed_texts
from supquant.sources.source import Block, VectorSource

__all__ = [
    "Block",
    "VectorSource",
    "is_file_name",
    "open_vectors",
    "read_id_file",
    "read_labels_by_id",
    "typed_texts",
]
