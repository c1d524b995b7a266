"""Rows that workers read: samples, sums and fits have the bits of rows in memory, and bad files are named."""

import os
import signal
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inline_workers import InlineWorkers, limit_memory

from supquant import InputError, PublishedQuantizer, SupervisedQuantizer
from supquant.distributed import ProcessRows, RayRows, source_files
from supquant.distributed.rows import WorkerRows
from supquant.distributed.source_files import RowReader, SourceFiles
from supquant.errors import WorkerError
from supquant.inputs.labels import read_labels
from supquant.inputs.validation import check_training_rows
from supquant.model import features
from supquant.model.kernel_rows import BlockMap
from supquant.model.label_kernel import LabelKernel
from supquant.parallel import row_blocks
from supquant.published.anchor_kernel import AnchorKernel
from supquant.row_sums import FeatureCache, RunSum
from supquant.rows import ArrayRows
from supquant.sources import open_vectors
from supquant.sources.tables import ParquetPart

from .conftest import write_vectors

N = 4600  # more than one block of 4096 rows


class InlineRows(WorkerRows):
    """Rows that this process reads as if it were several workers."""

    def __init__(self, path, n_workers=2, labels=None, cache_bytes=1 << 26, workers=None):
        files = SourceFiles.of(path, None, labels, False)
        super().__init__(files, lambda: workers or InlineWorkers(n_workers), cache_bytes)


@pytest.fixture(scope="session")
def classes(tmp_path_factory):
    """Four classes of vectors (4600, 8) float16 in three Parquet files, and their labels."""
    rng = np.random.default_rng(3)
    y = rng.integers(4, size=N)
    X = (rng.normal(size=(4, 8))[y] * 1.5 + rng.normal(size=(N, 8))).astype(np.float16)
    path = tmp_path_factory.mktemp("classes")
    for number, (a, b) in enumerate([(0, 1000), (1000, 4200), (4200, N)]):
        write_vectors(path / f"part-{number}.parquet", X[a:b], label=y[a:b])
    return path, X, y


def quantizer(**parameters):
    settings = {"n_codebooks": 2, "n_codewords": 16, "max_iter": 1, "new_classes": 0.0}
    return SupervisedQuantizer(random_state=0, **settings | {"features": LabelKernel(60)} | parameters)


def published_quantizer(**parameters):
    settings = {"n_codebooks": 2, "n_codewords": 16, "max_iter": 1}
    return PublishedQuantizer(random_state=0, **settings | parameters)


def bits(fitted):
    return fitted.codec_.pack().digest, fitted.training_codes_.tobytes()


@pytest.fixture(scope="session")
def local(classes):
    """The bits of a fit to the rows in memory."""
    _, X, y = classes
    return bits(quantizer().fit(X, y))


def scaled_sums(block, own, shared):
    return (block.x.astype(np.float64).sum(axis=0) * shared + (0 if own is None else own), block.x[:1])


@pytest.mark.parametrize("n_blocks", [1, 16, 17, 100, 260])
def test_sums_do_not_depend_on_who_adds_them_up(classes, n_blocks):
    path, X, _ = classes
    blocks = row_blocks(5 * n_blocks, 5)
    own = [number / 3 for number in range(n_blocks)]

    expected = ArrayRows(X).sum_blocks(scaled_sums, blocks, 1 / 7, own)
    for n_workers in (1, 2, 5):
        found = InlineRows(path, n_workers).sum_blocks(scaled_sums, blocks, 1 / 7, own)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_sum_adds_runs_of_sixteen_in_whatever_order_they_come():
    rng = np.random.default_rng(0)
    values = rng.normal(size=300)
    total = RunSum(300)
    for number in rng.permutation(300):
        total.add(int(number), [values[number : number + 1]])
    # runs of 16, then runs of 16 of these
    runs = [_added(values[start : start + 16]) for start in range(0, 300, 16)]
    assert total.total()[0] == _added([_added(runs[:16]), _added(runs[16:])])


def _added(values):
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def test_rows_are_fetched_by_slices_numbers_and_masks(classes):
    path, X, y = classes
    rows = InlineRows(path, labels="label")
    assert rows.shape == X.shape
    assert np.array_equal(rows.labels, y)
    assert np.array_equal(rows[990:1010], X[990:1010])
    numbers = np.array([4599, 3, 3, 1000, 999, 4200])
    assert np.array_equal(rows[numbers], X[numbers])
    assert np.array_equal(rows[y == 2], X[y == 2])
    chosen = rows.take(np.flatnonzero(y == 2))
    assert np.array_equal(chosen[10:20], X[y == 2][10:20])
    assert np.array_equal(chosen.take(np.array([0, 5]))[np.array([1])], X[y == 2][5:6])


