"""Codes to places on a map: near items are near on it, whatever lies between them.

The nearest items of each item, by their decoded codes, form a graph. t-SNE (van der Maaten and Hinton, 2008) lays it out, by the
package openTSNE of the extra ``supquant[map]``, and starts from a linear map. Without the extra, the linear map is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32, Float64

PERPLEXITY = 15
"""About how many near items count for the place of each."""

NEAREST = 3 * PERPLEXITY
"""The number of nearest items that are looked for."""

EARLY_STEPS, STEPS = 60, 140
"""Steps of the layout: first with attraction that forms groups, then without."""

STEPS_PER_CALL = 20
"""After this number of steps, progress is told."""

MAX_BARNES_HUT = 5000
"""Up to this number of items, all distances are computed, and repulsion by a tree; between more, by interpolation on a grid."""


def lays_out() -> bool:
    """Return whether the extra is there that lays out graphs."""
    return find_spec("openTSNE") is not None


def layout(
    codec: Any, codes: Codes, n_jobs: int | None = None, tell: Callable[[float], None] | None = None
) -> Float32:
    """Return places (n, 2) in [0, 1] on a map for codes (n, M).

    Parameters
    ----------
    codec : Codec
    codes : ndarray of shape (n, M), uint8
    n_jobs : int or None, default=None
        Number of threads; None takes all cores.
    tell : callable or None, default=None
        Gets the finished fraction, from 0 to 1.
    """
    if not len(codes):
        return np.zeros((0, 2), dtype=np.float32)
    decoded = codec.decode(codes).astype(np.float32)
    start = two_dimensions(decoded)
    if len(codes) <= NEAREST or not lays_out():
        return _in_unit_square(start)
    return _in_unit_square(_of_graph(decoded, start, n_jobs, tell or (lambda _: None)))


def two_dimensions(decoded: NDArray[Any]) -> Float64:
    """Return the two leading principal coordinates (n, 2) of decoded codes (n, D). Both labels and positions count."""
    centred = decoded.astype(np.float64) - decoded.mean(axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    places = centred @ vectors[:, ::-1][:, :2]
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 1)))
    signs = np.sign(places[np.abs(places).argmax(axis=0), [0, 1]])  # a direction and its reverse are the same
    return np.asarray(places * np.where(signs == 0, 1, signs))


def _of_graph(decoded: Float32, start: Float64, n_jobs: int | None, tell: Callable[[float], None]) -> Float64:
    """Return places (n, 2) of decoded codes (n, D), from places (n, 2) that far items take."""
    import openTSNE  # noqa: PLC0415  # an extra
    from openTSNE.affinity import PerplexityBasedNN  # noqa: PLC0415
    from openTSNE.initialization import rescale  # noqa: PLC0415
    from openTSNE.nearest_neighbors import PrecomputedNeighbors  # noqa: PLC0415

    from supquant.inputs.parameters import resolve_jobs  # noqa: PLC0415

    jobs, steps = resolve_jobs(n_jobs), EARLY_STEPS + STEPS
    near_by = PrecomputedNeighbors(*_nearest(decoded, jobs))
    affinities = PerplexityBasedNN(knn_index=near_by, perplexity=PERPLEXITY, n_jobs=jobs)
    done = 0

    def told(_step: int, _error: float, _places: Any) -> None:
        nonlocal done
        done += STEPS_PER_CALL
        tell(min(1.0, done / steps))

    places = openTSNE.TSNEEmbedding(
        rescale(start),
        affinities,
        negative_gradient_method="bh" if len(decoded) <= MAX_BARNES_HUT else "fft",
        n_jobs=jobs,
        random_state=0,
        callbacks=told,
        callbacks_every_iters=STEPS_PER_CALL,
    )
    places = places.optimize(n_iter=EARLY_STEPS, exaggeration=12, momentum=0.5)
    return np.asarray(places.optimize(n_iter=STEPS, momentum=0.8), dtype=np.float64)


def _nearest(decoded: Float32, jobs: int) -> tuple[NDArray[np.int64], Float64]:
    """Return the numbers of the nearest other items (n, `NEAREST`) of decoded codes (n, D), and their distances."""
    if len(decoded) <= MAX_BARNES_HUT:  # few, of which many may be equal: no codebooks are learned from them
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

        search = NearestNeighbors(n_neighbors=NEAREST, algorithm="brute", n_jobs=jobs).fit(decoded)
        distances, rows = search.kneighbors()
        return rows, distances.astype(np.float64)
    from supquant.auditing.neighbours import find_neighbours  # noqa: PLC0415  # takes scikit-learn

    near = find_neighbours(decoded, NEAREST, np.random.default_rng(0), jobs)
    return near.rows, near.distances.astype(np.float64)


def _in_unit_square(places: Float64) -> Float32:
    low, high = places.min(axis=0, initial=np.inf), places.max(axis=0, initial=-np.inf)
    return np.asarray((places - low) / np.where(high > low, high - low, 1), dtype=np.float32)
