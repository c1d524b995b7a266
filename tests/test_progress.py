import logging

import pytest

from supquant.progress import Plan, Progress, Reporter, TimeIsUpError, TimeLimit


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


def test_a_plan_foretells_the_whole_computation_by_the_speed_of_what_is_done(clock):
    events = []
    plan = Plan({"slow": 30.0, "quick": 10.0})
    reporter = Reporter(events.append, plan=plan)
    with reporter.stage("slow", total=1) as stage:
        clock(30.0)  # half of this stage took as long as the whole was expected to
        stage.advance(0.5)
        clock(30.0)
        stage.step()
    with reporter.stage("quick", total=2) as stage:
        clock(10.0)
        stage.step(psi=1.0)
    assert [(event.stage, event.step) for event in events] == [
        ("slow", 0),
        ("slow", 0),
        ("slow", 1),
        ("quick", 0),
        ("quick", 1),
    ]
    assert [event.share for event in events] == [0.0, 0.375, 0.75, 0.75, 0.875]
    assert events[0].remaining == pytest.approx(40.0)  # as planned, because nothing is known yet
    left = [event.remaining for event in events[1:]]
    assert left == pytest.approx([50.0, 20.0, 20.0, 10.0], rel=0.06)  # twice as slow as planned


def test_a_stage_that_ends_early_counts_as_finished(clock):
    plan = Plan({"codes": 10.0, "last": 10.0}, steps={"codes": 4})
    shares = []
    reporter = Reporter(lambda progress: shares.append(progress.share), plan=plan)
    with reporter.stage("codes", total=100) as stage:
        stage.step()
        stage.step()
    with reporter.stage("last", total=1) as stage:
        stage.step()
    assert shares == [0.0, 0.125, 0.25, 0.5, 1.0]


def test_more_steps_than_planned_never_finish_the_stage(clock):
    plan = Plan({"codes": 1.0}, steps={"codes": 2})
    shares = []
    with Reporter(lambda progress: shares.append(progress.share), plan=plan).stage("codes") as stage:
        for _ in range(5):
            stage.step()
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_verbose_prints_on_standard_error_if_logging_shows_nothing(clock, monkeypatch, capsys):
    logger = logging.getLogger("supquant")
    monkeypatch.setattr(logger, "propagate", False)  # as if nobody had configured logging
    with Reporter(verbose=1).stage("joint", total=2) as stage:
        clock(0.5)
        stage.step(psi=0.25)
    assert capsys.readouterr() == ("", "joint 1/2, 0.5 s, 0.5 s left, psi=0.25\n")


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


def test_a_time_limit_does_not_end_a_fit_before_there_is_a_model(clock):
    limit = TimeLimit(1.0, began=100.0)
    clock(5.0)
    limit(Progress("classifier", 0, 1, elapsed=5.0, remaining=1.0, values={}))
    with pytest.raises(TimeIsUpError):
        limit(Progress("codes", 1, 9, elapsed=5.0, remaining=1.0, values={}))
