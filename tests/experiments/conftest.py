import gzip
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session", autouse=True)
def seconds_of_timing():
    """Time the queries of a cell in one round, not for a whole second. Return the seconds that it takes in earnest."""
    from supquant_experiments import query_time

    seconds = query_time.MOST_SECONDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_time, "MOST_SECONDS", 0.0)
        yield seconds


@pytest.fixture(scope="session")
def lines():
    """Read and write the lines of a .jsonl.gz file."""

    def read(path):
        return gzip.decompress(path.read_bytes()).decode().splitlines()

    def write(path, lines):
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    return SimpleNamespace(read=read, write=write)
