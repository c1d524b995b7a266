"""Beyond one process: training, encoding and searching with workers, which are local processes or actors of a Ray cluster.

pool.py               tasks for workers, answers in order, workers that are started again
process_workers.py    workers that are processes of this machine
ray_workers.py        workers that are actors of a Ray cluster
worker.py             what runs inside a worker
encoding.py           files of vectors to files of codes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.distributed.encoding import EncodedDataset, encode_dataset
    from supquant.distributed.pool import Workers
    from supquant.distributed.process_workers import ProcessWorkers
    from supquant.distributed.ray_workers import RayWorkers

__all__ = [
    "EncodedDataset",
    "ProcessWorkers",
    "RayWorkers",
    "Workers",
    "encode_dataset",
]

__getattr__ = lazy_names(
    __name__,
    {
        "encoding": ("EncodedDataset", "encode_dataset"),
        "pool": ("Workers",),
        "process_workers": ("ProcessWorkers",),
        "ray_workers": ("RayWorkers",),
    },
)


def __dir__() -> list[str]:
    return __all__
