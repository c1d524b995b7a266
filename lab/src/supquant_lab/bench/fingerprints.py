"""Report: hashes of the statements that determine a figure. Its record keeps them; comments and docstrings do not change them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

GPU_SOURCES = ("kernels/cuda", "model/on_device.py")
"""Sources of the library that only run on a GPU. Figures are measured without one."""

DIGITS = 16
"""Number of hexadecimal digits of a hash."""


def fingerprint(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of files of a package, and of all files in folders of it.

    Examples
    --------
    >>> import supquant_lab
    >>> lab = Path(supquant_lab.__file__).parent
    >>> fingerprint(lab, ["records.py"]) == fingerprint(lab, ["splits.py"])
    False
    """
    digest = hashlib.sha256()
    for name in names:
        found = folder / name
        files = sorted(found.rglob("*")) if found.is_dir() else [found]
        for file in files:
            own = file.relative_to(folder)
            if file.suffix == ".py" and not any(own.is_relative_to(each) for each in GPU_SOURCES):
                digest.update(own.as_posix().encode() + _statements(file.read_text(encoding="utf-8")))
    return digest.hexdigest()[:DIGITS]


def definition_fingerprint(root: Path, module: str, name: str, within: str) -> str:
    """Return a hash of a definition of a module, and of all definitions that it names, directly or through others.

    Other definitions of the same modules do not change it.

    Parameters
    ----------
    root : Path
        The folder that the module's first package is in.
    module, name : str
    within : str
        The package in which names are followed.

    Examples
    --------
    >>> import supquant_lab
    >>> root = Path(supquant_lab.__file__).parents[1]
    >>> module = "supquant_lab.methods.opponents.methods"
    >>> len({definition_fingerprint(root, module, name, "supquant_lab.methods") for name in ("LabelPQ", "Opponent")})
    2
    """
    read = cache(partial(_module, root))
    found: dict[tuple[str, str], bytes] = {}
    left = [(module, name)]
    while left:
        where, what = left.pop()
        defined = read(where)
        if what in defined.imports:
            left.append(defined.imports[what])
        elif what in defined.statements and (where, what) not in found:
            statement = defined.statements[what]
            found[where, what] = _as_bytes(statement)
            left += [
                (where, node.id)
                for node in ast.walk(statement)
                if isinstance(node, ast.Name)
                and (
                    node.id in defined.statements or defined.imports.get(node.id, ("",))[0].startswith(within)
                )
            ]
    if not found:
        raise LookupError(f"{module} defines no {name}")
    digest = hashlib.sha256()
    for (where, what), text in sorted(found.items()):
        digest.update(f"{where}:{what}".encode() + text)
    return digest.hexdigest()[:DIGITS]


@dataclass(frozen=True)
class _Module:
    """What stands at the top of a module, by name: statements that define it, and the places that it is imported from."""

    statements: Mapping[str, ast.stmt]
    imports: Mapping[str, tuple[str, str]]


def _module(root: Path, module: str) -> _Module:
    base = root.joinpath(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    statements: dict[str, ast.stmt] = {}
    imports: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        statements |= dict.fromkeys(_defined_names(statement), statement)
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            imports |= {
                alias.asname or alias.name: (statement.module, alias.name) for alias in statement.names
            }
    return _Module(statements, imports)


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


@cache
def _statements(text: str) -> bytes:
    """Return the statements of a source. A run asks for those of all files again for each method and each page."""
    return _as_bytes(ast.parse(text))


def _as_bytes(tree: ast.AST) -> bytes:
    """Return statements without comments and docstrings, the same in all versions of Python."""
    return repr(_nested(tree)).encode()


def _nested(tree: Any) -> Any:
    """Return a syntax tree as nested lists. Later versions of Python have more fields, which are empty for older sources."""
    if isinstance(tree, list):
        return [_nested(each) for each in tree if not _is_text(each)]
    if not isinstance(tree, ast.AST):
        return tree
    fields = ((name, _nested(value)) for name, value in ast.iter_fields(tree))
    return [type(tree).__name__, *((name, value) for name, value in fields if value not in (None, []))]


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
