"""Report: whether the map of a service shows classes apart: the share of near items on it that have the same label.

A model is fitted to some labelled rows, and other rows are placed by their codes alone, on a linear map and on the layout of the
graph of codes. The same share among the decoded codes themselves says what a map could reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from supquant import SupervisedQuantizer
from supquant.arrays import Array
from supquant.serve.mapping import layout, two_dimensions
from supquant_lab.datasets import Dataset
from supquant_lab.machine import describe_machine

NEAR = 10
"""Number of near items that are looked at for each."""

FITTED_ROWS, PLACED_ROWS = 10_000, 8_000
"""Maximum number of rows that the model is fitted to, and that are placed."""


def bench_places(
    data: Dataset, *, seed: int = 0, n_codebooks: int = 8, on_step: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Place items on maps, and count near items that have the same label.

    Parameters
    ----------
    data : Dataset
        It must have one label per row.
    seed : int, default=0
        Draws the rows, and seeds the model.
    n_codebooks : int, default=8
        Bytes per code.
    on_step : callable, optional
        Gets the name of each step when it begins.

    Returns
    -------
    dict
        A record for `json`.
    """
    tell = on_step or (lambda _: None)
    order = np.random.default_rng(seed).permutation(len(data.y))
    fitted = order[: min(FITTED_ROWS, len(order) // 2)]
    placed = order[len(fitted) :][:PLACED_ROWS]
    prepared, y = data.prepare(data.X[np.sort(fitted)]), data.y
    tell(f"{data.name}: fitting")
    model = SupervisedQuantizer(n_codebooks, random_state=seed).fit(prepared(data.X[fitted]), y[fitted])
    codec, codes = model.codec_, model.encode(prepared(data.X[placed]))
    tell(f"{data.name}: placing")
    began, used = time.perf_counter(), time.process_time()
    places = layout(codec, codes)
    seconds, processor_seconds = time.perf_counter() - began, time.process_time() - used
    decoded = codec.decode(codes)
    maps: dict[str, Array] = {"codes": decoded, "linear": two_dimensions(decoded), "neighbours": places}
    return {
        "dataset": data.name,
        "seed": seed,
        "labels": len(np.unique(y)),
        "fitted_rows": len(fitted),
        "placed_rows": len(placed),
        "bytes": n_codebooks,
        "same_label": {name: same_label(each, y[placed]) for name, each in maps.items()},
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "machine": describe_machine(),
    }


def same_label(places: Array, y: NDArray[Any]) -> float:
    """Return the fraction of the nearest `NEAR` items that have the label of an item, mean over items at places (n, d).

    Examples
    --------
    >>> places = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.linspace(0, 1, 40)[:, None]
    >>> same_label(places, np.repeat([1, 2], 20))
    1.0
    """
    near = NearestNeighbors(n_neighbors=NEAR + 1).fit(places).kneighbors(places, return_distance=False)
    others = near[near != np.arange(len(y))[:, None]]  # an item need not be its own first neighbour
    rows = np.nonzero(near != np.arange(len(y))[:, None])[0]
    return float((y[others] == y[rows]).mean())
