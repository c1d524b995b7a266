"""An integration is thin: at most 40 lines of statements, apart from imports."""

import ast
from pathlib import Path

import pytest

from supquant import integrations

MAX_LINES = 40
MODULES = sorted(path for path in Path(integrations.__file__).parent.glob("*.py") if path.stem != "__init__")


def statement_lines(tree):
    """Return the numbers of the lines of statements, without docstrings, imports and empty lines."""
    lines = {
        line
        for node in ast.walk(tree)
        if hasattr(node, "lineno")
        for line in range(node.lineno, node.end_lineno + 1)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_integration_is_thin(path):
    text = path.read_text(encoding="utf-8")
    written = [text.splitlines()[line - 1].strip() for line in statement_lines(ast.parse(text))]
    assert len(list(filter(None, written))) <= MAX_LINES
