"""JSON files that are written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any) -> None:
    r"""Write an indented JSON file. An existing file is replaced at once or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : JSON value
        What to write. Values that JSON does not know are written as strings.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "cell.json", {"map": 0.5})
    ...     (Path(folder) / "cell.json").read_text()
    '{\n  "map": 0.5\n}\n'
    """
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=2, default=str) + "\n")
    partial.replace(path)
