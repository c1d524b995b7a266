import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.quality import precision_at, precision_at_recall, relevance


@pytest.mark.parametrize("metric", [precision_at, precision_at_recall])
def test_queries_of_a_block_do_not_influence_each_other(metric):
    relevant = np.random.default_rng(1).random((7, 65)) < 0.3
    alone = [metric(row[None], [1]) for row in relevant]
    assert np.array_equal(metric(relevant, [1]), np.concatenate(alone))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_queries_or_no_items_give_no_precision(shape):
    relevant = np.zeros(shape, dtype=bool)
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
