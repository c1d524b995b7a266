"""The quality of retrieval is compared with plain loops over sums of table entries with many ties."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import read_labels


def plain_rankings(scores, relevant):
    """Return whether the item at each rank is a true neighbour, with ties in order of insertion."""
    orders = [sorted(range(len(row)), key=lambda item: (row[item], item)) for row in scores]
    return [[hits[item] for item in order] for hits, order in zip(relevant, orders, strict=True)]


def plain_map(scores, relevant, cut=None):
    """Return the mean average precision, computed item by item."""
    total = 0.0
    for ranking in plain_rankings(scores, relevant):
        found, precisions = 0, []
        for rank, hit in enumerate(ranking[:cut], start=1):
            if hit:
                found += 1
                precisions.append(found / rank)
        total += np.mean(precisions) if precisions else 0.0
    return total / len(scores)


@st.composite
def problems(draw, max_items):
    """Draw tables with few distinct entries, codes, and labels: one for each row, or any number."""
    n_queries, n_items = draw(st.integers(1, 4)), draw(st.integers(1, max_items))
    m, k = draw(st.integers(1, 3)), draw(st.sampled_from([2, 16, 256]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    codes = rng.integers(k, size=(n_items, m), dtype=np.uint8)
    tables = rng.integers(-1, 2, size=(n_queries, m, k)).astype(np.float32)
    n_rows = n_queries + n_items
    if draw(st.booleans()):
        carried = rng.random((n_rows, 4)) < draw(st.sampled_from([0.0, 0.2, 1.0]))
        labels = read_labels(carried, classes=np.arange(4))
    else:
        of_rows = rng.integers(3, size=n_rows)
        carried = of_rows[:, None] == np.arange(3)
        labels = read_labels(of_rows, classes=np.arange(3))
    scores = sum(tables[:, j, codes[:, j]] for j in range(m))
    relevant = (carried[:n_queries, None] & carried[None, n_queries:]).any(axis=2)
    split = labels.take(np.arange(n_queries)), labels.take(np.arange(n_queries, n_rows))
    return (tables, codes, *split), scores, relevant


@pytest.mark.filterwarnings("ignore:.* share no label")
@settings(deadline=None)
@given(problems(max_items=65), st.one_of(st.none(), st.integers(1, 45)))
def test_figures_are_those_of_plain_loops(problem, cut):
    arguments, scores, relevant = problem
    quality = evaluate_tables(*arguments, cut=cut, precision_cuts=[1, 7, 40])
    assert quality.map == pytest.approx(plain_map(scores, relevant, cut), abs=1e-12)
    ordered = plain_rankings(scores, relevant)
    assert quality.precision_at == pytest.approx(
        {k: np.mean([sum(row[:k]) / k for row in ordered]) for k in (1, 7, 40) if k <= scores.shape[1]}
    )


@pytest.mark.filterwarnings("ignore:.* share no label")
@settings(deadline=None, max_examples=50)
@given(problems(max_items=5), st.one_of(st.none(), st.integers(1, 6)))
def test_tie_aware_map_is_the_mean_over_orders_of_insertion(problem, cut):
    arguments, scores, relevant = problem
    orders = itertools.permutations(range(scores.shape[1]))
    expected = np.mean([plain_map(scores[:, order], relevant[:, order], cut) for order in orders])
    assert evaluate_tables(*arguments, cut=cut).map_tie_aware == pytest.approx(expected, abs=1e-12)


@pytest.fixture
def asked(rng):
    """Tables of 50 queries over codes of 40 items, and the labels of both."""
    labels = read_labels(rng.integers(4, size=90))
    tables = rng.integers(30, size=(50, 2, 16)).astype(np.float32)
    codes = rng.integers(16, size=(40, 2), dtype=np.uint8)
    return tables, codes, labels.take(np.arange(50)), labels.take(np.arange(50, 90))


def test_threads_change_nothing(asked):
    alone = evaluate_tables(*asked, cut=17, n_jobs=1)
    assert evaluate_tables(*asked, cut=17, n_jobs=3) == alone
    assert list(alone.precision_at) == [1, 10]


def test_queries_without_an_answer_are_counted_and_named(asked):
    tables, codes, _, _ = asked
    labels = read_labels(np.r_[np.arange(50) % 5, np.arange(40) % 4])  # no item has label 4
    split = labels.take(np.arange(50)), labels.take(np.arange(50, 90))
    with pytest.warns(
        UserWarning, match="10 of 50 queries share no label with any of 40 items and count as 0"
    ):
        quality = evaluate_tables(tables, codes, *split)
    assert quality.n_without_answer == 10
    there = np.arange(50) % 5 < 4
    of_others = evaluate_tables(tables[there], codes, split[0].take(np.flatnonzero(there)), split[1])
    assert of_others.n_without_answer == 0
    assert quality.map == pytest.approx(0.8 * of_others.map)


def test_no_queries_are_refused(asked):
    tables, codes, queries, items = asked
    with pytest.raises(InputError, match="0 queries and 40 items"):
        evaluate_tables(tables[:0], codes, queries.take(np.arange(0)), items)


def test_labels_of_other_classes_or_another_form_are_refused(asked):
    tables, codes, queries, _ = asked
    for other in (read_labels(["a", "b"] * 20), read_labels(np.eye(4, dtype=int)[np.arange(40) % 4])):
        with pytest.raises(InputError, match="same classes and form"):
            evaluate_tables(tables, codes, queries, other)


@pytest.mark.parametrize("cut", [0, 2.5])
def test_a_cut_below_one_is_refused(asked, cut):
    with pytest.raises(InputError, match="cut must be an integer of at least 1"):
        evaluate_tables(*asked, cut=cut)
