"""Pictures to vectors: the GIST descriptor of Oliva and Torralba, "Modeling the Shape of the Scene" (2001).

A grey picture is whitened: slow changes of brightness are removed, and local contrast is made equal. Then Gabor filters of 4
scales and 8 orientations are applied. The descriptor is the mean response of each filter in every cell of a 4 x 4 grid: 512
numbers. The filters are given by their transfer functions, in polar coordinates (rho, theta) of the frequency plane, rho in
cycles per pixel:

    G[s, o] = exp(-3.5 (rho / rho_s - 1)^2 - 2 pi (theta + o pi / 8)^2),    rho_s = .3 / 1.85^s,   s = 0..3, o = 0..7
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from supquant.arrays import Float32
from supquant.errors import InputError
from supquant.inputs.parameters import resolve_jobs
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

RECIPE = 1
"""Version of the descriptors. It grows when descriptors change, so that those kept in a cache are computed again."""

SCALES = 4
"""Number of scales of the filters."""

ORIENTATIONS = 8
"""Number of orientations of the filters."""

GRID = 4
"""A picture has this number of cells along each side."""

DIMENSIONS = SCALES * ORIENTATIONS * GRID**2
"""A descriptor has this number of dimensions."""

BRIGHTNESS_CYCLES = 4.0
"""Cycles per longer side of a picture. Slower changes are brightness, not shape, and are removed."""

WHITENING_BORDER = 5
"""Number of pixels that are mirrored around the picture before it is whitened."""

FILTER_BORDER = 32
"""Number of pixels that are mirrored around the whitened picture, so that filters do not respond to its edges."""

CONTRAST_OFFSET = 0.2
"""Constant that is added to the local contrast before the picture is divided by it."""

BLOCK_IMAGES = 32
"""Number of pictures that are described at a time: their spectra fit into the cache of a core."""


def gist_descriptors(
    images: NDArray[np.uint8],
    *,
    n_jobs: int | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Float32:
    """Describe pictures by their GIST.

    Parameters
    ----------
    images : ndarray of shape (n, h, w) or (n, h, w, 3), uint8
        Grey or coloured pictures of one size, at least 4 x 4. Grey is the mean of the colours. A memory map
        is read block by block.
    n_jobs : int or None, default=None
        Number of threads; None takes all cores. Descriptors do not depend on it.
    callback : callable or None, default=None
        Is called with a `Progress` after every block.

    Returns
    -------
    ndarray of shape (n, 512), float32
        Ordered by scale (fine to coarse), then by orientation, then by cell; cells column by column.

    Examples
    --------
    >>> pictures = np.random.default_rng(0).integers(256, size=(2, 32, 32, 3), dtype=np.uint8)
    >>> gist_descriptors(pictures).shape
    (2, 512)
    """
    _check_images(images)
    blocks = row_blocks(len(images), BLOCK_IMAGES)
    descriptors = np.empty((len(images), DIMENSIONS), dtype=np.float32)

    def describe(block: tuple[int, int]) -> None:
        descriptors[slice(*block)] = _describe(_grey(images[slice(*block)]))

    with single_blas(), Reporter(callback).stage("gist", total=len(blocks)) as stage:
        for _ in ordered_map(describe, blocks, resolve_jobs(n_jobs)):
            stage.step()
    return descriptors


def _check_images(images: NDArray[Any]) -> None:
    shape = getattr(images, "shape", ())
    if len(shape) not in (3, 4) or shape[3:] not in ((), (3,)) or min(shape[1:3]) < GRID:
        raise InputError(
            f"images must be of shape (n, height, width) or (n, height, width, 3), at least {GRID} x {GRID} "
            f"pixels, got {shape}"
        )
    if images.dtype != np.uint8:
        raise InputError(f"images must be uint8, intensities of 0..255, got {images.dtype}")


def _grey(images: NDArray[np.uint8]) -> Float32:
    """Return grey pictures (b, h, w): the mean of the colours, stretched so that each picture reaches from 0 to 255."""
    grey: Float32 = images.mean(axis=3, dtype=np.float32) if images.ndim == 4 else images.astype(np.float32)
    grey -= grey.min(axis=(1, 2), keepdims=True)
    brightest = grey.max(axis=(1, 2), keepdims=True)
    brightest[brightest == 0] = 1  # a picture of one colour becomes black
    grey *= np.float32(255) / brightest
    return grey


def _describe(grey: Float32) -> Float32:
    """Return the descriptors (b, 512) of grey pictures (b, h, w) with values from 0 to 255."""
    n, height, width = grey.shape
    spectra = fft.fft2(_mirrored(_whitened(grey), FILTER_BORDER))  # (b, H, W) complex64, H = h + 64
    rows, columns = (slice(FILTER_BORDER, FILTER_BORDER + side) for side in (height, width))
    mean_rows, mean_columns = _cell_means(height), _cell_means(width)
    filtered = np.empty_like(spectra)
    cells = np.empty((n, SCALES * ORIENTATIONS, GRID, GRID), dtype=np.float32)
    for number, transfer in enumerate(_transfer_functions(*spectra.shape[1:])):
        np.multiply(spectra, transfer, out=filtered)
        # Back to pixels, one axis after the other; the border is dropped before the second.
        response = fft.ifft(fft.ifft(filtered, axis=1)[:, rows], axis=2)[:, :, columns]
        cells[:, number] = (mean_rows @ np.abs(response) @ mean_columns.T).transpose(0, 2, 1)
    return cells.reshape(n, DIMENSIONS)


def _whitened(grey: Float32) -> Float32:
    """Return pictures (b, h, w) of log intensities, less their slow part, divided by the local contrast."""
    x = _mirrored(np.log1p(grey), WHITENING_BORDER)
    low_pass = _low_pass(*x.shape[1:])

    def slow_part(x: Float32) -> Float32:
        return fft.irfft2(fft.rfft2(x) * low_pass, s=x.shape[1:])

    x -= slow_part(x)
    x /= np.float32(CONTRAST_OFFSET) + np.sqrt(np.abs(slow_part(np.square(x))))
    return x[:, WHITENING_BORDER:-WHITENING_BORDER, WHITENING_BORDER:-WHITENING_BORDER]


def _mirrored(x: Float32, border: int) -> Float32:
    return np.pad(x, ((0, 0), (border, border), (border, border)), mode="symmetric")


@lru_cache(maxsize=4)
def _low_pass(height: int, width: int) -> Float32:
    """Return the half plane (height, width // 2 + 1) of a Gaussian that is one half at `BRIGHTNESS_CYCLES`."""
    cycles = max(height, width) * np.hypot(fft.fftfreq(height)[:, None], fft.rfftfreq(width))
    return np.exp2(-np.square(cycles / BRIGHTNESS_CYCLES)).astype(np.float32)


@lru_cache(maxsize=4)
def _transfer_functions(height: int, width: int) -> Float32:
    """Return the filters (32, height, width), zero frequency first."""
    down, across = fft.fftfreq(height)[:, None], fft.fftfreq(width)
    rho, theta = np.hypot(down, across), np.arctan2(down, across)
    scales = 0.3 / 1.85 ** np.arange(SCALES)
    turns = np.pi / ORIENTATIONS * np.arange(ORIENTATIONS)
    radial = np.exp(-3.5 * np.square(rho / scales[:, None, None] - 1))  # (4, height, width)
    angles = (theta + turns[:, None, None] + np.pi) % (2 * np.pi) - np.pi  # (8, height, width)
    angular = np.exp(-2 * np.pi * np.square(angles))
    filters = radial[:, None] * angular  # (4, 8, height, width)
    return filters.reshape(-1, height, width).astype(np.float32)


@lru_cache(maxsize=4)
def _cell_means(side: int) -> Float32:
    """Return the matrix (4, side) from pixels along one side to the means of four cells."""
    cell = np.arange(side) * GRID // side  # (side,)
    member = cell == np.arange(GRID)[:, None]
    return (member / member.sum(axis=1, keepdims=True)).astype(np.float32)
