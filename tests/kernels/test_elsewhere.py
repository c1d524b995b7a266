"""Kernels compiled for other machines answer with the bits of this one: aarch64 under qemu, Windows under Wine.

On Debian: `apt-get install qemu-user-static wine64 wine`. Without them the tests skip. The first run takes minutes: zig compiles
the C libraries of these systems, and Wine sets up a Windows. The cache of pytest keeps both; later runs take ten seconds.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from native_levels import FLAGS, HERE, LEVELS, NATIVE, level_flags

PROGRAM = Path(__file__).with_name("answers.cpp")

pytestmark = pytest.mark.skipif(not NATIVE.exists(), reason="needs the sources of the kernels")


def run(command, **environment):
    # Far more than a first run took on a busy machine, which was 5 minutes.
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder, levels, compiler, linker, *flags):
    """Compile the program with some levels, each with its own instructions, and return its path."""
    (folder / "objects").mkdir()
    sources = {
        level: (NATIVE / "level/level.cpp", ["-fno-exceptions", *level_flags(level)]) for level in levels
    }
    sources["answers"] = (PROGRAM, flags)

    def compile_one(name):
        source, own = sources[name]
        target = folder / "objects" / f"{name}.o"
        run([*compiler, *FLAGS, "-O1", *own, "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, sources))
    run([*linker, *objects, "-o", folder / "answers.exe"])
    return folder / "answers.exe"


def digests(printed):
    """Return the digests of each kernel by level."""
    found = defaultdict(dict)
    for line in printed.splitlines():
        level, kernel, digest = line.split()
        found[level][kernel] = digest
    return dict(found)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Digests of the portable kernels, compiled and run here."""
    compiler = [shutil.which("c++") or pytest.skip("needs a C++ compiler")]
    folder = tmp_path_factory.mktemp("here")
    program = build(folder, ["portable"], compiler, compiler, "-DSUPQUANT_ONLY_PORTABLE")
    return digests(run([program]))["portable"]


@pytest.fixture
def elsewhere(tmp_path, pytestconfig, monkeypatch):
    """Return a function that builds the program for a target of zig."""

    def build_for(target):
        pytest.importorskip("ziglang", reason="needs the cross compiler ziglang")
        for which in ("GLOBAL", "LOCAL"):
            monkeypatch.setenv(f"ZIG_{which}_CACHE_DIR", str(pytestconfig.cache.mkdir("zig")))
        # Kernels need C alone, and the C++ library of a system would take zig minutes more.
        zig = [sys.executable, "-m", "ziglang"]
        machine = target.split("-")[0]
        levels = [level for level, known in LEVELS if known == machine]
        flags = ["-target", target, "-fno-sanitize=all"]
        linker = [*zig, "cc", "-target", target, "-static"]
        return build(tmp_path, levels, [*zig, "c++", *flags], linker)

    return build_for


def test_the_program_runs_every_kernel(here):
    kernels = set(re.findall(r"\(\*(\w+)\)\(", (NATIVE / "kernels.h").read_text()))
    assert "mark_many" in kernels
    assert set(here) == kernels


def test_kernels_for_aarch64_give_the_same_bits(here, elsewhere):
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if HERE == "aarch64" or qemu is None:
        pytest.skip("needs another machine than aarch64, with qemu-aarch64")
    assert digests(run([qemu, elsewhere("aarch64-linux-musl")])) == {"portable": here, "neon": here}


def test_kernels_for_windows_give_the_same_bits(here, elsewhere, pytestconfig):
    wine = shutil.which("wine")
    if HERE != "x86_64" or wine is None:
        pytest.skip("needs x86_64, with Wine")
    program = elsewhere("x86_64-windows-gnu")
    prefix = pytestconfig.cache.mkdir("wine")
    found = digests(run([wine, program], WINEPREFIX=str(prefix), WINEDEBUG="-all", DISPLAY=""))
    assert set(found) >= {"portable"}
    assert found == dict.fromkeys(found, here)
