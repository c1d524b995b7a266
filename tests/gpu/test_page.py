"""The page on GPUs says what is so."""

import re
from pathlib import Path

import numpy as np
import pytest
from noisy_classes import draw_classes

from supquant import CodeIndex

PAGE = Path(__file__).parents[2] / "docs/gpu.md"


def test_python_of_the_page(models):
    torch = pytest.importorskip("torch")
    X, y = draw_classes(10, 3000, 24)
    model = models["default"]
    names = {
        "model": model,
        "embeddings": torch.from_numpy(X).cuda(),
        "vectors": X,
        "labels": y,
        "queries": torch.from_numpy(X[:5]).cuda(),
    }
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["codes"].is_cuda
    want = CodeIndex(model).add_codes(model.encode(X)).search(X[:5], k=100)
    np.testing.assert_array_equal(names["ids"], want[1])
