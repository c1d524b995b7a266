"""Searches while other threads write, and answers that depend on nothing but the rows."""

import os
import shutil
import threading
import time

import numpy as np
import pytest

from supquant import AdditiveCodec, CodeIndex


@pytest.mark.usefixtures("restless_threads")
def test_searches_and_loads_see_one_snapshot_while_others_add_and_save(
    tied_codec, make_history, queries, tmp_path
):
    history = make_history(tied_codec, queries[:2], 150)
    index = CodeIndex(tied_codec)
    history.apply(index, history.changes[0])
    writing = threading.Event()
    writing.set()
    seen = {"ids": [], "search": [], "load": [], "rank": [], "range": []}

    def write():
        try:
            for change in history.changes[1:]:
                history.apply(index, change)
                time.sleep(0.01)
        finally:
            writing.clear()

    def look():
        while writing.is_set():
            seen["ids"].append(history.ids.get(tuple(index.ids.tolist())))

    def search():
        while writing.is_set():
            seen["search"].append(history.state_of(index))

    def rank():
        while writing.is_set():
            blocks = list(index.rank(history.Q, n_jobs=1))
            found = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
            seen["rank"].append(history.states.get(history.key(*found)))
            limits, scores, ids = index.range_search(history.Q, 1e9, n_jobs=1)
            found = [np.array(np.split(part, limits[1:-1])) for part in (scores, ids)]
            seen["range"].append(history.states.get(history.key(*found)))

    def save():
        while writing.is_set():
            index.save(tmp_path / "index")
            loaded = CodeIndex.load(tmp_path / "index", verify="full")
            seen["load"].append(history.state_of(loaded))

    failures = []

    def reporting(work):
        def run():
            try:
                work()
            except BaseException as error:  # noqa: BLE001, a thread's failure is the test's
                failures.append(error)

        return run

    threads = [threading.Thread(target=reporting(work)) for work in (write, look, search, rank, save)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for who, states in seen.items():
        assert None not in states, f"{who} saw rows that were never in the index together"
        assert states == sorted(states), f"{who} went back in time"
        assert len(set(states)) >= 5, f"{who} saw too few states for a test"
    assert history.state_of(index) == len(history.changes) - 1


def test_a_prepared_filter_serves_many_threads_while_the_index_changes(tied_codec, draw_codes, queries, rng):
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 3000))
    filters = [index.filter(range(0, 3000, step)) for step in (2, 100)]
    expected = [[array.tolist() for array in index.search(queries, 20, where=each)] for each in filters]
    stop = threading.Event()
    wrong = []

    def search():
        while not stop.is_set():
            found = [[array.tolist() for array in index.search(queries, 20, where=each)] for each in filters]
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(40):
        index.add_codes(draw_codes(tied_codec, rng, 50, 2))
        index.remove(range(3000 + 50 * step, 3000 + 50 * step + 20))
        if step % 10 == 9:
            index.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_whole_rankings_are_those_of_the_rows_when_they_were_asked_for(
    tied_codec, draw_codes, exhaustive, queries, rng
):
    codes = draw_codes(tied_codec, rng, 500)
    index = CodeIndex(tied_codec).add_codes(codes)
    ranking = index.rank(queries)
    index.remove(range(100)).add_codes(draw_codes(tied_codec, rng, 300))
    ids = np.concatenate([ids for _, ids in ranking])
    assert np.array_equal(ids, exhaustive(tied_codec, codes, queries)[1])


@pytest.mark.parametrize("distinct", [None, 50])
def test_answers_do_not_depend_on_the_number_of_threads(real_codec, draw_codes, rng, distinct):
    index = CodeIndex(real_codec)
    for n in (30_000, 5000, 300):
        index.add_codes(draw_codes(real_codec, rng, n, distinct))
    index.remove(range(0, 35_000, 13))
    half = index.filter(index.ids[::2])
    for Q in (rng.normal(size=(1, 2)), rng.normal(size=(21, 2))):
        for where in (None, half):
            expected = [
                *index.search(Q, 100, where=where, n_jobs=1),
                *index.range_search(Q, 3.0, where=where, n_jobs=1),
                *next(index.rank(Q, where=where, n_jobs=1)),
            ]
            assert len(expected[3]) > 10
            for n_jobs in (2, 3, 8, None):
                found = [
                    *index.search(Q, 100, where=where, n_jobs=n_jobs),
                    *index.range_search(Q, 3.0, where=where, n_jobs=n_jobs),
                    *next(index.rank(Q, where=where, n_jobs=n_jobs)),
                ]
                assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("binary", [False, True])
