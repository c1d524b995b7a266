"""An index in several folders: its answers are those of one index, also after changes and after a worker was lost."""

import os
import pickle
import shutil
import signal
import threading
from itertools import pairwise

import numpy as np
import pytest
from inline_workers import InlineWorkers

from supquant import CodeIndex, InputError, ProductQuantizer, SupervisedQuantizer
from supquant.distributed import PartialAnswer, ShardedIndex
from supquant.distributed.pool import Lost
from supquant.distributed.shard import change_shard
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
            CodeIndex(product).add(vectors[a:b], **own).save(folders[-1], overwrite=True)
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


@pytest.mark.parametrize("ids", [None, NAMES], ids=["automatic", "str"])
def test_other_searches_are_those_of_one_index(make, vectors, ids):
    folders, whole = make(ids, {"price": list(range(N))})
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    Q = vectors[600:605]
    chosen = whole.ids[[5, 99, 100, 101, 580, 3]]
    for where in (None, chosen, np.arange(N) % 3 == 0, "price between 80 and 120"):
        found, expected = (each.range_search(Q, 12.0, where=where) for each in (sharded, whole))
        assert expected[0][-1] > 0
        assert_equal_arrays(found, expected)
        if where is not None:
            assert_equal_arrays([sharded.select(where)], [whole.select(where)])
    assert_equal_arrays(next(sharded.rank(Q)), next(whole.rank(Q)))
    tables = np.random.default_rng(0).integers(3, size=(2, 4, 16))  # most sums are equal
    assert_equal_arrays(sharded.search_tables(tables, 50), whole.search_tables(tables, 50))
    assert_equal_arrays([sharded.reconstruct(chosen)], [whole.reconstruct(chosen)])
    assert sharded.search_table(Q, 3).equals(whole.search_table(Q, 3))
    assert sharded.get(chosen).equals(whole.get(chosen))
    assert (chosen[0] in sharded, -1 in sharded, "none" in sharded) == (True, False, False)
    assert {name: sharded.info()[name] for name in ("rows", "removed", "id_kind", "bytes_per_code")} == {
        name: whole.info()[name] for name in ("rows", "removed", "id_kind", "bytes_per_code")
    }
    with pytest.raises(InputError, match="not in the index"):
        sharded.get([10_000] if ids is None else ["none"], [])


