"""Below the flow: what is imported on first use, by any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from sys import modules as _loaded
from typing import Any

from supquant.system import at_fork

_importing = threading.RLock()
_used = set[str]()
# A child keeps the locks of modules that other threads were importing when it was forked, and waits for them forever.
at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release)


def import_whole(name: str, first_use: Callable[[Any], object] | None = None) -> Any:
    """Import a module that imports none of ours, and use it once. No child is forked meanwhile.

    Modules that import ours would wait for a lock of another thread that waits for this one. Compiled modules may hold locks of
    their own while they are used for the first time.

    Examples
    --------
    >>> import_whole("math").sqrt(4)
    2.0
    """
    with _importing:
        module = import_module(name)
        if first_use is not None and name not in _used:
            first_use(module)
            _used.add(name)
        return module


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
