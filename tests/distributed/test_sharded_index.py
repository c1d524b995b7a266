"""An index in several folders: its answers are those of one index, also after changes and after a worker was lost."""

import os
import shutil
import signal
import threading
from itertools import pairwise

import numpy as np
import pytest
from inline_workers import InlineWorkers

from supquant import CodeIndex, InputError, ProductQuantizer, SupervisedQuantizer
from supquant.distributed import PartialAnswer, ShardedIndex
from supquant.errors import FileFormatError, SaveConflictError

N = 600
EDGES = (0, 100, 350, N)


@pytest.fixture
def make(product, vectors, tmp_path):
    """Return a function that writes three shards of 600 rows, and returns their folders and one index of all rows."""

    def write(ids=None, metadata=None):
        whole = CodeIndex(product).add(vectors[:N], ids=ids, metadata=metadata)
        folders = []
        for a, b in pairwise(EDGES):
            own = {
                "ids": None if ids is None else ids[a:b],
                "metadata": None
                if metadata is None
                else {name: each[a:b] for name, each in metadata.items()},
            }
            folders.append(tmp_path / f"shard-{a}")
            CodeIndex(product).add(vectors[a:b], **own).save(folders[-1])
        return folders, whole

    return write


def assert_same_answers(sharded, whole, Q, **search):
    for k in (1, 7, 2 * N):
        found, expected = sharded.search(Q, k, **search), whole.search(Q, k, **search)
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


NAMES = [f"row {number}" for number in range(N)]


@pytest.mark.parametrize("ids", [None, np.arange(N)[::-1] * 3, NAMES], ids=["automatic", "int64", "str"])
def test_answers_are_those_of_one_index(make, vectors, ids):
    folders, whole = make(ids, {"price": list(range(N))})
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    assert len(sharded) == len(whole) == N
    assert np.array_equal(sharded.ids, whole.ids)
    Q = vectors[600:620]
    assert_same_answers(sharded, whole, Q)
    assert_same_answers(sharded, whole, Q[0])
    some = whole.ids[[5, 99, 100, 580, 3]]
    assert np.array_equal(sharded.codes(some), whole.codes(some))
    assert_same_answers(sharded, whole, Q, where=some)
    assert_same_answers(sharded, whole, Q, where=np.arange(N) % 3 == 0)
    assert_same_answers(sharded, whole, Q, where="price > 80 and price < 120")
    with pytest.raises(InputError, match="not in the index"):
        sharded.search(Q, where=["row 1000"] if ids is NAMES else [10_000])


def test_answers_of_actors_and_processes_are_those_of_one_index(workers, make, vectors, product, tmp_path):
    folders, whole = make()
    CodeIndex(product).add(vectors[:350]).save(tmp_path / "both")
    sharded = ShardedIndex([tmp_path / "both", folders[2]], workers=workers)
    assert_same_answers(sharded, whole, vectors[600:664])


@pytest.mark.parametrize("ids", [None, np.arange(N) + 50], ids=["automatic", "int64"])
def test_changes_go_to_their_shard_and_into_its_folder(make, vectors, ids):
    folders, whole = make(ids)
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    more = None if ids is None else np.arange(5) + 9000
    gone, changed = whole.ids[[0, 120, 599]], whole.ids[[1, 130, 131, 400]]
    for index in (whole, sharded):
        index.add(vectors[700:705], ids=more)
        index.remove(gone)
        index.update(changed, vectors[800:804])
    assert len(sharded) == len(whole) == N + 2
    assert np.array_equal(sharded.ids, whole.ids)
    assert_same_answers(sharded, whole, vectors[900:910])
    again = ShardedIndex(folders, workers=InlineWorkers(3))
    assert_same_answers(again, whole, vectors[900:910])


def test_an_id_is_new_only_if_no_shard_has_it(make, vectors):
    folders, _ = make(np.arange(N))
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    with pytest.raises(InputError, match="these ids are in the index already: 3"):
        sharded.add(vectors[:2], ids=[3, 9000])
    assert len(sharded) == N


