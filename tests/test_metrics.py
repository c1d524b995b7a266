import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.metrics import (
    average_precision,
    precision_at,
    precision_at_recall,
    relevance,
    tie_aware_average_precision,
)

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
    for metric in (
        average_precision,
        lambda rows: precision_at(rows, [1, 64]),
        lambda rows: precision_at_recall(rows, [0.1, 1.0]),
    ):
        assert np.array_equal(metric(relevant), np.concatenate([metric(row[None]) for row in relevant]))
    alone = [tie_aware_average_precision(relevant[i : i + 1], scores[i : i + 1], 17)[0] for i in range(7)]
    assert np.array_equal(tie_aware_average_precision(relevant, scores, 17), alone)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_queries_or_no_items_give_zeros(shape):
    relevant = np.zeros(shape, dtype=bool)
    assert np.array_equal(average_precision(relevant), np.zeros(shape[0]))
    assert np.array_equal(tie_aware_average_precision(relevant, np.zeros(shape)), np.zeros(shape[0]))
    assert np.array_equal(precision_at(relevant, [1, 2]), np.zeros((shape[0], 2)))
    assert precision_at_recall(relevant, [0.5, 1]).shape == (shape[0], 2)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.lists(st.integers(1, 25), max_size=4))
def test_precision_at_counts_in_plain_loops(relevant, ks):
    expected = [sum(relevant[:k]) / k for k in ks]
    assert precision_at([relevant], ks).tolist() == [expected]


@given(
    st.lists(st.booleans(), min_size=1, max_size=45).filter(any),
    st.lists(st.integers(1, 20).map(lambda step: step / 20), max_size=5),
)
def test_precision_at_recall_is_that_of_the_first_rank_which_reaches_it(relevant, levels):
    expected = []
    for level in levels:
        found, rank = 0, 0
        while found / sum(relevant) < level:
            found, rank = found + relevant[rank], rank + 1
        expected.append(found / rank)
    assert precision_at_recall([relevant], levels).tolist() == [expected]


def test_a_query_without_true_neighbours_has_no_recall():
    found = precision_at_recall([[False, False], [False, True]], [0.5, 1.0])
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("level", [0.0, -0.1, 1.01, np.nan])
def test_a_level_that_recall_cannot_first_reach_is_refused(level):
    with pytest.raises(InputError, match="above 0 and at most 1"):
        precision_at_recall([[True]], [0.5, level])


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


@given(st.data())
def test_multilabel_relevance_is_a_shared_label_in_plain_loops(data):
    n_labels = data.draw(st.integers(2, 5))
    rows = st.lists(st.sets(st.integers(0, n_labels - 1)), min_size=1, max_size=6)
    queries, items = data.draw(rows), data.draw(rows)
    as_labels = [
        read_labels(
            np.array([[label in row for label in range(n_labels)] for row in side]),
            classes=np.arange(n_labels),
        )
        for side in (queries, items)
    ]
    start = data.draw(st.integers(0, len(queries)))
    expected = [[bool(query & item) for item in items] for query in queries[start:]]
    found = relevance(*as_labels, start, len(queries))
    assert found.dtype == np.bool_
    assert found.shape == (len(queries) - start, len(items))
    assert found.tolist() == expected


def test_many_shared_labels_do_not_overflow():
    everything = read_labels(scipy.sparse.csr_array(np.ones((2, 512), dtype=np.uint8)))
    assert relevance(everything, everything, 0, 2).all()


def test_single_label_relevance_is_an_equal_class():
    classes = np.array(["cat", "dog", "eel"])
    queries, items = (read_labels(y, classes=classes) for y in (["eel", "cat"], ["cat", "dog", "cat"]))
    assert relevance(queries, items, 0, 2).tolist() == [[False] * 3, [True, False, True]]
    assert relevance(queries, items, 1, 2).tolist() == [[True, False, True]]


def test_labels_of_other_classes_or_another_form_are_refused():
    letters, numbers = read_labels(["a", "b"]), read_labels([0, 1])
    for other in (letters, read_labels([[0, 1], [1, 0]])):
        with pytest.raises(InputError, match="same classes and form"):
            relevance(numbers, other, 0, 1)
