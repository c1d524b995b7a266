"""The loop that fits run: what it records, reports and keeps."""

from dataclasses import dataclass

import pytest
from supquant.estimators.fitting import FitStage, learn

from supquant.progress import Reporter

QUIET = Reporter()


@dataclass(frozen=True)
class Told:
    """A step that does as it is told."""

    number: int
    counts_as_iteration: bool = True
    reported: bool = True

    def as_record(self):
        return {"number": self.number}

    def as_progress(self):
        return {"twice": 2.0 * self.number} if self.reported else None


def interrupted_after(*steps, error=KeyboardInterrupt):
    yield from steps
    raise error


def test_every_step_is_recorded_in_order_and_the_last_one_is_kept():
    stages = [FitStage("one", 2, [Told(1), Told(2)]), FitStage("two", 1, [Told(3)])]
    with learn(stages, QUIET) as learned:
        assert learned.last == Told(3)
        assert learned.record == [{"number": 1}, {"number": 2}, {"number": 3}]


def test_each_stage_reports_under_its_own_name_and_counts_from_one():
    events = []
    stages = [FitStage("one", 5, [Told(1), Told(2)]), FitStage("two", None, [Told(3)])]
    with learn(stages, Reporter(events.append)):
        assert [(event.stage, event.step, event.total, event.values) for event in events] == [
            ("one", 1, 5, {"twice": 2.0}),
            ("one", 2, 5, {"twice": 4.0}),
            ("two", 1, None, {"twice": 6.0}),
        ]


def test_a_step_without_progress_is_recorded_and_not_reported():
    events = []
    steps = [Told(1, reported=False), Told(2)]
    with learn([FitStage("one", 1, steps)], Reporter(events.append)) as learned:
        assert len(learned.record) == 2
    assert [(event.step, event.values) for event in events] == [(1, {"twice": 4.0})]


def test_a_stage_begins_after_the_steps_before_it_have_ended():
    order = []

    def steps(number):
        order.append(f"begin {number}")
        yield Told(number)
        order.append(f"end {number}")

    def stages():
        for number in (1, 2):
            order.append(f"stage {number}")
            yield FitStage(f"stage {number}", 1, steps(number))

    with learn(stages(), Reporter(lambda event: order.append("reported"))):
        order.append("stored")
    one, two = ([f"stage {number}", f"begin {number}", "reported", f"end {number}"] for number in (1, 2))
    assert order == [*one, *two, "stored"]


def test_only_steps_that_count_as_iterations_are_counted():
    steps = [Told(0, counts_as_iteration=False), Told(1), Told(2, counts_as_iteration=False), Told(3)]
    with learn([FitStage("one", 2, steps), FitStage("two", 1, [Told(4)])], QUIET) as learned:
        assert learned.n_iter == 3
        assert len(learned.record) == 5


def test_a_step_that_is_not_reported_can_count_as_an_iteration():
    steps = [Told(1, reported=False), Told(2, counts_as_iteration=False)]
    with learn([FitStage("one", 1, steps)], QUIET) as learned:
        assert learned.n_iter == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_before_the_first_step_is_raised_and_nothing_is_stored(error):
    stored = []
    stage = FitStage("one", 1, interrupted_after(error=error))
    with pytest.raises(error), learn([stage], QUIET) as learned:
        stored.append(learned)
    assert stored == []


def test_an_interrupt_before_the_first_stage_is_raised_and_nothing_is_stored():
    stored = []
    with pytest.raises(KeyboardInterrupt), learn(interrupted_after(), QUIET) as learned:
        stored.append(learned)
    assert stored == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_after_a_step_stores_that_step_and_is_raised_again(error):
    stored = []
    stage = FitStage("one", 9, interrupted_after(Told(1), Told(2), error=error))
    with pytest.raises(error), learn([stage], QUIET) as learned:
        stored.append(learned)
    assert [(each.last, each.record, each.n_iter) for each in stored] == [
        (Told(2), [{"number": 1}, {"number": 2}], 2)
    ]


def test_an_interrupt_between_two_stages_stores_the_last_step_of_the_first():
    stored = []
    stages = interrupted_after(FitStage("one", 1, [Told(1)]))
    with pytest.raises(KeyboardInterrupt), learn(stages, QUIET) as learned:
        stored.append(learned.last)
    assert stored == [Told(1)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_step_whose_callback_raises_is_recorded_counted_and_stored(error):
    stored = []

    def stop(event):
        if event.step == 2:
            raise error

    stage = FitStage("one", 9, [Told(1), Told(2), Told(3)])
    with pytest.raises(error), learn([stage], Reporter(stop)) as learned:
        stored.append(learned)
    assert [(each.last, each.record, each.n_iter) for each in stored] == [
        (Told(2), [{"number": 1}, {"number": 2}], 2)
    ]


def test_a_failure_to_store_names_the_interrupt_as_its_context():
    stage = FitStage("one", 9, interrupted_after(Told(1)))
    with pytest.raises(OSError, match="disk full") as caught, learn([stage], QUIET):
        raise OSError("disk full")
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
