"""How CMakeLists.txt compiles the kernels of every instruction set."""

import platform
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
HERE = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
LEVELS = [
    ("portable", "aarch64"),
    ("portable", "x86_64"),
    ("neon", "aarch64"),
    ("avx2", "x86_64"),
    ("avx512bw", "x86_64"),
    ("avx512", "x86_64"),
]
"""Levels, and the machines that each is compiled for."""

FLAGS = [
    f"-I{NATIVE}",
    "-std=c++20",
    "-ffp-contract=off",
    "-fno-tree-vectorize",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
]


def level_flags(level):
    """Read from CMakeLists.txt how a level is compiled."""
    text = (ROOT / "CMakeLists.txt").read_text()
    (found,) = re.findall(rf"supquant_level\({level} (\d+)\s*([^)]*)\)", text)
    return [f"-DSUPQUANT_LEVEL={level}", f"-DSUPQUANT_LANES={found[0]}", *found[1].split()]