def test_a_query_gets_the_same_answer_alone_and_in_a_batch(rng, binary_codec, draw_codes, binary):
    codec = binary_codec
    if (
        not binary
    ):  # a projection wide enough that matrix products of one row and of many could round differently
        codec = AdditiveCodec(
            codebooks=rng.normal(size=(4, 256, 48)).astype(np.float32),
            projection=rng.normal(size=(100, 48)).astype(np.float32),
        )
    index = CodeIndex(codec).add_codes(draw_codes(codec, rng, 5000))
    index.add_codes(draw_codes(codec, rng, 500, 4))
    Q = rng.normal(size=(37, codec.n_inputs)).astype(np.float32)
    scores, ids = index.search(Q, 50)
    threshold = float(np.median(scores))
    limits, near, near_ids = index.range_search(Q, threshold)
    assert limits[-1] > 0
    ranked = np.concatenate([ids for _, ids in index.rank(Q)])
    for i in range(len(Q)):
        alone, alone_ids = index.search(Q[i : i + 1], 50)
        assert np.array_equal(alone_ids[0], ids[i])
        assert np.array_equal(alone[0], scores[i])
        _, found, found_ids = index.range_search(Q[i : i + 1], threshold)
        assert np.array_equal(found, near[limits[i] : limits[i + 1]])
        assert np.array_equal(found_ids, near_ids[limits[i] : limits[i + 1]])
        assert np.array_equal(next(index.rank(Q[i : i + 1]))[1][0], ranked[i])


# one index in many pieces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["automatic", "int", "string"])
@pytest.mark.parametrize("distinct", [None, 6])
def test_saved_loaded_and_appended_to_is_the_same_as_built_in_one_go(
    tied_codec, draw_codes, make_ids, kind, distinct, portrait, contents, rng, tmp_path
):
    codes = draw_codes(tied_codec, rng, 1200, distinct)

    def add(index, start, stop):
        index.add_codes(codes[start:stop], ids=make_ids(kind, range(start, stop)))

    def name(numbers):
        return make_ids(kind, numbers) or list(numbers)

    at_once = CodeIndex(tied_codec)
    add(at_once, 0, 1200)
    at_once.remove(name(range(0, 1200, 5)))
    at_once.update_codes(name(range(1, 1200, 50)), codes[:24])

    folder = tmp_path / "pieces"
    pieces = CodeIndex(tied_codec)
    for start, stop, verify in ((0, 1, "lazy"), (1, 700, "full"), (700, 770, "lazy"), (770, 1200, "lazy")):
        add(pieces, start, stop)
        pieces.save(folder)
        pieces = CodeIndex.load(folder, verify=verify)
    pieces.remove(name(range(0, 600, 5)))
    pieces.save(folder)
    pieces = CodeIndex.load(folder)
    pieces.remove(name(range(600, 1200, 5)))
    pieces.update_codes(name(range(1, 1200, 50)), codes[:24])
    pieces.save(folder)
    pieces = CodeIndex.load(folder)

    assert portrait(pieces) == portrait(at_once)
    at_once.compact().save(tmp_path / "at once")
    pieces.compact().save(folder)
    assert portrait(pieces) == portrait(at_once)
    assert contents(folder) == contents(tmp_path / "at once")
    # The next number, too, is the same.
    more = make_ids(kind, range(1200, 1203))
    assert portrait(CodeIndex.load(folder).add_codes(codes[:3], ids=more)) == portrait(
        at_once.add_codes(codes[:3], ids=more)
    )


