"""The course of a fit: what it records and reports, and what an interrupt leaves."""

from dataclasses import dataclass

import pytest

from supquant.estimators.course import Course
from supquant.progress import Reporter


@dataclass(frozen=True)
class GivenStep:
    """A step with the given properties."""

    number: int
    counts_as_iteration: bool = True
    reported: bool = True

    def as_record(self):
        return {"number": self.number}

    def as_progress(self):
        return {"twice": 2.0 * self.number} if self.reported else None


@pytest.fixture
def course():
    return Course(Reporter())


def interrupted_after(*steps, error=KeyboardInterrupt):
    yield from steps
    raise error


def state(course):
    return course.last, course.record, course.n_iter


def test_every_step_is_recorded_in_order_and_the_last_one_is_kept(course):
    course.take("one", 2, [GivenStep(1), GivenStep(2)])
    course.take("two", 1, [GivenStep(3)])
    assert course.last == GivenStep(3)
    assert course.record == [{"number": 1}, {"number": 2}, {"number": 3}]


def test_each_stage_reports_under_its_own_name_and_counts_from_one():
    events = []
    course = Course(Reporter(events.append))
    course.take("one", 5, [GivenStep(1), GivenStep(2)])
    course.take("two", None, [GivenStep(3)])
    assert [(event.stage, event.step, event.total, event.values) for event in events] == [
        ("one", 1, 5, {"twice": 2.0}),
        ("one", 2, 5, {"twice": 4.0}),
        ("two", 1, None, {"twice": 6.0}),
    ]


def test_a_step_without_progress_is_recorded_but_not_reported():
    events = []
    course = Course(Reporter(events.append))
    course.take("one", 1, [GivenStep(1, reported=False), GivenStep(2)])
    assert len(course.record) == 2
    assert [(event.step, event.values) for event in events] == [(1, {"twice": 4.0})]


def test_a_step_is_recorded_and_reported_before_the_next_one_is_computed():
    order = []
    course = Course(Reporter(lambda event: order.append(f"reported {len(course.record)}")))

    def steps():
        for number in (1, 2):
            order.append(f"computed {number}")
            yield GivenStep(number)
        order.append("ended")

    course.take("one", 2, steps())
    assert order == ["computed 1", "reported 1", "computed 2", "reported 2", "ended"]


def test_only_steps_that_count_as_iterations_are_counted(course):
    steps = [
        GivenStep(0, counts_as_iteration=False),
        GivenStep(1),
        GivenStep(2, counts_as_iteration=False),
        GivenStep(3),
    ]
    course.take("one", 2, steps)
    course.take("two", 1, [GivenStep(4)])
    assert course.n_iter == 3
    assert len(course.record) == 5


def test_a_step_that_is_not_reported_can_count_as_an_iteration(course):
    course.take("one", 1, [GivenStep(1, reported=False), GivenStep(2, counts_as_iteration=False)])
    assert course.n_iter == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_before_the_first_step_is_raised_and_leaves_nothing(course, error):
    with pytest.raises(error):
        course.take("one", 1, interrupted_after(error=error))
    assert state(course) == (None, [], 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_after_a_step_is_raised_and_leaves_that_step(course, error):
    with pytest.raises(error):
        course.take("one", 9, interrupted_after(GivenStep(1), GivenStep(2), error=error))
    assert state(course) == (GivenStep(2), [{"number": 1}, {"number": 2}], 2)


def test_an_interrupt_in_the_second_stage_leaves_the_last_step_of_the_first(course):
    course.take("one", 1, [GivenStep(1)])
    with pytest.raises(KeyboardInterrupt):
        course.take("two", 1, interrupted_after())
    assert course.last == GivenStep(1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_step_whose_callback_raises_is_recorded_counted_and_kept(error):
    def stop(event):
        if event.step == 2:
            raise error

    course = Course(Reporter(stop))
    with pytest.raises(error):
        course.take("one", 9, [GivenStep(1), GivenStep(2), GivenStep(3)])
    assert state(course) == (GivenStep(2), [{"number": 1}, {"number": 2}], 2)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_generator_of_steps_is_closed_before_an_error_is_raised(error):
    closed = []

    def steps():
        try:
            yield GivenStep(1)
            yield GivenStep(2)
        finally:
            closed.append(True)

    def stop(event):
        raise error

    unfinished = steps()
    with pytest.raises(error):
        Course(Reporter(stop)).take("one", 2, unfinished)
    assert closed == [True]
