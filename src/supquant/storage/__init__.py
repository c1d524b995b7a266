"""Arrays and settings in one safetensors file, written atomically, checked when read, mapped, not copied.

The safetensors package reads it too: eight bytes with the length of a JSON header, the header, and the
payload, which is the arrays one after the other. Ours in the header's metadata:

    supquant.kind       what the file holds, such as "model"
    supquant.version    the version of this format
    supquant.settings   JSON
    supquant.checksums  JSON list, xxh3 (64 bits, hexadecimal) of every MiB of payload
    supquant.header     xxh3 (128 bits, hexadecimal) of all before the payload, with zeros for this digest
"""

from supquant.storage.layout import lay_out_as_stored
from supquant.storage.reading import ArrayFile, load_arrays, open_arrays, read_kind
from supquant.storage.writing import PackedArrays, pack_arrays, save_arrays, write_file_atomically

__all__ = [
    "ArrayFile",
    "PackedArrays",
    "lay_out_as_stored",
    "load_arrays",
    "open_arrays",
    "pack_arrays",
    "read_kind",
    "save_arrays",
    "write_file_atomically",
]
