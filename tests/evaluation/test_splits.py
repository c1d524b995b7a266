import numpy as np
import pytest

from supquant.errors import InputError
from supquant.evaluation import default_queries, split_rows


def test_queries_are_the_head_of_the_seeded_permutation():
    order = np.random.default_rng(7).permutation(500)
    split = split_rows(500, seed=7)
    np.testing.assert_array_equal(split.queries, order[:50])
    np.testing.assert_array_equal(split.database, order[50:])


def test_paper_database_is_the_training_set():
    split = split_rows(100, protocol="paper")
    np.testing.assert_array_equal(split.training, split.database)


def test_unlabelled_rows_are_halved_and_disjoint():
    split = split_rows(101, protocol="unlabelled", n_queries=10)
    parts = (split.queries, split.training, split.database)
    assert [len(part) for part in parts] == [10, 45, 46]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(101))


def test_number_of_queries():
    assert [default_queries(n) for n in (70_000, 10_000, 9_999, 5)] == [1000, 1000, 999, 1]


@pytest.mark.parametrize("n_queries", [0, 99, 1000])
def test_impossible_number_of_queries_is_refused(n_queries):
    with pytest.raises(InputError, match="between 1 and 98 for 100 rows"):
        split_rows(100, n_queries=n_queries)


def test_unknown_protocol_is_refused():
    with pytest.raises(InputError, match="protocol"):
        split_rows(100, protocol="unseen")
