"""Report: the speed of encoding, of projected vectors compared with FAISS, and from Parquet files compared with an .npy file.

`bench_encode` compares the published method with the LocalSearchQuantizer of FAISS. Both choose eight of 8 x 256 additive
codewords for a vector, on one thread, for vectors that neither was trained on. FAISS minimizes the reconstruction error; ours, by
default, also the error in the predicted labels. The reconstruction error of each is reported with its speed.

`bench_reading` encodes the same float16 numbers from both kinds of files with a default model of 64 bits. A fresh process reads
block by block and encodes on all threads. Its anonymous memory is watched from outside, less what the model itself takes.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.interchange import import_faiss
from supquant.model import SupervisedQuantizer
from supquant.models import load_model
from supquant.published import AnchorKernel, PublishedQuantizer
from supquant.sources import open_vectors
from supquant_lab.bench.data import benchmark_data
from supquant_lab.bench.process import anonymous_mb, run_watched, temporary_folder
from supquant_lab.bench.search.sides import thread_limit
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress

ANCHORS = 1000
"""Number of anchors of the kernel features."""

CODEBOOKS = 8
"""Number of codebooks of 256 words: 64 bits per code."""

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
    faiss = import_faiss()
    name, data = benchmark_data(quick=quick)
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
    dropped = partial(codec.encode_projected, missing_labels="drop")
    with thread_limit(faiss, 1):
        sides = [
            _measure("supquant, labels predicted", vectors, codec.encode_projected, codec.decode),
            _measure("supquant, labels dropped", vectors, dropped, codec.decode),
            _measure("faiss LocalSearchQuantizer", vectors[:timed_rows], theirs.compute_codes, theirs.decode),
        ]
    return {
        "benchmark": "encode",
        "dataset": name,
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


FILES = 20
"""Number of Parquet files."""

MODEL_ROWS, CLASSES, BITS = 8_000, 77, 64
"""Rows and classes that the default model is fitted to, as Banking77 has them, and the bits of its codes."""

MEMORY_LIMIT_MB, SPEED_LIMIT = 600.0, 0.7
"""Reading Parquet should take at most this many MB above the model, and reach this fraction of the speed from .npy."""


def bench_reading(
    rows: int = 2_000_000,
    columns: int = 384,
    *,
    rounds: int = 2,
    folder: Path | None = None,
    on_side: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Stream the same vectors from both kinds of files to codes, in turn.

    Parameters
    ----------
    rows, columns : int
        The size of the set.
    rounds : int, default=2
        How often each side is measured. The fastest round and the largest memory count.
    folder : path, optional
        The folder for the files, four bytes per number; the system's folder for temporary files by default.
    on_side : callable, optional
        Gets the name of each side before it is measured.

    Returns
    -------
    dict
        A record for `json`. `ratio` is the speed from Parquet over that from .npy.
    """
    with temporary_folder(folder) as home:
        _write_sources(home, rows, columns)
        sides: dict[str, dict[str, float]] = {}
        digests: set[str] = set()
        for _ in range(rounds):
            for name, source in (("npy", home / "X.npy"), ("parquet", home / "parquet")):
                if on_side is not None:
                    on_side(name)
                found, peak = run_watched(_encode_file, home / "model", source, purpose=f"encode {source}")
                memory = peak - found["model_mb"]
                before = sides.setdefault(name, {"seconds": found["seconds"], "memory_mb": memory})
                sides[name] = {
                    "seconds": min(before["seconds"], found["seconds"]),
                    "memory_mb": max(before["memory_mb"], memory),
                }
                digests.add(found["digest"])
    if len(digests) > 1:
        raise InputError("the codes from Parquet differ from those from .npy")
    return {
        "benchmark": "reading",
        "rows": rows,
        "dimensions": columns,
        "dtype": "float16",
        "bits": BITS,
        "files": FILES,
        "sides": sides,
        "vectors_per_second": {name: rows / side["seconds"] for name, side in sides.items()},
        "ratio": sides["npy"]["seconds"] / sides["parquet"]["seconds"],
        "speed_limit": SPEED_LIMIT,
        "memory_limit_mb": MEMORY_LIMIT_MB,
        "machine": describe_machine(),
    }


def _write_sources(home: Path, rows: int, columns: int) -> None:
    """Write the model, X.npy, and the folder of Parquet files with the same rows."""
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = np.random.default_rng(0)
    means = rng.normal(size=(CLASSES, columns)).astype(np.float32)

    def draw(n: int) -> tuple[Array, Array]:
        y = rng.integers(CLASSES, size=n)
        return means[y] + 2 * rng.standard_normal((n, columns), dtype=np.float32), y

    learned = min(MODEL_ROWS, rows)
    SupervisedQuantizer(BITS // 8, random_state=0).fit(*draw(learned)).save(home / "model")
    X = np.lib.format.open_memmap(home / "X.npy", mode="w+", dtype=np.float16, shape=(rows, columns))
    (home / "parquet").mkdir()
    for number in range(FILES):
        start, stop = number * rows // FILES, (number + 1) * rows // FILES
        X[start:stop] = draw(stop - start)[0]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[start:stop].ravel()), columns)
        table = pa.table({"id": np.arange(start, stop), "embedding": vectors})
        pq.write_table(table, home / "parquet" / f"part-{number}.parquet", row_group_size=10_000)
    X.flush()


def _encode_file(model: str, source: str) -> dict[str, Any]:
    """Encode a source in this process; return its seconds, the memory before in MB, and a digest of the codes."""
    import xxhash  # noqa: PLC0415

    codec = load_model(model).codec_
    model_mb = anonymous_mb("self")
    began = time.perf_counter()
    digest = xxhash.xxh3_128()
    for block in open_vectors(source).blocks():
        digest.update(codec.encode_items(block.X).tobytes())
    return {"seconds": time.perf_counter() - began, "model_mb": model_mb, "digest": digest.hexdigest()}