@pytest.fixture
def opened(monkeypatch):
    """The readings of Parquet files, in pages of 300 rows."""
    readings = []
    read = ParquetPart.tables
    monkeypatch.setattr(ParquetPart, "tables", lambda part, *rows: readings.append(rows) or read(part, *rows))
    monkeypatch.setattr(source_files, "PAGE_ROWS", 300)
    monkeypatch.setattr(source_files, "SKIPPED_ROWS", 700)
    return readings


def test_consecutive_rows_are_read_in_one_go_and_never_twice_without_a_cache(classes, opened):
    path, X, _ = classes
    reader = RowReader(open_vectors(path, "vector", ids=False), 0)
    edges = [0, 10, 700, 1010, 1500, 1501, N]
    for start, stop in pairwise(edges):
        assert np.array_equal(reader.read((start, stop)), X[start:stop])
    assert len(opened) == 3  # once for every file
    assert np.array_equal(reader.read((5, 2000)), X[5:2000])
    assert len(opened) == 5


def test_rows_that_lie_close_together_are_reached_by_reading_on(classes, opened):
    path, X, _ = classes
    reader = RowReader(open_vectors(path, "vector", ids=False), 0)
    close = np.array([5, 290, 310, 1499, 1800])  # pages 0, 1, 4 and 6
    assert np.array_equal(reader.read(close), X[close])
    assert len(opened) == 2  # of the first file and of the second one
    assert np.array_equal(reader.read(np.array([4500])), X[[4500]])
    assert len(opened) == 3


def test_a_page_that_was_kept_is_not_read_again(classes, opened):
    path, X, _ = classes
    page = X[:300].nbytes
    reader = RowReader(open_vectors(path, "vector", ids=False), 2 * page)
    assert np.array_equal(reader.read((0, 900)), X[:900])
    before = len(opened)
    assert np.array_equal(reader.read(np.array([0, 299, 599])), X[[0, 299, 599]])
    assert np.array_equal(reader.read((300, 600)), X[300:600])
    assert len(opened) == before
    assert np.array_equal(reader.read((600, 601)), X[600:601])
    assert len(opened) == before + 1  # the third page had no room


@pytest.fixture
def items_of_four_workers(classes):
    """Rows of four workers, and the items that these are sent."""
    workers, items, run = InlineWorkers(4), [], InlineWorkers.run
    workers.run = lambda task, given, *rest: items.extend(given) or run(workers, task, given, *rest)
    return InlineRows(classes[0], workers=workers), items


def test_all_workers_take_part_in_fetching_a_sample(classes, items_of_four_workers):
    _, X, _ = classes
    rows, items = items_of_four_workers
    numbers = np.arange(0, N, 9)
    assert np.array_equal(rows[numbers], X[numbers])
    assert [len(item.blocks[0]) for item in items] == [128, 128, 128, 128]


def test_a_single_block_of_scattered_rows_is_fetched_by_all_workers(classes, items_of_four_workers):
    _, X, _ = classes
    rows, items = items_of_four_workers
    numbers = np.arange(0, N, 9)
    (found,) = rows.map_blocks(_doubled, [numbers], 2)
    assert np.array_equal(found, 2 * X[numbers])
    *fetched, block = items
    assert [len(item.blocks[0]) for item in fetched] == [128, 128, 128, 128]
    assert np.array_equal(block.sent[0], X[numbers])


def test_a_worker_keeps_the_features_of_one_cache_at_a_time(classes):
    rows = InlineRows(classes[0])
    one, other = FeatureCache(1 << 20), FeatureCache(1 << 20)
    for kept_in, value, expected in ((one, 1, 1), (one, 2, 1), (other, 2, 2), (one, 3, 3), (None, 4, 4)):
        found = rows.map_blocks(_kept, row_blocks(N), value, cache=kept_in)
        assert [int(each[0]) for each in found] == [expected] * 2


def _kept(block, own, value):
    del own
    return block.cache.get(block.key, lambda: np.array([value]))


