import lzma
from types import SimpleNamespace

import pytest
from preloaded import PreloadedModule


@pytest.fixture(scope="session", autouse=True)
def seconds_of_timing():
    """Time the queries of a cell in one round, not for a whole second. Return the seconds that it takes in earnest."""
    from supquant_lab import cell

    seconds = cell.MAX_SECONDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell, "MAX_SECONDS", 0.0)
        yield seconds


@pytest.fixture(scope="module", autouse=True)
def start_anew():
    """Run modules in copies of a process that has imported much already. Return the function that starts a new Python."""
    from supquant_lab.bench import process

    start = process._start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_start", PreloadedModule)
        yield start


@pytest.fixture
def new_python(monkeypatch, start_anew):
    """Run modules in a new Python, as in earnest."""
    monkeypatch.setattr("supquant_lab.bench.process._start", start_anew)


@pytest.fixture(scope="session")
def lines():
    """Read and write the lines of a .jsonl.xz file."""

    def read(path):
        return lzma.decompress(path.read_bytes()).decode().splitlines()

    def write(path, lines):
        path.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))

    return SimpleNamespace(read=read, write=write)
