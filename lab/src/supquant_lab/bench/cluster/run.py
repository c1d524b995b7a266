"""Report: all parts of the cluster benchmark in order, with the encoding, which is killed at random moments."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.arrays import Array
from supquant.distributed import encode_dataset
from supquant.errors import InputError
from supquant.model import LabelKernel, SupervisedQuantizer
from supquant.models import load_model
from supquant.parallel import row_blocks
from supquant.sources import open_vectors
from supquant_lab.bench.cluster.fitting import measure_fit
from supquant_lab.bench.cluster.searching import measure_shards
from supquant_lab.bench.process import temporary_folder
from supquant_lab.machine import describe_machine

LIMITS = {
    "driver_mb": 700.0,
    "bytes_over_computed": 1.1,
    "two_workers_over_one": 0.65,
    "call_ms": 3.0,
    "batch_share": 0.1,
    "recovery_seconds": 5.0,
}
"""Maximum of each figure."""

FITS = (
    ("local", 1, "none"),
    ("processes", 1, "none"),
    ("processes", 2, "none"),
    ("processes", 2, "worker"),
    ("processes", 2, "memory"),
    ("ray", 1, "none"),
    ("ray", 2, "none"),
    ("ray", 4, "none"),
    ("ray", 2, "worker"),
    ("ray", 2, "node"),
)
"""Where the rows of a fit are, the number of workers, and what is lost."""

PARTS = ("fit", "encode", "search")
"""The parts that can be measured."""

LEARNED_ROWS = 5000
"""The model of the encoding is fitted to this number of rows."""

ENCODED_FRACTION = 10
"""The encoding reads one row in this many, in as many files as the fit, since each file is started again many times."""
ENCODE = "import sys; from supquant.distributed import encode_dataset; encode_dataset(*sys.argv[1:])"
"""The program that is killed."""

GROUP_ROWS = 10_000
"""Rows of a row group."""

NOISE = np.float32(2.5)
"""Standard deviation of the vectors of a class around its centre, whose coordinates have a standard deviation of 1."""


def bench_cluster(
    rows: int = 2_000_000,
    columns: int = 384,
    *,
    codes: int = 10_000_000,
    classes: int = 77,
    anchors: int = 1000,
    bits: int = 64,
    n_files: int = 20,
    kills: int = 20,
    rounds: int = 21,
    parts: tuple[str, ...] = PARTS,
    fits: tuple[str, ...] | None = None,
    kinds: tuple[str, ...] = ("processes", "ray"),
    folder: Path | None = None,
    on_part: Callable[[str], None] | None = None,
    on_figures: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Measure fits, encoding and searching with workers.

    Parameters
    ----------
    rows, columns : int
        Size of the float16 vectors in Parquet files.
    codes : int
        Codes of the large index.
    classes, anchors, bits : int
        Number of labels of the vectors, anchors of the classifier, and length of a code.
    n_files : int
        Number of Parquet files.
    kills : int
        How often the encoding is killed.
    rounds : int
        How often each search is timed.
    parts : tuple of str
        Which of "fit", "encode" and "search" are measured.
    fits : tuple of str or None, default=None
        Which fits are measured, such as "ray-2" or "processes-2-worker", by the names of `FITS`. None measures all.
    kinds : tuple of str
        What holds the shards of an index: "processes" or "ray".
    folder : Path or None, default=None
        The folder for the files; the system's temporary folder by default.
    on_part : callable or None, default=None
        Gets the name of each part before it is measured.
    on_figures : callable or None, default=None
        Gets the record whenever it has new figures, so that a long run that is stopped loses none.

    Returns
    -------
    dict
        A record for `json`.
    """
    _check_names("part", parts, PARTS)
    _check_names("fit", fits or (), tuple(_name(*each) for each in FITS))
    tell = on_part or (lambda _: None)
    keep = on_figures or (lambda _: None)
    record: dict[str, Any] = {
        "benchmark": "cluster",
        "rows": rows,
        "columns": columns,
        "classes": classes,
        "anchors": anchors,
        "bits": bits,
        "files": n_files,
        "limits": LIMITS,
        "machine": describe_machine(),
        "load_average": os.getloadavg()[0],  # other work of the machine: times are right only if it is near 0
    }
    with temporary_folder(folder) as place:
        if "fit" in parts:
            tell(f"{n_files} files of {rows:,} vectors")
            write_classes(place / "vectors", rows, columns, classes, n_files)
            record["fits"] = []
            for kind, n_workers, fault in FITS:
                if fits is not None and _name(kind, n_workers, fault) not in fits:
                    continue
                tell(f"fit, {kind}, {n_workers} workers, lost: {fault}")
                record["fits"].append(
                    measure_fit(place / "vectors", kind, n_workers, bits=bits, anchors=anchors, fault=fault)
                )
                keep(record | _judged(record["fits"]))
            record |= _judged(record["fits"])
        if "encode" in parts:
            tell(f"encoding, killed {kills} times")
            encoded = place / "encoded"
            write_classes(encoded, max(LEARNED_ROWS, rows // ENCODED_FRACTION), columns, classes, n_files)
            source = open_vectors(encoded, "vector", "label", False)
            some = slice(LEARNED_ROWS)
            model = SupervisedQuantizer(bits // 8, features=LabelKernel(0), max_iter=1, random_state=0)
            model.fit(source.X[some], source.labels[some]).save(place / "model")
            record["encode"] = kill_encoding(place / "model", encoded, place / "codes", kills)
            keep(record)
        if "search" in parts:
            tell(f"search, {codes:,} codes")
            record["search"] = {
                kind: measure_shards(place / kind, kind, 10_000, codes, rounds) for kind in kinds
            }
    return record


def _check_names(what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"there is no {what} {name!r}: expected one of {', '.join(known)}")


def _name(kind: str, n_workers: int, fault: str) -> str:
    return "-".join((kind, str(n_workers), *([] if fault == "none" else [fault])))


def _judged(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures that have limits, and the seconds that each fault cost."""
    seconds = {(each["kind"], each["workers"]): each["seconds"] for each in fits if each["fault"] == "none"}
    others = [each for each in fits if each["kind"] != "local"]
    passes = [each["bytes_of_pass"] for each in others]
    return {
        "same_bits": len({each["digest"] for each in fits}) == 1,
        "driver_mb": max((each["driver_mb"] for each in others), default=0.0),
        "bytes_over_computed": max((each["received"] / each["computed"] for each in passes), default=0.0),
        "two_workers_over_one": {
            kind: seconds[kind, 2] / seconds[kind, 1]
            for kind in ("processes", "ray")
            if (kind, 1) in seconds and (kind, 2) in seconds
        },
        "seconds_of_faults": {
            _name(each["kind"], each["workers"], each["fault"]): each["seconds"]
            - seconds[each["kind"], each["workers"]]
            for each in others
            if each["fault"] != "none" and (each["kind"], each["workers"]) in seconds
        },
    }


def write_classes(folder: Path, rows: int, columns: int, n_classes: int, n_files: int) -> None:
    """Write vectors (rows, columns) float16 with the columns `label` and `vector`, in files of equal size."""
    centres = np.random.default_rng(0).standard_normal((n_classes, columns), dtype=np.float32)
    folder.mkdir(parents=True)
    for number, (start, stop) in enumerate(row_blocks(rows, -(-rows // n_files))):
        schema, name = _table(centres, 0, 1).schema, f"part-{number}.parquet"
        # No value occurs twice, so a dictionary would only cost time.
        with pq.ParquetWriter(folder / name, schema, use_dictionary=False, compression="none") as writer:
            for a, b in row_blocks(stop - start, GROUP_ROWS):
                writer.write_table(_table(centres, start + a, start + b))


def _table(centres: Array, start: int, stop: int) -> pa.Table:
    rng = np.random.default_rng([1, start])
    labels = rng.integers(len(centres), size=stop - start)
    noise = rng.standard_normal((stop - start, centres.shape[1]), dtype=np.float32)
    X = (centres[labels] + NOISE * noise).astype(np.float16)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    return pa.table({"label": labels.astype(np.int32), "vector": lists})


def kill_encoding(model: Path, source: Path, target: Path, kills: int) -> dict[str, Any]:
    """Kill a process that encodes until it was killed `kills` times while it ran, then let it finish, and check every row.

    Returns
    -------
    dict
        `kills`, `rows`, whether `every_row_once` and `codes_are_right`, and `rows_per_second` of a run that was not killed.
    """
    draw = random.Random(0)
    began = time.perf_counter()
    encode_dataset(model, source, target.with_name("timed"))
    seconds = time.perf_counter() - began
    done = 0
    while done < kills:
        process = subprocess.Popen([sys.executable, "-c", ENCODE, str(model), str(source), str(target)])
        time.sleep(draw.uniform(0, 1.2 * seconds))
        if process.poll() is None:
            process.kill()
            done += 1
        elif files := sorted(target.glob("*.parquet")):  # it had finished: undo some of its work
            for file in files[:: draw.randrange(1, 4)]:
                file.unlink()
        process.wait()
    written = encode_dataset(model, source, target)
    table = pa.concat_tables([pq.read_table(file) for file in written.files])
    vectors = open_vectors(source, "vector", ids=False)
    codes = load_model(model).codec_.encode_items(vectors.X)
    found = np.frombuffer(b"".join(table["code"].to_pylist()), dtype=np.uint8).reshape(codes.shape)
    return {
        "kills": done,
        "rows": len(vectors),
        "every_row_once": table["id"].to_pylist() == list(range(len(vectors))),
        "codes_are_right": bool(np.array_equal(found, codes)),
        "rows_per_second": len(vectors) / seconds,
    }
