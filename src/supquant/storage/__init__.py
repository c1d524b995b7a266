"""Arrays and settings in one safetensors file: written whole or not at all, and checked when read.

The safetensors package can read the file too. It holds eight bytes with the length of a JSON header, the header, and the payload:
the arrays, one after the other. The header's metadata has these fields of ours:

    supquant.kind       what the file holds, such as "model"
    supquant.version    the version of this format
    supquant.settings   JSON
    supquant.checksums  JSON list: the xxh3 (64 bits, hexadecimal) of every MiB of payload
    supquant.header     the xxh3 (128 bits, hexadecimal) of everything before the payload, with zeros in place of this digest
"""

from supquant.storage.content import FileState, read_regular_file, state_of
from supquant.storage.layout import lay_out_as_stored
from supquant.storage.reading import ArrayFile, load_arrays, open_arrays, read_kind, shorten
from supquant.storage.replacing import replace_file, replaceable, write_file_atomically
from supquant.storage.writing import PackedArrays, pack_arrays

__all__ = [
    "ArrayFile",
    "FileState",
    "PackedArrays",
    "lay_out_as_stored",
    "load_arrays",
    "open_arrays",
    "pack_arrays",
    "read_kind",
    "read_regular_file",
    "replace_file",
    "replaceable",
    "shorten",
    "state_of",
    "write_file_atomically",
]