def assert_equal_arrays(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_filter_stands_for_the_same_rows_however_the_index_changes(make, vectors):
    folders, whole = make(NAMES)
    workers = InlineWorkers(3)
    sharded = ShardedIndex(folders, workers=workers)
    Q, chosen = vectors[600:605], [f"row {number}" for number in (1, 99, 100, 130, 131, 400, 599)]
    filters = {each: each.filter(chosen) for each in (sharded, whole)}
    for index, filter_ in filters.items():
        assert len(index.search(Q, N, where=filter_)[1][0]) == 7
        index.remove(["row 1", "row 130"])
        index.add(vectors[700:702], ids=["row 1", "row 2000"])  # another row of the same name
        index.update(["row 99", "row 131"], vectors[800:802])

    def assert_same():
        found, expected = (index.search(Q, N, where=filter_) for index, filter_ in filters.items())
        assert_equal_arrays(found, expected)
        found, expected = (index.range_search(Q, 9.0, where=filter_) for index, filter_ in filters.items())
        assert_equal_arrays(found, expected)

    assert_same()
    for number in range(3):
        workers.restart(number)  # nothing that a shard had prepared is left
    assert_same()
    with pytest.raises(InputError, match="another index"):
        ShardedIndex(folders, workers=InlineWorkers(3)).search(Q, where=filters[sharded])
    sharded.reload()  # the folders are as they were
    assert_same()
    CodeIndex.load(folders[0]).remove(["row 3"]).save(folders[0])
    with pytest.raises(InputError, match="was reloaded"):
        sharded.reload().search(Q, where=filters[sharded])


def test_rows_are_updated_in_their_shard_and_new_ones_come_last(make, vectors):
    folders, whole = make(np.arange(N) * 2, {"price": list(range(N))})
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    ids = [0, 5, 2 * 120, 7, 2 * 599]
    states = [sharded.state, sharded.upsert(ids[:1], vectors[:1]).state]
    for index in (whole, sharded):
        index.upsert(ids[:1], vectors[:1])
        index.upsert(ids, vectors[700:705], metadata={"price": range(5), "size": list("abcde")})
    states.append(sharded.state)
    assert (states[0] == states[1], states[1] == states[2]) == (True, False)  # new rows have another state
    assert_equal_arrays([sharded.ids], [whole.ids])
    assert_same_answers(sharded, whole, vectors[900:910], where="size is null or price = 4")
    assert sharded.get(whole.ids).equals(whole.get(whole.ids))
    numbered, _ = make()
    with pytest.raises(InputError, match="numbers its rows itself"):
        ShardedIndex(numbered, workers=InlineWorkers(3)).upsert([3, 10_000], vectors[:2])


def test_a_mask_is_refused_if_rows_were_added_since(make, vectors):
    folders, _ = make()
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    state, mask = sharded.state, np.arange(N) % 2 == 0
    assert len(sharded.search(vectors[:1], N, where=mask, state=state)[1][0]) == N // 2
    sharded.remove([0]).add(vectors[:1])
    with pytest.raises(InputError, match="rows were added or removed since"):
        sharded.search(vectors[:1], where=mask, state=state)


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


class LosesAChange(InlineWorkers):
    """Loses a worker before or after it has made its next change."""

    loses = lost = None

    def _send(self, number, request, common):
        moment = self.loses if pickle.loads(request).task is change_shard else None
        if moment != "before":
            super()._send(number, request, common)
        if moment:
            self.lost, self.loses = number, None

    def _receive(self, numbers, seconds):
        if self.lost is None:
            yield from super()._receive(numbers, seconds)
            return
        number, self.lost = self.lost, None
        yield number, Lost("killed by a test")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_lost_in_a_change_changes_once(make, vectors, moment):
    folders, whole = make()
    workers = LosesAChange(3)
    sharded = ShardedIndex(folders, workers=workers)
    workers.loses = moment
    sharded.add(vectors[700:705])
    assert workers.n_restarts == 1
    whole.add(vectors[700:705])
    assert_same_answers(sharded, whole, vectors[900:910])


def test_a_shard_that_cannot_answer_is_an_error_or_named_in_a_partial_answer(make, vectors, product):
    folders, _ = make()
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    shutil.rmtree(folders[1])
    sharded._shards.workers.restart(1)
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


# labels that the model does not know ---------------------------------------------------------------------------------


@pytest.fixture
def labelled_shards(digits, tmp_path):
    """Folders of three shards, whose model knows the digits below 8, and one index of all their rows."""
    X, y = digits
    known = np.flatnonzero(y < 8)[:300]
    sq = SupervisedQuantizer(2, n_codewords=16, max_iter=1, random_state=0).fit(X[known], y[known])
    folders = [tmp_path / f"labelled-{number}" for number in range(3)]
    for number, folder in enumerate(folders):
        CodeIndex(sq).add(X[100 * number : 100 * number + 100]).save(folder)
    return folders, CodeIndex(sq).add(X[:300])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_lost_while_labels_are_added_changes_once(labelled_shards, digits, moment):
    X, y = digits
    folders, whole = labelled_shards
    workers = LosesAChange(3)
    sharded = ShardedIndex(folders, workers=workers)
    workers.loses = moment
    sharded.add(X[300:330], y[300:330], unknown_labels="extend")
    assert workers.n_restarts == 1
    assert_same_answers(sharded, whole.add(X[300:330], y[300:330], unknown_labels="extend"), X[900:910])
    assert {facts.codec for facts in sharded._shards.facts} == {whole.codec.pack().digest}


def test_shards_that_lack_labels_are_opened_and_get_them_with_the_next(labelled_shards, digits):
    """A process that ends while it adds labels leaves some shards without them."""
    X, y = digits
    folders, whole = labelled_shards
    nines, eights = np.flatnonzero(y == 9)[:5], np.flatnonzero(y == 8)[:5]
    extended = whole.codec.extended(X[nines], y[nines])
    CodeIndex.load(folders[0]).with_codec(extended).save(folders[0])
    sharded = ShardedIndex(folders, workers=InlineWorkers(3))
    assert_same_answers(sharded, whole.with_codec(extended), X[900:910])
    sharded.add(X[eights], y[eights], unknown_labels="extend")
    for folder in folders:
        assert CodeIndex.load(folder).codec.classes.tolist() == [*range(8), 9, 8]
    again = ShardedIndex(folders, workers=InlineWorkers(3))
    np.testing.assert_array_equal(
        again.codes(range(300, 305)), again.codec.encode_items(X[eights], y[eights])
    )


def test_shards_with_different_added_labels_are_refused(labelled_shards, digits):
    X, _ = digits
    folders, whole = labelled_shards
    for folder, new in zip(folders, (8, 9), strict=False):
        CodeIndex.load(folder).with_codec(whole.codec.extended(X[:2], [new, new])).save(folder)
    with pytest.raises(InputError, match="another codec"):
        ShardedIndex(folders, workers=InlineWorkers(3))


def test_of_two_drivers_that_add_labels_the_second_starts_again(labelled_shards, digits):
    X, y = digits
    folders, _ = labelled_shards
    first, second = (ShardedIndex(folders, workers=InlineWorkers(3)) for _ in range(2))
    nines, eights = np.flatnonzero(y == 9)[:5], np.flatnonzero(y == 8)[:5]
    first.add(X[nines], y[nines], unknown_labels="extend")
    with pytest.raises(SaveConflictError):
        second.add(X[eights], y[eights], unknown_labels="extend")
    assert len(second.codec.classes) == 8
    second.reload().add(X[eights], y[eights], unknown_labels="extend")
    assert second.codec.classes.tolist() == first.reload().codec.classes.tolist() == [*range(8), 9, 8]
    assert len(first) == len(second) == 310
    assert_same_answers(first, second, X[900:910])
