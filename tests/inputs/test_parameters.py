import os

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.parameters import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    random_generator,
    resolve_jobs,
)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None, True, 1j, [1.0]])
def test_a_positive_parameter_must_be_a_finite_number_above_zero(value):
    with pytest.raises(InputError, match="gamma must be a finite number above 0, got "):
        check_positive(value, "gamma")


def test_number_parameters_are_returned_as_python_numbers():
    for number in (check_positive(np.float32(0.5), "gamma"), check_nonnegative(np.int64(0), "tol")):
        assert type(number) is float
    assert type(check_integer(np.uint8(7), "M", 1)) is int


@pytest.mark.parametrize("value", [-1e-9, np.nan, None, False])
def test_a_nonnegative_parameter_must_be_a_finite_number(value):
    assert check_nonnegative(0, "tol") == 0.0
    with pytest.raises(InputError, match="tol must be a finite number, 0 or above, got "):
        check_nonnegative(value, "tol")


@pytest.mark.parametrize("value", [1.0 + 1e-9, 2, np.inf, None])
def test_a_number_may_have_a_maximum(value):
    assert check_positive(1, "share", 1) == check_nonnegative(1, "share", 1) == 1.0
    with pytest.raises(InputError, match="share must be a finite number above 0 and at most 1, got "):
        check_positive(value, "share", 1)
    with pytest.raises(InputError, match="share must be a finite number, 0 or above and at most 1, got "):
        check_nonnegative(value, "share", 1)


@pytest.mark.parametrize("value", [1, 257, 2.0, "2", None, True])
def test_an_integer_parameter_must_be_within_its_bounds(value):
    assert [check_integer(bound, "K", 2, 256) for bound in (2, 256)] == [2, 256]
    with pytest.raises(InputError, match="K must be an integer from 2 to 256, got "):
        check_integer(value, "K", 2, 256)


@pytest.mark.parametrize("value", ["cosine", None, 0, ["a"]])
def test_a_choice_must_be_one_of_the_words(value):
    assert check_choice("a", "ranking", ("a", "b")) == "a"
    with pytest.raises(InputError, match="ranking must be 'a' or 'b', got "):
        check_choice(value, "ranking", ("a", "b"))


def test_random_states_give_reproducible_generators():
    for make in (lambda: 3, lambda: np.int64(3), lambda: np.random.RandomState(3)):
        first, second = (random_generator(make()).integers(2**60) for _ in range(2))
        assert first == second
    generator = np.random.default_rng(0)
    assert random_generator(generator) is generator
    assert random_generator(None).integers(2**60) != random_generator(None).integers(2**60)


def test_a_random_state_object_moves_on_with_every_use():
    state = np.random.RandomState(0)
    assert random_generator(state).integers(2**60) != random_generator(state).integers(2**60)


@pytest.mark.parametrize("value", [-1, 1.5, "seed", True])
def test_other_random_states_are_refused(value):
    with pytest.raises(InputError, match="random_state must be an integer of at least 0"):
        random_generator(value)


def test_all_jobs_are_the_cores_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert resolve_jobs(None) == resolve_jobs(-1) == 3
    assert resolve_jobs(7) == 7


def test_a_huge_number_of_jobs_is_reduced_to_a_few_per_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for many in (2000, 2**31, 2**70, np.int64(2**40)):
        assert resolve_jobs(many) == 32
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert [resolve_jobs(n) for n in (2, 16, 17, 10**6)] == [2, 16, 16, 16]


def test_numbers_beyond_the_largest_float_are_refused():
    with pytest.raises(InputError, match="tol must be a finite number"):
        check_positive(10**400, "tol")


@pytest.mark.parametrize("value", [0, -2, 1.0, "2", True])
def test_invalid_numbers_of_jobs_are_refused(value):
    with pytest.raises(InputError, match="n_jobs must be None, -1 or an integer of at least 1"):
        resolve_jobs(value)
