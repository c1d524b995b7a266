"""Every level compiles without a warning, for other machines by a cross compiler, and its object keeps all but its table."""

import os
import re
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
from native_levels import FLAGS, HERE, LEVELS, NATIVE, ROOT, level_flags

WANTED = {
    "",
    "memset",
    "memcpy",
    "memmove",
    "fmaf",
    "__stack_chk_fail",
    "__stack_chk_guard",
    "_GLOBAL_OFFSET_TABLE_",
}

# Sections and symbols of an ELF object of 64 bits, which tools of this machine need not know.
SECTION = np.dtype("<u4, <u4, <u8, <u8, <u8, <u8, <u4, <u4, <u8, <u8")
SECTION.names = ("name", "kind", "flags", "address", "offset", "size", "link", "info", "alignment", "entry")
SYMBOL = np.dtype("<u4, u1, u1, <u2, <u8, <u8")
SYMBOL.names = ("name", "info", "other", "section", "value", "size")
SYMBOL_TABLE = 2


def global_symbols(path):
    """Names that an object offers to others, and those that it wants from them."""
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", "not a little-endian object of 64 bits"
    (first,) = struct.unpack_from("<Q", data, 40)
    _, n_sections = struct.unpack_from("<HH", data, 58)
    sections = np.frombuffer(data, SECTION, n_sections, first)
    (table,) = sections[sections["kind"] == SYMBOL_TABLE]
    texts = int(sections[table["link"]]["offset"])
    offered, wanted = set(), set()
    for symbol in np.frombuffer(data, SYMBOL, table["size"] // SYMBOL.itemsize, table["offset"]):
        start = texts + int(symbol["name"])
        name = data[start : data.index(b"\0", start)].decode()
        if symbol["info"] >> 4:  # not local
            (offered if symbol["section"] else wanted).add(name)
    return offered, wanted


def table_of(level):
    """Return the symbol of a level's table."""
    name = f"kernels_{level}"
    return f"_ZN8supquant{len(name)}{name}E"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a function that compiles a file of native/ for a kind of machine and returns the object's path."""
    if not NATIVE.exists():
        pytest.skip("needs the sources of the kernels")
    folder = tmp_path_factory.mktemp("objects")
    caches = {f"ZIG_{which}_CACHE_DIR": str(folder / "cache") for which in ("GLOBAL", "LOCAL")}

    def compiler(machine):
        if machine == HERE:
            return [shutil.which("c++") or pytest.skip("needs a C++ compiler")]
        pytest.importorskip("ziglang", reason="needs the cross compiler ziglang")
        target = f"{machine}-linux-gnu"
        return [sys.executable, "-m", "ziglang", "c++", "-target", target, "-fno-sanitize=all"]

    def compile_file(name, machine, *flags):
        target = folder / "object.o"
        done = subprocess.run(
            [*compiler(machine), *FLAGS, "-fPIC", *flags, "-c", NATIVE / name, "-o", target],
            env=os.environ | caches,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return target

    return compile_file


def test_every_level_is_tested():
    named = re.findall(r"^ *supquant_level\((\w+) \d", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert set(named) == {level for level, _ in LEVELS}


# What is not inlined leaves an object first without optimisation. The optimiser has warnings and calls of its own.
@pytest.mark.parametrize(
    ("level", "machine", "optimisation"),
    [
        *((*level, "-O0") for level in LEVELS),
        *((*level, "-O2") for level in LEVELS if level[0] not in ("portable", "avx512")),
    ],
)
def test_a_level_compiles_and_only_its_table_leaves_the_object(compiled, level, machine, optimisation):
    """An inline function that left it could be linked into code that runs on a lesser CPU."""
    offered, wanted = global_symbols(compiled("level/level.cpp", machine, *level_flags(level), optimisation))
    assert offered == {table_of(level)}
    assert wanted <= WANTED


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_what_chooses_a_level_compiles(compiled, machine):
    """And asks for the tables of the levels of that machine, no others."""
    _, wanted = global_symbols(compiled("dispatch.cpp", machine, "-O1"))
    tables = {name for name in wanted if "kernels_" in name}
    assert tables == {table_of(level) for level, known in LEVELS if known == machine or level == "portable"}
