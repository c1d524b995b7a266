"""Report: the speed of encoding projected vectors, beside the LocalSearchQuantizer of FAISS.

Both choose eight of 8 x 256 additive codewords for a vector, on one thread, for vectors that neither was trained on. FAISS
minimizes the reconstruction error; ours, by default, also the error in the predicted labels. The reconstruction error of each
stands beside its speed.
"""

from __future__ import annotations

import importlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from supquant.arrays import Array
from supquant.codec.additive import AdditiveCodec
from supquant.published import PublishedQuantizer
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.bench.data import benchmark_data
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress


ANCHORS = 1000
"""Number of anchors of the kernel features."""

CODEBOOKS = 8
"""Number of codebooks of 256 words: 64 bits a code."""

RATIO_LIMIT = 15.0
"""Our speed over that of FAISS should be at least this."""

LEARNED_ROWS = 4_000
"""Number of rows that both are trained on; FAISS takes minutes for more."""

TRAIN_ITERATIONS = 10
"""Training iterations of FAISS, whose default is 25."""

MAX_ITER = 3
"""Training iterations of ours."""

TIMED_ROWS = 2_000
"""Number of rows that FAISS encodes; ours encodes all rows."""


def bench_encode(
    *, quick: bool = False, callback: Callable[[Progress], None] | None = None
) -> dict[str, Any]:
    """Encode projected vectors of MNIST to 64 bits with our codec and with FAISS, one thread each.

    Parameters
    ----------
    quick : bool
        Whether to take only a few hundred vectors.
    callback : callable, optional
        Gets the fit's `Progress`.

    Returns
    -------
    dict
        A record for `json`. `ratio` is the speed of our default encoding, which predicts labels, over that of FAISS.
    """
    faiss = importlib.import_module("faiss")
    data = benchmark_data(quick=quick)
    learned_rows, timed_rows = (512, 100) if quick else (LEARNED_ROWS, TIMED_ROWS)
    quantizer = PublishedQuantizer(
        CODEBOOKS,
        features=AnchorKernel(ANCHORS, random_state=0),
        max_iter=1 if quick else MAX_ITER,
        random_state=0,
        callback=callback,
    )
    quantizer.fit(data.X[:learned_rows], data.y[:learned_rows])
    learned, vectors = np.split(quantizer.transform(data.X), [learned_rows])  # (n, r) float32
    codec = quantizer.codec_
    assert isinstance(codec, AdditiveCodec)  # AnchorKernel has this codec

    theirs = faiss.LocalSearchQuantizer(vectors.shape[1], CODEBOOKS, 8)
    theirs.train_iters = 1 if quick else TRAIN_ITERATIONS
    theirs.train(learned)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with threadpool_limits(1):
            sides = [
                _measure("supquant, labels predicted", vectors, codec.encode_projected, codec.decode),
                _measure(
                    "supquant, labels dropped",
                    vectors,
                    partial(codec.encode_projected, missing_labels="drop"),
                    codec.decode,
                ),
                _measure(
                    "faiss LocalSearchQuantizer", vectors[:timed_rows], theirs.compute_codes, theirs.decode
                ),
            ]
    finally:
        faiss.omp_set_num_threads(threads)
    return {
        "benchmark": "encode",
        "dataset": data.name,
        "dimensions": vectors.shape[1],
        "bits": 8 * CODEBOOKS,
        "threads": 1,
        "learned_from": len(learned),
        "max_iter": quantizer.max_iter,
        "faiss_train_iters": theirs.train_iters,
        "sides": sides,
        "ratio": sides[0]["vectors_per_second"] / sides[-1]["vectors_per_second"],
        "ratio_limit": RATIO_LIMIT,
        "faiss": faiss.__version__,
        "machine": describe_machine(),
    }


def _measure(
    name: str, vectors: Array, encode: Callable[[Array], Array], decode: Callable[[Array], Array]
) -> dict[str, Any]:
    """Return the speed of one encoding of all vectors, and the error of its decoded codes."""
    encode(vectors[:64])  # warm up: tables are made before the clock starts
    began = time.perf_counter()
    codes = encode(vectors)
    seconds = time.perf_counter() - began
    error = np.square(decode(codes) - vectors, dtype=np.float64).sum()
    variance = np.square(vectors - vectors.mean(axis=0), dtype=np.float64).sum()
    return {
        "name": name,
        "vectors": len(vectors),
        "vectors_per_second": len(vectors) / seconds,
        "relative_error": float(error / variance),
    }
