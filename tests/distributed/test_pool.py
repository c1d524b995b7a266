"""Tasks on workers: results, lost workers, stale models and errors."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from inline_workers import (
    InlineWorkers,
    add_common,
    count_tasks,
    end_always,
    end_once,
    hoard_memory,
    is_importable,
    limit_memory,
    process_id,
    raise_key_error,
    wait_seconds,
)

from supquant.distributed import ProcessWorkers
from supquant.distributed.worker import Request, Worker, pack
from supquant.errors import WorkerError


def test_results_come_in_the_order_of_the_items(workers):
    assert workers.map(add_common, range(10), 100) == list(range(100, 110))


def test_workers_keep_their_memory_between_passes(processes):
    processes.map(add_common, range(10), 1)
    before = sum(processes.map(count_tasks, range(2)))
    processes.map(add_common, range(10), 1)
    assert sum(result for _, result in processes.run(count_tasks, range(2), pinned=True)) >= before + 8


def test_a_lost_worker_is_started_again_and_gets_its_item_again(workers, tmp_path):
    (tmp_path / "flag").touch()
    before = workers.n_restarts
    assert workers.map(end_once, range(8), str(tmp_path / "flag")) == [n * n for n in range(8)]
    assert workers.n_restarts == before + 1


MEMORY = 1 << 31  # two gigabytes that are asked for, and never written to


def test_a_worker_out_of_memory_is_started_again(workers):
    before = workers.n_restarts
    list(workers.run(limit_memory, [0, 1], MEMORY, pinned=True))
    results = dict(workers.run(hoard_memory, range(4), MEMORY * 3 // 5))  # one of them gets two items or more
    assert results == {number: number for number in range(4)}
    assert workers.n_restarts > before
    workers.restart(0)
    workers.restart(1)  # what they hoard is free again


def test_a_task_that_is_always_out_of_memory_is_one_error(processes):
    with pytest.raises(WorkerError, match="no restart is left: out of memory: Unable to allocate 512"):
        list(processes.run(hoard_memory, [0], 1 << 59, restarts=1))


def test_workers_that_are_always_lost_are_one_error_and_work_again_afterwards(workers):
    with pytest.raises(WorkerError, match="lost in 'end_always', and no restart is left"):
        list(workers.run(end_always, range(1), restarts=1))
    assert workers.map(add_common, [1], 1) == [2]


def test_an_error_of_a_task_is_raised_and_answers_that_come_later_are_dropped(workers):
    with pytest.raises(KeyError):
        workers.map(raise_key_error, range(4))
    assert workers.map(add_common, range(6), 5) == list(range(5, 11))


def test_a_worker_refuses_a_request_of_another_model_than_it_has():
    worker, first, second = Worker(), pack(1), pack(2)
    import pickle

    def request(number, model):
        return pickle.dumps(Request(number, add_common, model.fingerprint, 10))

    assert pickle.loads(worker.run(request(0, first), first.data)).result == 11
    stale = pickle.loads(worker.run(request(1, second)))
    assert stale.is_stale
    assert stale.result is None


def test_a_worker_that_lost_its_model_gets_it_again():
    workers = InlineWorkers(2)
    assert workers.map(add_common, range(4), 1) == [1, 2, 3, 4]
    workers._workers[1] = Worker()  # it forgets, and the driver does not know
    assert workers.map(add_common, range(4), 1) == [1, 2, 3, 4]


def test_a_common_part_is_sent_to_each_worker_once():
    workers = InlineWorkers(2)
    workers.map(add_common, range(100), 1)
    once = workers.bytes_sent
    workers.map(wait_seconds, range(2), 0.0)
    before = workers.bytes_sent
    common = b"x" * 10**6
    list(workers.run(count_tasks, range(100), common))
    assert 2e6 < workers.bytes_sent - before < 2.1e6
    assert once < 1e5


def test_closed_workers_have_ended_and_take_no_tasks():
    workers = ProcessWorkers(1)
    (number,) = workers.map(process_id, [0])
    workers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    with pytest.raises(WorkerError, match="closed"):
        workers.map(process_id, [0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_driver(number):
    program = """
        import signal
        from inline_workers import process_id, wait_seconds
        from supquant.distributed import ProcessWorkers
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background otherwise
        with ProcessWorkers(1) as workers:
            print(workers.map(process_id, [0])[0], flush=True)
            workers.map(wait_seconds, [0], 60.0)
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
    )
    worker = int(driver.stdout.readline())
    driver.send_signal(number)
    driver.wait(30)
    driver.stdout.close()
    status = Path(f"/proc/{worker}/status")
    end = time.monotonic() + 30
    while status.exists() and "State:\tZ" not in status.read_text():  # nobody may be there to reap an orphan
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("interactive", [False, True])
def test_no_module_of_the_current_folder_takes_the_place_of_another(tmp_path, monkeypatch, interactive):
    (tmp_path / "xxhash.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "only_here.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path] if interactive else [path for path in sys.path if path])
    with ProcessWorkers(1) as workers:
        assert workers.map(is_importable, ["only_here"]) == [interactive]
    assert not (tmp_path / "ran").exists()
