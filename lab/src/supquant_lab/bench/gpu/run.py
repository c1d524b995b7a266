"""The record of a GPU: all sides in one process, one after the other."""

from __future__ import annotations

import time
from typing import Any

from supquant import SupervisedQuantizer
from supquant.kernels import device
from supquant_lab.bench.gpu.clock import copy_bytes_per_second
from supquant_lab.bench.gpu.encoding import embeddings, encoding_figures
from supquant_lab.bench.gpu.fitting import fitting_figures
from supquant_lab.bench.gpu.searching import searching_figures
from supquant_lab.bench.timing import Figure
from supquant_lab.machine import describe_machine

__all__ = ["bench_gpu"]

CODEBOOKS = 8
"""Bytes of a code."""

ENCODED_ROWS, QUICK_ENCODED_ROWS = 1 << 21, 1 << 16
SCANNED_ROWS, QUICK_SCANNED_ROWS = 10**9, 10**7


def bench_gpu(*, quick: bool = False) -> dict[str, Any]:
    """Measure fits, encoding and searching on a GPU, against all cores, one core and torch.

    Parameters
    ----------
    quick : bool
        Whether to take ten million codes, not a billion, and random classes for fits.

    Returns
    -------
    dict
        A record for `json`. `figures` are those with limits.
    """
    gpu = device.cuda()
    fitting = fitting_figures(quick=quick)
    data = embeddings()
    model = SupervisedQuantizer(CODEBOOKS, random_state=0)
    began = time.perf_counter()
    model.fit(data.learned, data.labels)
    fit_seconds = time.perf_counter() - began
    ceiling = copy_bytes_per_second(1 << (28 if quick else 33))
    encoding = encoding_figures(model, data, QUICK_ENCODED_ROWS if quick else ENCODED_ROWS)
    searching = searching_figures(model.codec_.codebooks, QUICK_SCANNED_ROWS if quick else SCANNED_ROWS)
    return {
        "benchmark": "gpu",
        "gpu": gpu.name(),
        "copy_bytes_per_second": ceiling,
        "fit_on_cpu_seconds": fit_seconds,
        "fitting": fitting,
        "encoding": encoding,
        "searching": searching,
        "figures": [figure.to_json() for figure in _figures(fitting, encoding, searching)],
        "machine": describe_machine(),
    }


def _figures(
    fitting: list[dict[str, Any]], encoding: dict[str, Any], searching: dict[str, Any]
) -> list[Figure]:
    ours = {side["queries"]: side for side in searching["sides"] if side["name"] == "supquant"}
    one, many = ours[1], ours[max(ours)]
    of_fits = [
        figure
        for each in fitting
        for figure in (
            Figure(f"fit of {each['dataset']} against all cores", each["times_as_fast"], 5, unit=" times"),
            Figure(
                f"difference of MAP of fits of {each['dataset']}",
                abs(each["map_gpu"] - each["map_cpu"]),
                at_most=0.001,
            ),
            Figure(f"fits of {each['dataset']} that give the same model", float(each["equal_models"]), 1),
        )
    ]
    return [
        *of_fits,
        Figure("rows encoded in GPU memory", encoding["gpu_memory_rows_per_second"], 5e5, unit=" rows/s"),
        Figure("rows encoded from float16", encoding["host_float16_rows_per_second"], 3e5, unit=" rows/s"),
        Figure("codes equal to the CPU's", encoding["equal_codes"], 0.999),
        Figure("difference of MAP", abs(encoding["map_gpu"] - encoding["map_cpu"]), at_most=0.0005),
        Figure("codes scanned for one query", one["code_bytes_per_second"] / 1e12, 1.7, unit=" TB/s"),
        Figure(
            f"pairs scanned for {many['queries']} queries",
            many["pairs_per_second"] / 1e12,
            0.6,
            unit=" 10^12/s",
        ),
        Figure(
            "memory for a byte of codes", searching["gpu_bytes_per_byte_of_codes"], at_most=1.1, unit=" bytes"
        ),
    ]
