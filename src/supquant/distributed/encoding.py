"""Files of vectors to files of codes: one task for each file, which is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from supquant.arrays import Codes
from supquant.codec.interface import AnyCodec
from supquant.distributed.pool import Workers
from supquant.distributed.process_workers import ProcessWorkers
from supquant.distributed.source_files import SourceFiles
from supquant.distributed.worker import Memory
from supquant.errors import InputError
from supquant.kernels.device import Device, use_device
from supquant.progress import Progress, Reporter
from supquant.sources import Block
from supquant.storage import replace_file

__all__ = ["EncodedDataset", "encode_dataset", "write_code_table"]

MODEL_NOTE, SOURCE_NOTE = "supquant.codec", "supquant.source"
"""Keys in the metadata of a file of codes: the digest of the codec, and the file that was encoded."""


MAX_SHARING = 4
"""At most this number of processes share a GPU by default. Each needs some hundred MB there, and reading takes their time."""


@dataclass(frozen=True)
class EncodedDataset:
    """What `encode_dataset` has written.

    Attributes
    ----------
    files : tuple of Path
        The files of codes, in the order of the files of vectors.
    n_rows : int
        The number of rows of all files.
    n_skipped : int
        The number of files that were there already.
    """

    files: tuple[Path, ...]
    n_rows: int
    n_skipped: int


def encode_dataset(
    model: Any,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    vectors: str | Sequence[str] | None = None,
    labels: str | bool | None = None,
    ids: str | bool | None = None,
    workers: Workers | None = None,
    n_jobs: int = 1,
    callback: Callable[[Progress], None] | None = None,
    device: Device = "cpu",
) -> EncodedDataset:
    """Encode files of vectors, one file of codes for each.

    A file is written whole or not at all. Files that an earlier call has written with the same model from the same files of
    vectors are skipped. If a call was interrupted or killed, simply repeat it.

    Parameters
    ----------
    model : str, path or fitted estimator
        The model, its `codec_`, or the file of one.
    source : str or path
        A file of vectors or a folder of such files, as in `open_vectors`. Every worker must be able to read it.
    target : str or path
        A folder for the files of codes, which every worker can write. It is made if it is not there. Each file has the columns
        `id` and `code` (fixed-size binary). Without ids, rows are numbered over all files.
    vectors, labels, ids
        Columns, as in `open_vectors`. Known labels are kept in the codes.
    workers : Workers or None, default=None
        Who encodes: `ProcessWorkers` or `RayWorkers`. None starts a process for each core, and ends them afterwards.
    n_jobs : int, default=1
        Number of threads of each worker.
    callback : callable or None, default=None
        Called with a `supquant.progress.Progress` after every file.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where workers encode, as in `use_device`. With ``RayWorkers(actor_options={"num_gpus": 1})`` each actor has a GPU of its
        own. Processes share one; without `workers`, there are then at most `MAX_SHARING`.

    Returns
    -------
    EncodedDataset

    Raises
    ------
    InputError
        If a row cannot be read; the error names the file and the row. Or if the target has codes of another model.
    WorkerError
        If workers were lost too often. Files that were finished stay.
    """
    codec = _read_codec(model)
    files = SourceFiles.of(source, vectors, labels, ids)
    opened = files.open()
    folder = Path(target).absolute()
    if folder.is_relative_to(files.path):
        raise InputError(f"{folder} lies in {files.path}: codes need a folder outside of the vectors")
    digest = codec.pack().digest
    tasks = [_FileTask.of(part, files.path, folder, digest) for part in opened.parts if part[2] > part[1]]
    waiting = [task for task in tasks if not task.is_done()]
    for parent in {Path(task.target).parent for task in waiting}:
        parent.mkdir(parents=True, exist_ok=True)
    if waiting:
        common = codec, files, n_jobs, device
        most = (os.cpu_count() or 1) if device == "cpu" else MAX_SHARING
        own = ProcessWorkers(min(len(waiting), most)) if workers is None else workers
        try:
            _run(own, waiting, common, Reporter(callback))
        finally:
            if workers is None:
                own.close()
    return EncodedDataset(tuple(Path(task.target) for task in tasks), len(opened), len(tasks) - len(waiting))


def _read_codec(model: Any) -> AnyCodec:
    if isinstance(model, str | os.PathLike):
        from supquant.models import load_model  # noqa: PLC0415  # seconds that no worker should need

        model = load_model(model)
    codec = getattr(model, "codec_", model)
    if not isinstance(codec, AnyCodec):
        raise InputError(
            f"expected a model file, a codec or a fitted estimator, got a {type(model).__name__}"
        )
    return codec


def _run(workers: Workers, tasks: Sequence[_FileTask], common: object, reporter: Reporter) -> None:
    total = sum(task.stop - task.start for task in tasks)
    with reporter.stage("encode", total, at_once=workers.n_workers) as stage:
        for number, _ in workers.run(encode_file, tasks, common):
            stage.step(tasks[number].stop - tasks[number].start)


@dataclass(frozen=True)
class _FileTask:
    """A file of vectors and its file of codes."""

    start: int  # the first row of the file among the rows of all files
    stop: int
    target: str
    notes: dict[str, str]  # the metadata of the file of codes

    @classmethod
    def of(cls, part: tuple[str, int, int], source: str, folder: Path, digest: str) -> _FileTask:
        name, start, stop = part
        path = Path(name)
        inside = path.relative_to(source) if path != Path(source) else Path(path.name)
        written = inside if inside.suffix == ".parquet" else inside.with_name(f"{inside.name}.parquet")
        status = path.stat()
        state = f"{inside}, rows {start} to {stop}, {status.st_size} bytes, {status.st_mtime_ns}"
        return cls(start, stop, str(folder / written), {MODEL_NOTE: digest, SOURCE_NOTE: state})

    def is_done(self) -> bool:
        """Return whether the file of codes is there; raise an `InputError` if it is of another model."""
        import pyarrow.parquet as pq  # noqa: PLC0415  # slow to import

        if not Path(self.target).exists():
            return False
        stored = pq.read_schema(self.target).metadata or {}
        notes = {name: stored.get(name.encode(), b"").decode() for name in self.notes}
        if notes[MODEL_NOTE] != self.notes[MODEL_NOTE]:
            raise InputError(f"{self.target} has codes of another model: name another folder, or delete it")
        return notes == self.notes


def encode_file(memory: Memory, common: tuple[AnyCodec, SourceFiles, int, Device], task: _FileTask) -> None:
    """Encode one file: the task of a worker."""
    codec, files, n_jobs, device = common
    source = files.opened(memory)

    def encoded() -> Iterator[tuple[Codes, Block]]:
        for block in source.blocks(task.start, task.stop):
            yield codec.encode_items(block.X, block.labels, n_jobs=n_jobs), block

    with use_device(device), replace_file(task.target) as file:
        write_code_table(file, encoded(), codec.n_codebooks, task.notes)


def write_code_table(
    file: BinaryIO,
    blocks: Iterable[tuple[Codes, Block]],
    n_bytes: int,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a Parquet file with the columns `id` and `code`, block by block.

    Parameters
    ----------
    file : binary file
        Open for writing.
    blocks : iterable of (codes, block)
        Codes (b, M) of the rows of each block. Rows without ids are numbered.
    n_bytes : int
        M, the number of bytes of a code.
    notes : mapping of str to str, default={}
        What the metadata of the file say.
    """
    import pyarrow as pa  # noqa: PLC0415  # slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    writer = None
    try:
        for codes, block in blocks:
            ids = np.arange(block.start, block.start + len(codes)) if block.ids is None else block.ids
            data = pa.py_buffer(np.ascontiguousarray(codes))
            column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(n_bytes), len(codes), [None, data])
            table = pa.table({"id": pa.array(ids), "code": column}).replace_schema_metadata(dict(notes))
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
