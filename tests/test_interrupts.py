"""Interrupts during a fit: at whatever moment they come, they are raised, and nothing is left locked."""

import signal
import sys
import threading

import numpy as np
import pytest

from supquant import PublishedQuantizer
from supquant.estimators.course import Course
from supquant.interrupts import check_interrupt, defers_interrupts
from supquant.models import make_estimator
from supquant.progress import Reporter


@pytest.fixture(autouse=True)
def python_handles_interrupts():
    """Give SIGINT the handler of Python: in the background it is ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, former)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_next_check():
    done = []

    @defers_interrupts
    def work():
        interrupt()
        done.append("after the interrupt")
        check_interrupt()
        done.append("after the check")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["after the interrupt"]


def test_an_interrupt_without_a_check_is_raised_at_the_end():
    done = []

    @defers_interrupts
    def work():
        interrupt()
        done.append("to the end")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["to the end"]


def test_an_interrupt_is_raised_if_the_computation_fails():
    @defers_interrupts
    def work():
        interrupt()
        raise OSError("disk full")

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert str(caught.value.__context__) == "disk full"


def test_a_second_interrupt_after_a_while_does_not_wait(monkeypatch):
    monkeypatch.setattr("supquant.interrupts.PATIENCE", -0.5)
    done = []

    @defers_interrupts
    def work():
        interrupt()
        done.append("went on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_two_interrupts_at_once_are_one():
    done = []

    @defers_interrupts
    def work():
        interrupt()
        interrupt()
        done.append("went on")
        check_interrupt()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["went on"]


def test_a_handler_of_the_user_is_called_at_the_check():
    calls = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))

    @defers_interrupts
    def work():
        interrupt()
        assert calls == []
        check_interrupt()
        assert calls == [signal.SIGINT]
        return "result"

    assert work() == "result"
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_handler_that_the_computation_sets_stays():
    @defers_interrupts
    def work():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    work()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


def test_inner_computations_leave_interrupts_to_the_outer_one():
    done = []

    @defers_interrupts
    def inner():
        interrupt()

    @defers_interrupts
    def outer():
        inner()
        done.append("after the inner one")
        check_interrupt()
        done.append("after the check")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert done == ["after the inner one"]


def test_other_threads_and_ignored_interrupts_change_nothing():
    @defers_interrupts
    def handler():
        check_interrupt()
        return signal.getsignal(signal.SIGINT)

    found = []
    thread = threading.Thread(target=lambda: found.append(handler()))
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert handler() is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Step:
    counts_as_iteration = True

    def as_record(self):
        return {}

    def as_progress(self):
        return {}


def steps_of_interrupted_fit(steps):
    """Return how many steps a fit took before it was interrupted."""
    course = Course(Reporter())
    with pytest.raises(KeyboardInterrupt):
        defers_interrupts(course.take)("one", None, steps)
    return course.n_iter


def test_an_interrupt_in_the_finaliser_of_a_generator_is_not_lost():
    def dropped():
        try:
            yield
        finally:
            interrupt()

    def steps():
        yield Step()
        generator = dropped()
        next(generator)
        del generator  # runs its finaliser, where an exception is only printed
        yield Step()
        yield Step()

    assert steps_of_interrupted_fit(steps()) == 2


def test_an_exception_of_a_generator_that_is_closed_is_not_lost():
    def steps():
        try:
            yield Step()
            yield Step()
        finally:
            raise KeyboardInterrupt

    def fail(progress):
        raise OSError("the callback failed")

    with pytest.raises(KeyboardInterrupt):
        Course(Reporter(fail)).take("one", None, steps())


def test_an_interrupted_callback_ends_the_fit_with_the_step_it_got(clusters):
    quantizer = PublishedQuantizer(1, n_codewords=8, features=None, random_state=0, max_iter=5, tol=0.0)
    quantizer.set_params(callback=lambda progress: interrupt())
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert quantizer.n_iter_ == 1
    assert quantizer.encode(clusters[0]).shape == (300, 1)


def sweep(name, tries):
    """Fit with an interrupt at `tries` moments; return how the fits ended, and how many of them came to their moment."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=60)
    X = rng.normal(scale=3, size=(3, 4))[y] + rng.normal(size=(60, 4))
    settings = {"random_state": 0, "n_jobs": 2}
    if name == "pq":
        settings |= {"n_codewords": 2, "max_iter": 2}

    def fit(moment):
        # Fit, with SIGINT at one line of Python in the main thread; return how many lines were run, and how the fit ended.
        lines = 0

        def count(frame, event, argument):
            nonlocal lines
            lines += 1
            if lines == moment:
                interrupt()
            return count

        estimator = make_estimator(name, 8, settings)
        call = estimator.fit
        sys.settrace(count)
        try:
            call(X, y)
        except KeyboardInterrupt:
            return lines, "interrupted"
        finally:
            sys.settrace(None)
        return lines, "not interrupted"

    fit(0)
    n = fit(0)[0]
    moments = np.linspace(10, n - 10, tries).astype(int)
    ends = [fit(moment) for moment in moments]
    reached = [end for (lines, end), moment in zip(ends, moments, strict=True) if lines >= moment]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return set(reached), len(reached)


@pytest.mark.parametrize("name", ["classifier", "sdh-linear", "pq"])
def test_an_interrupt_at_any_moment_ends_the_fit(name, telling_child):
    """The moments are 100 lines of Python, evenly spaced: in our code, in thread pools, in locks, in finalisers."""

    def work(tell):
        signal.alarm(60)
        ends, n_reached = sweep(name, 100)
        tell(f"{n_reached >= 90} {ends}")

    _, lines = telling_child(work)
    assert lines.read() == "True {'interrupted'}\n"
