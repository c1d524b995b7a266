import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from supquant.errors import InputError
from supquant.metrics import average_precision, tie_aware_average_precision

CUTS = st.one_of(st.none(), st.integers(1, 12))


def average_precision_by_definition(relevant, cut):
    """Return 1/L sum over r <= R of P(r) delta(r), in plain loops and exact fractions."""
    reach = len(relevant) if cut is None else min(cut, len(relevant))
    found, total = 0, Fraction(0)
    for rank in range(1, reach + 1):
        if relevant[rank - 1]:
            found += 1
            total += Fraction(found, rank)
    return total / found if found else Fraction(0)


def expected_average_precision_by_enumeration(relevant, scores, cut):
    """Return the mean over all orders that keep the scores in order."""
    groups = [
        [flag for flag, _ in items]
        for _, items in itertools.groupby(zip(relevant, scores, strict=True), key=lambda pair: pair[1])
    ]
    orders = itertools.product(*(list(itertools.permutations(group)) for group in groups))
    values = [average_precision_by_definition(list(itertools.chain(*order)), cut) for order in orders]
    return sum(values) / len(values)


@given(st.lists(st.booleans(), max_size=20), CUTS)
def test_average_precision_is_its_definition(relevant, cut):
    expected = float(average_precision_by_definition(relevant, cut))
    assert average_precision([relevant], cut)[0] == pytest.approx(expected, abs=1e-14)


@given(st.lists(st.booleans(), min_size=1, max_size=60).filter(any))
def test_average_precision_is_that_of_scikit_learn_where_nothing_is_tied(relevant):
    falling = -np.arange(len(relevant))
    expected = average_precision_score(relevant, falling)
    assert average_precision([relevant])[0] == pytest.approx(expected, abs=1e-14)
    assert tie_aware_average_precision([relevant], [falling])[0] == pytest.approx(expected, abs=1e-14)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=6), CUTS)
@settings(deadline=None)
def test_tie_aware_average_precision_is_the_mean_over_all_orders_of_ties(items, cut):
    items = sorted(items, key=lambda item: item[1])
    relevant, scores = [item[0] for item in items], [item[1] for item in items]
    expected = float(expected_average_precision_by_enumeration(relevant, scores, cut))
    assert tie_aware_average_precision([relevant], [scores], cut)[0] == pytest.approx(expected, abs=1e-13)


@given(st.lists(st.booleans(), max_size=40), CUTS)
def test_without_ties_tie_aware_is_plain_average_precision(relevant, cut):
    falling = -np.arange(len(relevant), dtype=np.float32)
    plain = average_precision([relevant], cut)
    assert tie_aware_average_precision([relevant], [falling], cut) == pytest.approx(plain, abs=1e-13)


def test_tie_aware_agrees_with_shuffled_ties_when_a_cut_divides_a_large_group():
    rng = np.random.default_rng(0)
    relevant = rng.random(300) < 0.2
    scores = np.repeat([0, 1, 2], [50, 200, 50])  # the cut at 120 divides the second group
    shuffled = np.stack([rng.permutation(300) for _ in range(4000)])
    orders = np.take_along_axis(shuffled, np.argsort(scores[shuffled], axis=1, kind="stable"), axis=1)
    sample = average_precision(relevant[orders], 120)
    expected = tie_aware_average_precision([relevant], [scores], 120)[0]
    assert abs(sample.mean() - expected) < 4 * sample.std() / np.sqrt(len(sample))


def test_infinite_scores_tie_with_each_other():
    assert tie_aware_average_precision([[True, False]], [[np.inf, np.inf]]) == pytest.approx([0.75])


def test_queries_of_a_block_do_not_influence_each_other():
    rng = np.random.default_rng(1)
    relevant = rng.random((7, 65)) < 0.3
    scores = np.sort(rng.integers(0, 9, (7, 65)), axis=1)
    alone = [average_precision(row[None])[0] for row in relevant]
    assert np.array_equal(average_precision(relevant), alone)
    alone = [tie_aware_average_precision(relevant[i : i + 1], scores[i : i + 1], 17)[0] for i in range(7)]
    assert np.array_equal(tie_aware_average_precision(relevant, scores, 17), alone)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_queries_or_no_items_give_zeros(shape):
    relevant = np.zeros(shape, dtype=bool)
    assert np.array_equal(average_precision(relevant), np.zeros(shape[0]))
    assert np.array_equal(tie_aware_average_precision(relevant, np.zeros(shape)), np.zeros(shape[0]))


def test_a_ranking_of_the_wrong_shape_is_refused():
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        average_precision([True, False, True])
    with pytest.raises(InputError, match=r"scores have shape \(1, 1\), the ranking \(1, 2\)"):
        tie_aware_average_precision([[True, False]], [[0.0]])


@pytest.mark.parametrize("cut", [0, -1, 2.5])
def test_a_cut_below_one_is_refused(cut):
    with pytest.raises(InputError, match="cut must be an integer of at least 1"):
        average_precision([[True]], cut)
    with pytest.raises(InputError, match="cut must be an integer of at least 1"):
        tie_aware_average_precision([[True]], [[0]], cut)