def test_a_query_knows_whether_any_shard_has_items_without_labels(digits, tmp_path):
    X, y = digits
    quantizer = SupervisedQuantizer(2, n_codewords=64, random_state=0, max_iter=2).fit(X[:400], y[:400])
    whole = CodeIndex(quantizer).add(X[:200], y[:200])
    CodeIndex(quantizer).add(X[:200], y[:200]).save(tmp_path / "a")
    CodeIndex(quantizer).add(X[200:300]).save(tmp_path / "b")
    assert_same_answers(ShardedIndex([tmp_path / "a"], workers=InlineWorkers(1)), whole, X[400:420])
    whole.add(X[200:300])
    both = ShardedIndex([tmp_path / "a", tmp_path / "b"], workers=InlineWorkers(2))
    assert_same_answers(both, whole, X[400:420])
    assert_same_answers(both, whole, X[400:420], novelty=0.5, ranking="position")


def test_a_worker_killed_under_load_gives_no_wrong_answer(processes, make, vectors, product, tmp_path):
    folders, whole = make()
    CodeIndex(product).add(vectors[:350]).save(tmp_path / "both")
    sharded = ShardedIndex([tmp_path / "both", folders[2]], workers=processes)
    expected = whole.search(vectors[600:664], 10)
    before = processes.n_restarts
    stop = threading.Timer(0.05, os.kill, (processes.process_ids()[1], signal.SIGKILL))
    stop.start()
    searches = 0
    while processes.n_restarts == before or searches < 5:
        scores, ids = sharded.search(vectors[600:664], 10)
        assert np.array_equal(scores, expected[0])
        assert np.array_equal(ids, expected[1])
        searches += 1
    stop.join()


class LosesAnAnswer(InlineWorkers):
    """Loses a worker before or after it has done its next task."""

    loses = None

    def _send(self, number, request, common):
        if self.loses != "before":
            super()._send(number, request, common)
        self.lost, self.loses = self.loses, None

    def _receive(self, numbers, seconds):
        from supquant.distributed.pool import Lost

        if self.lost:
            self.lost = None
            yield numbers[0], Lost("killed by a test")
            return
        yield from super()._receive(numbers, seconds)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_lost_in_a_change_changes_once(make, vectors, moment):
    folders, whole = make()
    workers = LosesAnAnswer(3)
    sharded = ShardedIndex(folders, workers=workers)
    workers.loses = moment
    sharded.add(vectors[700:705])
    workers.loses = None
    whole.add(vectors[700:705])
    assert_same_answers(sharded, whole, vectors[900:910])


def test_a_shard_that_cannot_answer_is_an_error_or_named_in_a_partial_answer(make, vectors, product):
    folders, _ = make()
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    shutil.rmtree(folders[1])
    sharded._workers.restart(1)
    with pytest.raises((FileNotFoundError, FileFormatError), match="shard-100"):
        sharded.search(vectors[600:610])
    answer = sharded.search(vectors[600:610], partial=True)
    assert isinstance(answer, PartialAnswer)
    assert list(answer.missing) == [str(folders[1])]
    rest = CodeIndex(product).add(np.concatenate([vectors[:100], vectors[350:N]]))
    scores, ids = rest.search(vectors[600:610])
    assert np.array_equal(answer.scores, scores)
    assert np.array_equal(answer.ids, np.where(ids < 100, ids, ids + 250))
    whole = sharded.search(vectors[600:610], where=np.arange(N) < 100, partial=True)
    assert np.array_equal(whole.ids, CodeIndex(product).add(vectors[:100]).search(vectors[600:610])[1])


def test_a_folder_that_another_process_changed_is_not_overwritten(make, vectors):
    folders, whole = make()
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    CodeIndex.load(folders[2]).add(vectors[700:702]).save(folders[2])
    with pytest.raises(SaveConflictError):
        sharded.add(vectors[702:704])
    sharded.reload().add(vectors[702:704])
    assert_same_answers(sharded, whole.add(vectors[700:704]), vectors[900:910])


def test_shards_of_several_codecs_and_one_folder_twice_are_refused(make, vectors):
    folders, _ = make()
    other = ProductQuantizer(4, n_codewords=16, random_state=5).fit(vectors)
    CodeIndex(other).add(vectors[:10]).save(folders[0], overwrite=True)
    with pytest.raises(InputError, match="another codec"):
        ShardedIndex(folders, workers=InlineWorkers(3))
    with pytest.raises(InputError, match="different folders"):
        ShardedIndex([folders[0], folders[0]], workers=InlineWorkers(3))
    with pytest.raises(InputError, match="3 shards need as many workers, got 2"):
        ShardedIndex(folders, workers=InlineWorkers(2))
