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


def test_remaining_time_is_the_mean_step_times_the_steps_left(clock):
    events = []
    with Reporter(events.append).stage("sweep", total=4) as stage:
        clock(1.0)
        stage.step(psi=3.0)
        clock(3.0)
        stage.step(psi=2.0)
    assert events == [
        Progress("sweep", 1, 4, elapsed=1.0, remaining=3.0, values={"psi": 3.0}),
        Progress("sweep", 2, 4, elapsed=4.0, remaining=4.0, values={"psi": 2.0}),
    ]


def test_without_a_total_the_remaining_time_is_unknown(clock):
    events = []
    with Reporter(events.append).stage("sweep") as stage:
        clock(2.0)
        stage.step()
    assert events == [Progress("sweep", 1, None, elapsed=2.0, remaining=None, values={})]


def test_more_steps_than_expected_leave_no_time_not_negative_time(clock):
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
    assert caplog.messages == ["joint 1/2, 0.5 s, 0.5 s left, psi=0.25"]
    assert capsys.readouterr() == ("", "")


def test_silent_by_default(caplog, capsys):
    with caplog.at_level(logging.DEBUG), Reporter().stage("joint") as stage:
        stage.step()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_what_the_callback_raises_ends_the_work():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Reporter(stop).stage("joint") as stage:
        stage.step()
