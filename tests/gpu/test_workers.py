"""Workers encode files on a GPU."""

import numpy as np
import pytest
from noisy_classes import draw_classes

from supquant.distributed import ProcessWorkers, encode_dataset

pq = pytest.importorskip("pyarrow.parquet")


def test_files_are_encoded_on_a_gpu_by_two_processes(models, tmp_path):
    codec, (X, _) = models["default"].codec_, draw_classes(10, 4000, 24, seed=5)
    (tmp_path / "in").mkdir()
    for part in range(4):
        np.save(tmp_path / "in" / f"{part}.npy", X[part * 1000 : (part + 1) * 1000])
    with ProcessWorkers(2) as workers:
        done = encode_dataset(codec, tmp_path / "in", tmp_path / "out", workers=workers, device="cuda")
    columns = [pq.read_table(file)["code"].to_pylist() for file in done.files]
    got = np.array([list(code) for column in columns for code in column], dtype=np.uint8)
    assert (got == codec.encode_items(X)).all(axis=1).mean() >= 0.999