def test_saving_what_is_saved_writes_no_file_again(tied_codec, draw_codes, rng, tmp_path, contents):
    folder = tmp_path / "index"
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 5000), ids=range(5000))
    index.save(folder)
    before = {file.name: file.stat().st_ino for file in folder.iterdir() if file.name != "manifest.json"}
    saved = contents(folder)
    CodeIndex.load(folder).save(folder)
    assert contents(folder) == saved
    assert {
        file.name: file.stat().st_ino for file in folder.iterdir() if file.name != "manifest.json"
    } == before
    index.remove([7]).save(folder)
    after = {file.name: file.stat().st_ino for file in folder.iterdir() if file.name != "manifest.json"}
    assert before.items() <= after.items(), "one deletion rewrote rows"
    assert sum(file.stat().st_size for file in folder.iterdir() if file.name not in before) < 10_000


# two indexes, one folder -------------------------------------------------------------------------------------------------


def test_a_reader_beside_a_process_that_saves_finds_one_index_or_the_other(
    fork, tied_codec, draw_codes, portrait, rng, tmp_path
):
    folder = tmp_path / "index"
    indexes = [
        CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, n), ids=[f"{n}/{i}" for i in range(n)])
        for n in (300, 400)
    ]
    portraits = [portrait(index) for index in indexes]
    indexes[0].save(folder)

    def save_in_turns():
        for turn in range(150):
            indexes[turn % 2].save(folder, overwrite=True)

    child = fork(save_in_turns)
    found = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        loaded = CodeIndex.load(folder, verify="lazy" if len(found) % 2 else "full")
        found.append(portraits.index(portrait(loaded)))
    assert set(found) == {0, 1}


def test_a_loaded_index_outlives_its_folder(tied_codec, draw_codes, portrait, rng, tmp_path):
    folder = tmp_path / "index"
    one, other = (
        CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, n), ids=range(n)) for n in (300, 400)
    )
    one.save(folder)
    replaced, removed = CodeIndex.load(folder), CodeIndex.load(folder)
    other.save(folder, overwrite=True)
    assert portrait(replaced) == portrait(one)
    shutil.rmtree(folder)
    assert portrait(removed) == portrait(one)
    removed.save(folder)
    assert portrait(CodeIndex.load(folder, verify="full")) == portrait(one)


def test_an_index_is_saved_whole_where_another_took_the_place_of_its_files(
    tied_codec, draw_codes, portrait, rng, tmp_path
):
    folder = tmp_path / "index"
    one, other = (
        CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, n), ids=range(n)) for n in (300, 400)
    )
    one.save(folder)
    other.save(folder, overwrite=True)
    assert portrait(CodeIndex.load(folder, verify="full")) == portrait(other)
    one.save(folder, overwrite=True)
    assert portrait(CodeIndex.load(folder, verify="full")) == portrait(one)


def test_a_file_of_the_right_name_is_not_taken_for_the_right_content(
    tied_codec, draw_codes, portrait, rng, tmp_path
):
    folder = tmp_path / "index"
    codes = draw_codes(tied_codec, rng, 300)
    CodeIndex(tied_codec).add_codes(codes, ids=range(300)).save(folder)
    for file in folder.iterdir():
        if file.name != "manifest.json":
            file.write_bytes(file.read_bytes()[:-1] + b"?")
    again = CodeIndex(tied_codec).add_codes(codes, ids=range(300))
    again.save(folder, overwrite=True)
    assert portrait(CodeIndex.load(folder, verify="full")) == portrait(again)


def test_two_threads_may_save_to_one_folder(tied_codec, draw_codes, portrait, rng, tmp_path):
    folder = tmp_path / "index"
    indexes = [
        CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, n), ids=range(n)) for n in (300, 400)
    ]
    portraits = [portrait(index) for index in indexes]
    failures = []

    def save(index):
        try:
            for _ in range(30):
                index.save(folder, overwrite=True)
        except BaseException as error:  # noqa: BLE001, a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=save, args=(index,)) for index in indexes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert portrait(CodeIndex.load(folder, verify="full")) in portraits


def test_what_others_put_into_the_folder_stays_there(tied_codec, draw_codes, rng, tmp_path):
    folder = tmp_path / "index"
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 300))
    index.save(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "pictures").mkdir()
    index.remove(range(100)).compact().save(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "pictures").is_dir()
