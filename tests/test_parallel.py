import gc
import os
import threading
import time
from functools import cached_property

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from supquant import parallel
from supquant.parallel import BLOCK_ROWS, ordered_map, row_blocks, single_blas


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(n_jobs):
    def slow_for_the_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item * item

    assert list(ordered_map(slow_for_the_first, range(20), n_jobs)) == [i * i for i in range(20)]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_items_give_no_results(n_jobs):
    assert list(ordered_map(str, [], n_jobs)) == []


def test_several_threads_work_at_the_same_time():
    together = threading.Barrier(2, timeout=10)  # a single thread would wait here for ever
    assert len(list(ordered_map(lambda _: together.wait(), range(2), 2))) == 2


def test_a_single_item_starts_no_thread():
    assert list(ordered_map(lambda _: threading.get_ident(), [0], 4)) == [threading.get_ident()]


def test_few_results_wait_at_a_time():
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    results = ordered_map(lambda item: item, items(), 2)
    for finished in range(10):
        assert next(results) == finished
        assert len(taken) <= finished + 3
    results.close()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_the_function_raises_is_raised_in_its_turn(n_jobs, error):
    def fail_on_three(item):
        if item == 3:
            raise error("three")
        return item

    results = ordered_map(fail_on_three, range(10), n_jobs)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(error, match="three"):
        next(results)


def test_results_nobody_wants_leave_no_thread_behind():
    before = threading.active_count()
    results = ordered_map(lambda item: item, range(1000), 2)
    next(results)
    del results
    gc.collect()
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [None, ValueError])
def test_work_is_done_here_if_there_can_be_no_more_threads(monkeypatch, error):
    def start(thread):
        raise RuntimeError("can't start new thread")

    def square(item):
        if item == 3 and error is not None:
            raise error
        return item * item

    monkeypatch.setattr(threading.Thread, "start", start)
    results = ordered_map(square, range(5), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    if error is None:
        assert list(results) == [9, 16]
    else:
        with pytest.raises(error):
            next(results)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 64, 65])
def test_blocks_cover_all_rows_once(n):
    rows = [row for start, stop in row_blocks(n, 16) for row in range(start, stop)]
    assert rows == list(range(n))
    assert all(stop - start <= 16 for start, stop in row_blocks(n, 16))


def test_blocks_have_a_fixed_size_by_default():
    assert row_blocks(2 * BLOCK_ROWS + 1)[1:] == [
        (BLOCK_ROWS, 2 * BLOCK_ROWS),
        (2 * BLOCK_ROWS, 2 * BLOCK_ROWS + 1),
    ]


def blas_threads():
    """Numbers of threads of the libraries for which that is one number, whichever thread asks."""
    return {
        library["num_threads"]
        for library in ThreadpoolController().info()
        if library["user_api"] == "blas" and library.get("threading_layer") != "openmp"
    }


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS does not take a number of threads")
        yield


def run_inside(action):
    """Call `action` while the limit is on."""
    with single_blas():
        action()


def test_blas_keeps_to_one_thread_inside_and_has_its_own_back_afterwards(two_blas_threads):
    seen = []
    run_inside(lambda: seen.append(blas_threads()))
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_a_failure_inside_lifts_the_limit(two_blas_threads):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_inside(fail)
    assert blas_threads() == {2}


def test_the_last_of_several_threads_lifts_the_limit(two_blas_threads):
    both_in, first_out = threading.Barrier(2, timeout=30), threading.Event()
    seen = []

    def leave_late():
        both_in.wait()
        first_out.wait(30)
        seen.append(blas_threads())

    late = threading.Thread(target=run_inside, args=[leave_late])
    late.start()
    run_inside(both_in.wait)
    first_out.set()
    late.join()
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_a_fork_waits_for_a_thread_that_is_setting_the_number(monkeypatch, works_in_child):
    begun, ended = threading.Event(), threading.Event()

    def slowly(library, n_threads):
        begun.set()
        time.sleep(0.2)
        ended.set()

    def work():
        with single_blas():
            pass

    monkeypatch.setattr(parallel, "_set_threads", slowly)
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()

    def check():  # a lock of the library that was open when the child was forked is open here too
        assert ended.is_set()

    assert works_in_child(check)
    thread.join()


def test_all_threads_of_a_child_forked_by_a_thread_that_holds_the_lock_can_work(works_in_child):
    def work():
        thread = threading.Thread(target=run_inside, args=[lambda: None])
        thread.start()
        thread.join()

    with parallel._blas_limit._lock:
        assert works_in_child(work)


def test_a_child_forked_while_another_thread_is_inside_gets_its_blas_threads_back(
    two_blas_threads, works_in_child
):
    inside, go_on = threading.Event(), threading.Event()

    def stay():
        inside.set()
        go_on.wait(60)

    def check():
        assert blas_threads() == {2}
        seen = []
        run_inside(lambda: seen.append(blas_threads()))
        assert seen == [{1}]
        assert blas_threads() == {2}

    thread = threading.Thread(target=run_inside, args=[stay])
    thread.start()
    inside.wait()
    good = works_in_child(check)
    go_on.set()
    thread.join()
    assert good
    assert blas_threads() == {2}


def test_a_child_forked_by_a_thread_inside_keeps_the_limit(two_blas_threads, works_in_child):
    def check():
        run_inside(lambda: None)
        assert blas_threads() == {1}

    good = []
    run_inside(lambda: good.append(works_in_child(check)))
    assert good == [True]


def test_a_child_forked_while_a_cached_property_is_computed_can_compute_it(monkeypatch, works_in_child):
    computing, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    class Slow:
        @cached_property
        def value(self):
            if os.getpid() == parent:
                computing.set()
                go_on.wait(60)
            return 1

    def compute():
        assert Slow().value == 1

    monkeypatch.setattr(parallel, "Slow", Slow, raising=False)  # a class of the library
    thread = threading.Thread(target=compute)
    thread.start()
    computing.wait()
    good = works_in_child(compute)
    go_on.set()
    thread.join()
    assert good
