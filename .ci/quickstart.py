"""Run the first Python block of README.md with what is installed, and say with which kernels and how long it took."""

import re
import sys
import time
from pathlib import Path

began = time.perf_counter()
text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
block = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
assert block is not None
exec(compile(block[1], "README.md", "exec"), {"__name__": "__main__"})

from supquant import kernels  # noqa: E402  # the block shall import first

print(f"{kernels.isa()} kernels, Python {sys.version.split()[0]}, {time.perf_counter() - began:.1f} s")
assert kernels.compiled() is not None
