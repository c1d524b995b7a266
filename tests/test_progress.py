import logging

import pytest

from supquant.progress import Progress, Reporter


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set by hand."""
    now = [100.0]
    monkeypatch.setattr("supquant.progress.time.monotonic", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def test_a_slow_first_block_does_not_spoil_the_time_left(clock):
    events = []
    with Reporter(events.append).stage("encode", total=1000) as stage:
        clock(60.0)  # imports, files that are opened, tables that are packed
        for _ in range(10):
            stage.step(100)
            clock(1.0)
    assert [event.step for event in events] == list(range(100, 1001, 100))
    assert [event.remaining for event in events] == [None, None, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def test_the_time_left_is_unknown_until_the_speed_was_measured_for_long_enough(clock):
    events = []
    with Reporter(events.append).stage("encode", total=8) as stage:
        for _ in range(5):
            clock(0.2)
            stage.step()
    assert [event.remaining is None for event in events] == [True, True, True, False, False]


def test_the_first_results_of_workers_do_not_count_as_speed(clock):
    events = []
    with Reporter(events.append).stage("encode", total=12, at_once=2) as stage:
        for _ in range(6):  # two workers end at the same time, every two seconds
            clock(2.0)
            stage.step()
            stage.step()
    known = [(event.step, event.remaining) for event in events if event.remaining is not None]
    assert known[0] == (6, 6.0)
    assert known[-1] == (12, 0.0)


def test_the_time_left_of_an_iteration_that_may_converge_is_unknown(clock):
    events = []
    with Reporter(events.append).stage("joint", total=30, converges=True) as stage:
        for _ in range(9):
            clock(1.0)
            stage.step()
    assert {event.remaining for event in events} == {None}


def test_a_task_reports_its_beginning_and_its_end(clock):
    events = []
    with Reporter(events.append).task("classifier"):
        clock(3.0)
    assert [(str(event), event.elapsed) for event in events] == [
        ("classifier", 0.0),
        ("classifier 1/1, 3.0 s", 3.0),
    ]


def test_without_a_total_the_remaining_time_is_unknown(clock):
    events = []
    with Reporter(events.append).stage("sweep") as stage:
        clock(2.0)
        stage.step()
    assert events == [Progress("sweep", 1, None, elapsed=2.0, remaining=None, values={})]


def test_more_steps_than_expected_leave_no_time(clock):
    events = []
    with Reporter(events.append).stage("sweep", total=1) as stage:
        for _ in range(2):
            clock(1.0)
            stage.step()
    assert [event.remaining for event in events] == [0.0, 0.0]


def test_each_stage_has_its_own_clock_and_count(clock):
    events = []
    reporter = Reporter(events.append)
    for name in ("first", "second"):
        with reporter.stage(name) as stage:
            clock(1.0)
            stage.step()
    assert [(event.stage, event.step, event.elapsed) for event in events] == [
        ("first", 1, 1.0),
        ("second", 1, 1.0),
    ]


def test_verbose_goes_to_the_logger_and_prints_nothing(clock, caplog, capsys):
    with (
        caplog.at_level(logging.INFO, logger="supquant"),
        Reporter(verbose=1).stage("joint", total=2) as stage,
    ):
        clock(0.5)
        stage.step(psi=0.25)
    assert [(record.name, record.levelname) for record in caplog.records] == [("supquant", "INFO")]
    assert caplog.messages == ["joint 1/2, 0.5 s, psi=0.25"]
    assert capsys.readouterr() == ("", "")


def test_silent_by_default(caplog, capsys):
    with caplog.at_level(logging.DEBUG), Reporter().stage("joint") as stage:
        stage.step()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_an_exception_of_the_callback_ends_the_work():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Reporter(stop).stage("joint") as stage:
        stage.step()


def test_verbose_prints_on_standard_error_if_logging_shows_nothing(clock, monkeypatch, capsys):
    logger = logging.getLogger("supquant")
    monkeypatch.setattr(logger, "propagate", False)  # as if nobody had configured logging
    with Reporter(verbose=1).stage("joint", total=2) as stage:
        clock(0.5)
        stage.step(psi=0.25)
    assert capsys.readouterr() == ("", "joint 1/2, 0.5 s, psi=0.25\n")


def test_a_callback_that_raised_is_not_called_again(clock):
    calls = []

    def fail(progress):
        calls.append(progress)
        raise KeyboardInterrupt

    reporter = Reporter(fail)
    with pytest.raises(KeyboardInterrupt), reporter.stage("one") as stage:
        stage.step()
    with reporter.stage("two") as stage:
        stage.step()
    assert len(calls) == 1
