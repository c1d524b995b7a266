import gzip
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def lines():
    """Read and write the lines of a .jsonl.gz file."""

    def read(path):
        return gzip.decompress(path.read_bytes()).decode().splitlines()

    def write(path, lines):
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    return SimpleNamespace(read=read, write=write)
