import gc
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

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


def test_blas_has_one_thread_inside_and_its_own_number_afterwards():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert before
    with single_blas():
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before
