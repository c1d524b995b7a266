"""Below the flow: packages whose names are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from sys import modules as _loaded
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its full name.
    modules : mapping of str to sequence of str
        For every module of the package, the names that the package exports from it.

    Returns
    -------
    callable
        From a name to its value. It is called once per name; then the package has the name itself.

    Examples
    --------
    >>> lazy_names("xml", {"dom": ["Node"]})("Node").__name__
    'Node'
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(_loaded[package], name, value)
        return value

    return get
