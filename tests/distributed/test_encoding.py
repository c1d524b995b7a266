"""Files of vectors to files of codes: every row once, whole files, after kills at random moments too."""

import os
import random
import signal
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inline_workers import InlineWorkers

from supquant import InputError, ProductQuantizer
from supquant.distributed import encode_dataset
from supquant.sources import open_vectors

from .conftest import write_vectors


def read_codes(paths):
    """Return the ids (n,) and codes (n, M) of files."""
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    codes = np.array([np.frombuffer(code, np.uint8) for code in table["code"].to_pylist()])
    return table["id"].to_numpy(), codes


def test_every_row_is_encoded_with_its_id(workers, product, folder, vectors, tmp_path):
    steps = []
    done = encode_dataset(product, folder, tmp_path / "codes", workers=workers, callback=steps.append)
    assert [path.name for path in done.files] == [f"part-{number}.parquet" for number in range(4)]
    ids, codes = read_codes(done.files)
    assert ids.tolist() == list(range(5000, 6000))
    assert np.array_equal(codes, product.encode(vectors))
    assert pq.read_schema(done.files[0]).field("code").type == pa.binary(4)
    assert steps[-1].step == steps[-1].total
    assert [each.step for each in steps] == [250, 500, 750, 1000]
    assert steps[0].remaining is None  # the first files include the start of the workers


def test_finished_files_are_skipped_and_others_are_written_again(product, folder, tmp_path):
    first = encode_dataset(product, folder, tmp_path, workers=InlineWorkers())
    times = [path.stat().st_mtime_ns for path in first.files]
    first.files[2].unlink()
    again = encode_dataset(product, folder, tmp_path, workers=InlineWorkers())
    assert (first.n_skipped, again.n_skipped) == (0, 3)
    assert [path.stat().st_mtime_ns == before for path, before in zip(again.files, times, strict=True)] == [
        True,
        True,
        False,
        True,
    ]


def test_a_file_of_vectors_that_changed_is_encoded_again(product, vectors, tmp_path):
    write_vectors(tmp_path / "a.parquet", vectors[:100])
    encode_dataset(product, tmp_path / "a.parquet", tmp_path / "codes", workers=InlineWorkers())
    write_vectors(tmp_path / "a.parquet", vectors[100:200])
    done = encode_dataset(product, tmp_path / "a.parquet", tmp_path / "codes", workers=InlineWorkers())
    assert np.array_equal(read_codes(done.files)[1], product.encode(vectors[100:200]))


def test_codes_of_another_model_are_not_mixed_in(product, folder, vectors, tmp_path):
    encode_dataset(product, folder, tmp_path, workers=InlineWorkers())
    other = ProductQuantizer(4, n_codewords=16, random_state=1).fit(vectors)
    with pytest.raises(InputError, match=r"part-0\.parquet has codes of another model"):
        encode_dataset(other, folder, tmp_path, workers=InlineWorkers())


def test_shards_of_arrays_are_numbered_over_all_files(product, vectors, tmp_path):
    (tmp_path / "in").mkdir()
    for number, rows in enumerate((vectors[:300], vectors[300:1000])):
        np.save(tmp_path / "in" / f"x-{number}.npy", rows)
    done = encode_dataset(product, tmp_path / "in", tmp_path / "out", workers=InlineWorkers())
    assert [path.name for path in done.files] == ["x-0.npy.parquet", "x-1.npy.parquet"]
    assert read_codes(done.files)[0].tolist() == list(range(1000))


def test_twenty_kills_at_random_moments_lose_no_row_and_double_none(product, folder, vectors, tmp_path):
    draw = random.Random(1)
    began = time.monotonic()
    encode_dataset(product, folder, tmp_path / "timed", workers=InlineWorkers())
    whole = time.monotonic() - began
    kills = 0
    target = tmp_path / "codes"
    while kills < 20:
        child = os.fork()
        if child == 0:
            encode_dataset(product, folder, target, workers=InlineWorkers())
            os._exit(0)
        time.sleep(draw.uniform(0, 0.5 * whole))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif draw.random() < 0.5:  # it was finished: one file has to be made again
            (target / f"part-{draw.randrange(4)}.parquet").unlink()
    done = encode_dataset(product, folder, target, workers=InlineWorkers())
    ids, codes = read_codes(done.files)
    assert ids.tolist() == list(range(5000, 6000))
    assert np.array_equal(codes, product.encode(vectors))


def test_a_bad_row_is_one_error_that_names_file_and_row(workers, product, vectors, tmp_path):
    target, tmp_path = tmp_path / "codes", tmp_path / "vectors"
    tmp_path.mkdir()
    write_vectors(tmp_path / "a.parquet", vectors[:100])
    rows = [row.tolist() for row in vectors[:50]]
    rows[7] = None
    pq.write_table(pa.table({"vector": pa.array(rows, pa.list_(pa.float32()))}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet, row 7 has no vector"):
        encode_dataset(product, tmp_path, target, workers=workers)
    rows[7] = rows[8][:5]
    pq.write_table(pa.table({"vector": pa.array(rows, pa.list_(pa.float32()))}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet, row 7 has a vector of 5 values"):
        encode_dataset(product, tmp_path, target, workers=workers)


def test_files_of_other_widths_and_a_missing_column_are_named(product, vectors, tmp_path):
    target, tmp_path = tmp_path / "codes", tmp_path / "vectors"
    tmp_path.mkdir()
    write_vectors(tmp_path / "a.parquet", vectors[:10], label=np.arange(10))
    write_vectors(tmp_path / "b.parquet", vectors[:10, :5], label=np.arange(10))
    with pytest.raises(InputError, match=r"b\.parquet, row 0 has a vector of 5 values"):
        encode_dataset(product, tmp_path, target, workers=InlineWorkers())
    write_vectors(tmp_path / "b.parquet", vectors[:10])
    with pytest.raises(InputError, match=r"b\.parquet has no column 'label'"):
        encode_dataset(product, tmp_path, target, labels="label", workers=InlineWorkers())


def test_codes_are_not_written_among_the_vectors(product, folder):
    with pytest.raises(InputError, match="outside of the vectors"):
        encode_dataset(product, folder, folder / "codes")


def test_only_paths_can_be_encoded(product, vectors, tmp_path):
    with pytest.raises(InputError, match="path of files that every worker can read"):
        encode_dataset(product, open_vectors(vectors), tmp_path)