def _doubled(block, own, factor):
    del own
    return factor * block.x


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_a_fit_has_the_bits_of_a_local_one_for_any_number_of_workers(classes, local, n_workers):
    path, _, y = classes
    assert bits(quantizer().fit(InlineRows(path, n_workers), y)) == local


def test_rows_far_from_zero_are_centred_where_they_are_read(classes, processes, tmp_path):
    _, X, y = classes
    far = X[:1000].astype(np.float32) + np.float32(1e5)
    write_vectors(tmp_path / "part-0.parquet", far)
    expected = quantizer().fit(far, y[:1000])
    assert expected.codec_.centre is not None
    assert bits(quantizer().fit(InlineRows(tmp_path, workers=processes), y[:1000])) == bits(expected)


def test_the_study_of_new_classes_has_the_bits_of_a_local_one(classes):
    path, X, y = classes
    expected = bits(quantizer(new_classes=0.25).fit(X[:1000], y[:1000]))
    assert bits(quantizer(new_classes=0.25).fit(InlineRows(path / "part-0.parquet"), y[:1000])) == expected


def test_a_fit_of_actors_and_one_of_processes_have_the_bits_of_a_local_one(workers, classes, local):
    path, _, _ = classes
    rows = InlineRows(path, labels="label", workers=workers)
    steps = []
    fitted = quantizer(callback=steps.append).fit(rows, rows.labels)
    assert bits(fitted) == local
    assert list(dict.fromkeys(each.stage for each in steps))[:3] == ["classifier", "new classes", "features"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept features", "features made again"])
def test_rows_without_labels_and_no_cache_give_the_bits_of_a_local_fit(classes, monkeypatch, kept):
    path, X, y = classes
    if not kept:
        monkeypatch.setattr(features, "FEATURE_BYTES", 0)
    some = y.astype(object)
    some[::3] = None
    expected = bits(quantizer(features=LabelKernel(0)).fit(X, some))
    assert bits(quantizer(features=LabelKernel(0)).fit(InlineRows(path, cache_bytes=0), some)) == expected


@pytest.mark.parametrize("cache_bytes", [0, 1 << 26])
def test_a_sample_gives_the_bits_of_a_local_fit(classes, monkeypatch, cache_bytes):
    path, X, y = classes
    monkeypatch.setattr("supquant.model.kernel_rows.MIN_GRAM_ROWS", 1000)
    monkeypatch.setattr("supquant.model.kernel_rows.GRAM_ROWS", 600)
    fitted = quantizer().fit(X, y)
    _, rows = LabelKernel(60, random_state=0).learn(X, read_labels(y))
    assert rows.n_sampled == 2
    assert isinstance(rows.kernel, BlockMap)
    assert bits(quantizer().fit(InlineRows(path, cache_bytes=cache_bytes), y)) == bits(fitted)


def test_many_classes_learn_their_means_from_all_rows(classes):
    path, X, _ = classes
    y = np.arange(N) % 300
    expected = bits(quantizer(features=LabelKernel(0), n_codewords=32).fit(X, y))
    assert bits(quantizer(features=LabelKernel(0), n_codewords=32).fit(InlineRows(path), y)) == expected


def test_a_process_killed_in_the_middle_of_a_fit_changes_no_bit(processes, classes, local):
    path, _, y = classes
    before = processes.n_restarts
    first, events = processes.process_ids()[0], []

    def kill_after_the_classifier(event):
        events.append(event)
        if len(events) == 1:
            os.kill(first, signal.SIGKILL)

    assert (
        bits(quantizer(callback=kill_after_the_classifier).fit(InlineRows(path, workers=processes), y))
        == local
    )
    assert processes.n_restarts == before + 1


def test_a_worker_that_runs_out_of_memory_in_a_fit_changes_no_bit(processes, classes, local):
    path, _, y = classes
    for worker in processes.process_ids():  # new ones have no memory left over from earlier work
        os.kill(worker, signal.SIGKILL)
    list(processes.run(limit_memory, [0, 1], 200 << 10, pinned=True))  # too little for a block of rows
    before = processes.n_restarts
    assert bits(quantizer().fit(InlineRows(path, workers=processes), y)) == local
    assert processes.n_restarts > before


def test_sums_travel_and_rows_do_not(classes):
    path, X, _ = classes
    rows = InlineRows(path)
    check_training_rows(rows)
    sent, received = rows.workers.bytes_sent, rows.workers.bytes_received
    from supquant.model.position import principal_directions

    principal_directions(rows, 1)
    sums = 2 * (8 * 8 + 4 * 8 * 8)  # of two blocks: p float64 and p x p float32
    assert rows.workers.bytes_received - received < sums + 2000
    assert rows.workers.bytes_sent - sent < 3000
    assert X.nbytes > 20 * sums


@pytest.mark.parametrize("kind", [ProcessRows, RayRows])
def test_a_missing_column_is_an_error_before_workers_start(kind, classes, tmp_path):
    _, X, y = classes
    write_vectors(tmp_path / "a.parquet", X[:50], label=y[:50])
    write_vectors(tmp_path / "b.parquet", X[:50])
    with pytest.raises(InputError, match=r"b\.parquet has no column 'label'"):
        kind(tmp_path, labels="label")


def test_bad_rows_are_named_before_the_fit(classes, tmp_path):
    _, X, y = classes
    write_vectors(tmp_path / "a.parquet", X[:50])
    for bad, fault in (
        (None, "row 7 has no vector"),
        ([1.0, 2.0], "row 7 has a vector of 2 values"),
        ([float("nan")] * 8, "row 7 has the value nan"),
    ):
        vectors = X[:50].astype(np.float32).tolist()
        vectors[7] = bad
        table = pa.table({"vector": pa.array(vectors, pa.list_(pa.float32()))})
        pq.write_table(table, tmp_path / "b.parquet")
        with pytest.raises(InputError, match=rf"b\.parquet, {fault}"):
            quantizer().fit(InlineRows(tmp_path), y[:100])
    write_vectors(tmp_path / "b.parquet", X[:50, :5])
    with pytest.raises(InputError, match=r"b\.parquet, row 0 has a vector of 5 values"):
        quantizer().fit(InlineRows(tmp_path), y[:100])


def test_values_too_large_are_refused(classes, tmp_path):
    _, X, y = classes
    np.save(tmp_path / "large.npy", X[:100].astype(np.float32) * 1e30)
    with pytest.raises(InputError, match="too large for float32"):
        quantizer().fit(InlineRows(tmp_path / "large.npy"), y[:100])


PUBLISHED = {
    "joint": {"features": AnchorKernel(12)},
    "alternating": {"features": AnchorKernel(12), "solver": "alternating"},
    "vectors": {"features": None},
    "fixed": {"features": None, "projection": "identity", "solver": "alternating"},
}


@pytest.fixture(scope="session")
def published(classes):
    """Return a function that gives the bits of a published fit to rows in memory, by the name of its settings."""
    _, X, y = classes
    return cache(lambda name: bits(published_quantizer(**PUBLISHED[name]).fit(X, some_known(y))))


def some_known(y):
    """Return labels of which one in seven is unknown."""
    return [None if number % 7 == 0 else label for number, label in enumerate(y.tolist())]


@pytest.mark.parametrize(
    ("name", "n_workers"),
    [("joint", 1), ("joint", 2), ("joint", 4), *((name, 2) for name in PUBLISHED if name != "joint")],
)
def test_a_published_fit_has_the_bits_of_a_local_one(classes, published, name, n_workers):
    path, _, y = classes
    rows = InlineRows(path, n_workers)
    assert bits(published_quantizer(**PUBLISHED[name]).fit(rows, some_known(y))) == published(name)


def test_a_published_fit_of_actors_and_one_of_processes_have_the_bits_of_a_local_one(
    workers, classes, published
):
    path, _, y = classes
    rows = InlineRows(path, workers=workers)
    assert bits(published_quantizer(**PUBLISHED["joint"]).fit(rows, some_known(y))) == published("joint")


def test_a_longer_published_code_starts_from_a_shorter_one(classes):
    path, X, y = classes
    shorter = published_quantizer(**PUBLISHED["joint"]).fit(X[:1000], y[:1000])
    longer = {**PUBLISHED["joint"], "n_codebooks": 4, "init": shorter}
    local = bits(published_quantizer(**longer).fit(X, y))
    assert bits(published_quantizer(**longer).fit(InlineRows(path), y)) == local


def test_workers_that_are_lost_too_often_end_the_fit_with_one_error(classes):
    path, _, y = classes

    class Dying(InlineWorkers):
        def _receive(self, numbers, seconds):
            from supquant.distributed.pool import Lost

            yield numbers[0], Lost("killed by a test")

    with pytest.raises(WorkerError, match="no restart is left: killed by a test"):
        quantizer().fit(InlineRows(path, workers=Dying(2, restarts=2)), y)
