"""Beyond one process: training, encoding and searching with workers, which are local processes or actors of a Ray cluster.

pool.py               tasks for workers, answers in order, workers that are started again
process_workers.py    workers that are processes of this machine
ray_workers.py        workers that are actors of a Ray cluster
worker.py             what runs inside a worker
encoding.py           files of vectors to files of codes
sharded_index.py      one index in several folders, a worker for each (sharded_search.py, sharded_changes.py, shards.py, shard.py)
rows.py               rows of training that workers read (source_files.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.distributed.encoding import EncodedDataset, encode_dataset
    from supquant.distributed.pool import Workers
    from supquant.distributed.process_workers import ProcessWorkers
    from supquant.distributed.ray_workers import RayWorkers
    from supquant.distributed.rows import ProcessRows, RayRows
    from supquant.distributed.sharded_index import PartialAnswer, ShardedIndex

__all__ = [
    "EncodedDataset",
    "PartialAnswer",
    "ProcessRows",
    "ProcessWorkers",
    "RayRows",
    "RayWorkers",
    "ShardedIndex",
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
        "rows": ("ProcessRows", "RayRows"),
        "sharded_index": ("PartialAnswer", "ShardedIndex"),
    },
)


def __dir__() -> list[str]:
    return __all__
