"""Simultaneous queries are searched together, and each gets its own answer."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from supquant import InputError
from supquant.serve.batching import Batcher
from supquant.serve.limits import Limits, RefusalError


class Scans:
    """Scans that wait until they are let through, and record what they were asked."""

    def __init__(self):
        self.asked = []
        self.open = threading.Event()

    def __call__(self, key, queries):
        self.asked.append((key, queries[:, 0].tolist()))
        assert self.open.wait(10)
        if (queries < 0).any():
            raise InputError("a negative query")
        return queries * 10, queries.astype(int)


def with_batcher(work, **limits):
    """Run a coroutine that gets a batcher and its scans."""

    async def main():
        scans = Scans()
        with ThreadPoolExecutor(1) as executor:
            try:
                await work(Batcher(scans, Limits(**limits), executor, lambda _: None), scans)
            finally:
                scans.open.set()

    asyncio.run(main())


def query(*values):
    return np.array(values, dtype=np.float32)[:, None]


def start(batcher, key, *values):
    return asyncio.ensure_future(batcher.search(key, query(*values)))


async def begun(scans, n_scans):
    while len(scans.asked) < n_scans:
        await asyncio.sleep(0.001)


def test_queries_that_arrive_during_a_scan_are_joined_by_key():
    async def work(batcher, scans):
        tasks = [start(batcher, "a", 1)]
        await begun(scans, 1)
        tasks += [start(batcher, "a", 2), start(batcher, "b", 3), start(batcher, "a", 4, 5)]
        await asyncio.sleep(0.01)
        scans.open.set()
        answers = await asyncio.gather(*tasks)
        assert scans.asked == [("a", [1]), ("a", [2, 4, 5]), ("b", [3])]
        assert [scores.ravel().tolist() for scores, _ in answers] == [[10], [20], [30], [40, 50]]

    with_batcher(work)


def test_a_batch_has_a_limited_number_of_queries():
    async def work(batcher, scans):
        tasks = [start(batcher, "a", 0)]
        await begun(scans, 1)
        tasks += [start(batcher, "a", *each) for each in ([1, 2], [3, 4], [5, 6, 7, 8])]
        scans.open.set()
        await asyncio.gather(*tasks)
        assert [values for _, values in scans.asked] == [[0], [1, 2], [3, 4], [5, 6, 7, 8]]

    with_batcher(work, max_batch=3)


def test_a_refused_query_does_not_affect_others():
    async def work(batcher, scans):
        tasks = [start(batcher, "a", 0)]
        await begun(scans, 1)
        tasks += [start(batcher, "a", each) for each in (1, -1, 2, 3)]
        scans.open.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[2], InputError)
        assert [found[each][0].item() for each in (0, 1, 3, 4)] == [0, 10, 20, 30]
        assert scans.asked[-1] == ("a", [2, 3])  # the valid ones are searched together

    with_batcher(work)


def test_an_error_of_a_batch_reaches_each_of_its_jobs():
    async def work(batcher, scans):
        tasks = [start(batcher, "a", 0)]
        await begun(scans, 1)
        tasks += [start(batcher, key, 1) for key in ("a", [], "a")]  # a list cannot be a key
        scans.open.set()
        found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert [type(each) for each in found] == [tuple, TypeError, TypeError, TypeError]
        assert (await asyncio.wait_for(start(batcher, "a", 2), 20))[0].item() == 20

    with_batcher(work)


def test_any_error_of_one_query_does_not_affect_others():
    def scan(_, queries):
        return (1 / np.where(queries == 0, None, queries),)  # a TypeError

    async def work():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(scan, Limits(), executor, lambda _: None)
            tasks = [start(batcher, "a", each) for each in (1, 0, 2, 4)]
            found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert isinstance(found[1], TypeError)
        assert [found[each][0].item() for each in (0, 2, 3)] == [1, 0.5, 0.25]

    asyncio.run(work())


def test_a_full_queue_refuses_requests_and_an_abandoned_request_is_not_searched():
    async def work(batcher, scans):
        first = start(batcher, "a", 0)
        await begun(scans, 1)
        waiting = [start(batcher, "a", 1), start(batcher, "a", 2)]
        await asyncio.sleep(0)
        with pytest.raises(RefusalError) as refused:
            await batcher.search("a", query(3))
        assert refused.value.status == 429
        waiting[0].cancel()
        scans.open.set()
        await asyncio.gather(first, waiting[1])
        assert [values for _, values in scans.asked] == [[0], [2]]

    with_batcher(work, max_queue=2)


def test_the_next_scan_waits_for_clients_that_were_just_answered():
    async def work(batcher, scans):
        first = start(batcher, "a", 0)
        await begun(scans, 1)
        others = [start(batcher, "a", 1), start(batcher, "a", 2)]
        scans.open.set()
        await first
        third = start(batcher, "a", 3)  # the first client is back
        await asyncio.gather(*others, third)
        assert [values for _, values in scans.asked] == [[0], [1, 2, 3]]

    with_batcher(work, max_wait_ms=5000.0)


def test_a_single_client_never_waits():
    async def work(batcher, scans):
        scans.open.set()
        for each in range(3):
            await asyncio.wait_for(batcher.search("a", query(each)), 20)
        assert [values for _, values in scans.asked] == [[0], [1], [2]]

    with_batcher(work, max_wait_ms=60_000.0)
