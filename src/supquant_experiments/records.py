"""Report: the names of the files that hold what was measured."""

from __future__ import annotations

from pathlib import Path


def cell_file(
    dataset: str, protocol: str, method: str, variant: str, ranking: str, bits: int, seed: int
) -> str:
    """Give the name of a cell's file; `variant` tells apart cells that differ in what the method was told.

    Examples
    --------
    >>> cell_file("data/photos.npz", "paper", "sq", "alternating", "euclidean", 16, 0)
    'photos-paper-sq-alternating-euclidean-16bits-seed0.json'
    """
    parts = (Path(dataset).stem, protocol, method, variant, ranking, f"{bits}bits", f"seed{seed}")
    return "-".join(part for part in parts if part) + ".json"
