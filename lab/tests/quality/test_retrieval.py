import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab import quality as judging
from supquant_lab.quality import euclidean_scores, evaluate_scores


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


def plain_tie_aware_map(scores, relevant, cut=None):
    """Return the mean over all orders in which the items could have been inserted."""
    orders = list(itertools.permutations(range(scores.shape[1])))
    return np.mean([plain_map(scores[:, order], relevant[:, order], cut) for order in orders])


def plain_curve(scores, relevant, level):
    """Return the precision at the first rank that reaches a recall, as the mean over queries with a true neighbour."""
    precisions = []
    for ranking in plain_rankings(scores, relevant):
        for rank in range(1, len(ranking) + 1):
            if any(ranking) and sum(ranking[:rank]) / sum(ranking) >= level:
                precisions.append(sum(ranking[:rank]) / rank)
                break
    return np.mean(precisions) if precisions else 0.0


def as_they_are(block):
    return block


@st.composite
def rankings(draw, max_items):
    """Draw scores with few distinct values, and labels: one for each row, or any number."""
    n_queries, n_items = draw(st.integers(1, 4)), draw(st.integers(1, max_items))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    scores = rng.integers(draw(st.sampled_from([1, 3, 100])), size=(n_queries, n_items))
    scores = scores.astype(draw(st.sampled_from([np.uint16, np.int64, np.float32, np.float64])))
    n_rows = n_queries + n_items
    if draw(st.booleans()):
        carried = rng.random((n_rows, 4)) < draw(st.sampled_from([0.0, 0.2, 1.0]))
        labels = read_labels(carried, classes=np.arange(4))
    else:
        of_rows = rng.integers(3, size=n_rows)
        carried = of_rows[:, None] == np.arange(3)
        labels = read_labels(of_rows, classes=np.arange(3))
    relevant = (carried[:n_queries, None] & carried[None, n_queries:]).any(axis=2)
    split = labels.take(np.arange(n_queries)), labels.take(np.arange(n_queries, n_rows))
    return scores, relevant, split


@settings(deadline=None)
@given(rankings(max_items=40), st.one_of(st.none(), st.integers(1, 45)))
def test_figures_are_those_of_plain_loops(ranking, cut):
    scores, relevant, split = ranking
    quality = evaluate_scores(as_they_are, scores, *split, cut=cut, precision_cuts=[1, 7, 40])
    assert quality.map == pytest.approx(plain_map(scores, relevant, cut), abs=1e-12)
    ordered = plain_rankings(scores, relevant)
    assert quality.precision_at == pytest.approx(
        {k: np.mean([sum(row[:k]) / k for row in ordered]) for k in (1, 7, 40) if k <= scores.shape[1]}
    )
    assert list(quality.precision_at_recall) == [float(f"{0.05 * step:.2f}") for step in range(1, 21)]
    for level, precision in quality.precision_at_recall.items():
        assert precision == pytest.approx(plain_curve(scores, relevant, level), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(rankings(max_items=5), st.one_of(st.none(), st.integers(1, 6)))
def test_tie_aware_map_is_the_mean_over_orders_of_insertion(ranking, cut):
    scores, relevant, split = ranking
    expected = plain_tie_aware_map(scores, relevant, cut)
    quality = evaluate_scores(as_they_are, scores, *split, cut=cut)
    assert quality.map_tie_aware == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("several", [False, True])
def test_blocks_and_threads_change_nothing(monkeypatch, several):
    rng = np.random.default_rng(0)
    scores = rng.integers(30, size=(50, 40)).astype(np.float32)
    labels = read_labels(rng.random((90, 4)) < 0.3 if several else rng.integers(4, size=90))
    split = labels.take(np.arange(50)), labels.take(np.arange(50, 90))
    whole = evaluate_scores(as_they_are, scores, *split, cut=17)
    monkeypatch.setattr(judging, "_BLOCK_BYTES", 7 * 4 * 40)
    for n_jobs in (1, 2, 3):
        assert evaluate_scores(as_they_are, scores, *split, cut=17, n_jobs=n_jobs) == whole


@st.composite
def open_rankings(draw):
    """Draw scores with few distinct values, and four classes, the last two new, each with a query and an item."""
    n_queries, n_items = draw(st.integers(4, 8)), draw(st.integers(4, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    scores = rng.integers(draw(st.sampled_from([1, 3, 100])), size=(n_queries, n_items)).astype(np.float32)
    classes = [rng.permutation(np.arange(n) % 4) for n in (n_queries, n_items)]
    return scores, classes


def open_quality(scores, classes, **options):
    queries, items = (read_labels(each, classes=np.arange(4)) for each in classes)
    new = tuple(each >= 2 for each in classes)
    return evaluate_scores(as_they_are, scores, queries, items, new=new, **options)


@settings(deadline=None)
@given(open_rankings(), st.one_of(st.none(), st.integers(1, 32)))
def test_known_and_new_classes_are_judged_apart(ranking, cut):
    scores, (asked, stored) = ranking
    relevant = asked[:, None] == stored
    quality = open_quality(scores, (asked, stored), cut=cut)
    for kind, rows, items in (
        (quality.open.known, asked < 2, stored < 2),
        (quality.open.new, asked >= 2, stored >= 2),
    ):
        assert kind.map == pytest.approx(plain_map(scores[rows], relevant[rows], cut), abs=1e-12)
        only = plain_map(scores[rows][:, items], relevant[rows][:, items], cut)
        assert kind.map_only == pytest.approx(only, abs=1e-12)
    harmonic = 2 / (1 / quality.open.known.map + 1 / quality.open.new.map) if quality.open.map else 0
    assert quality.open.map == pytest.approx(harmonic)
    assert (quality.open.map == 0) == (min(quality.open.known.map, quality.open.new.map) == 0)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**16))
def test_tie_aware_map_of_each_kind_is_the_mean_over_orders_of_insertion(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(2, size=(4, 5))
    asked, stored = np.arange(4), rng.permutation([0, 1, 2, 3, 3])
    quality = open_quality(scores, (asked, stored))
    for kind, rows in ((quality.open.known, asked < 2), (quality.open.new, asked >= 2)):
        expected = plain_tie_aware_map(scores[rows], asked[rows, None] == stored)
        assert kind.map_tie_aware == pytest.approx(expected, abs=1e-12)
    assert quality.open.map_tie_aware == pytest.approx(
        2 / (1 / quality.open.known.map_tie_aware + 1 / quality.open.new.map_tie_aware)
    )


def test_kinds_change_no_other_figure_and_blocks_and_threads_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.integers(9, size=(50, 40)).astype(np.float32)
    classes = rng.integers(4, size=50), rng.integers(4, size=40)
    whole = open_quality(scores, classes)
    labels = [read_labels(each, classes=np.arange(4)) for each in classes]
    without = evaluate_scores(as_they_are, scores, *labels)
    assert without.open is None
    for field in ("map", "map_tie_aware", "precision_at", "precision_at_recall"):
        assert getattr(whole, field) == getattr(without, field)
    monkeypatch.setattr(judging, "_BLOCK_BYTES", 7 * 4 * 40)
    for n_jobs in (1, 2):
        assert open_quality(scores, classes, n_jobs=n_jobs) == whole


@pytest.mark.parametrize("asked", [[0, 1, 0, 1], [2, 3, 2, 3]])
def test_queries_of_one_kind_alone_are_refused(asked):
    with pytest.raises(InputError, match="queries of known and of new classes"):
        open_quality(np.zeros((4, 4)), (np.array(asked), np.arange(4)))


@pytest.mark.parametrize("n", [1, 2, 65])
def test_all_items_right_and_none_right_are_one_and_zero(n):
    labels = read_labels([0, 1, *[0] * n], classes=np.arange(2))
    items = labels.take(np.arange(2, n + 2))
    for query, expected in ((0, 1.0), (1, 0.0)):
        quality = evaluate_scores(as_they_are, np.zeros((1, n)), labels.take(np.array([query])), items)
        assert (quality.map, quality.map_tie_aware) == (pytest.approx(expected), pytest.approx(expected))
        assert set(quality.precision_at.values()) == {expected}
        assert set(quality.precision_at_recall.values()) == {expected}


def test_queries_without_true_neighbours_do_not_change_the_curve():
    labels = read_labels([0, 2, 1, 0])
    queries, items = labels.take(np.array([0, 1])), labels.take(np.array([2, 3]))
    quality = evaluate_scores(as_they_are, np.array([[0, 1], [0, 1]]), queries, items)
    assert quality.map == 0.25
    assert set(quality.precision_at_recall.values()) == {0.5}


def test_items_that_share_a_label_count_as_right():
    items = read_labels(np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1]]))
    query = items.take(np.array([1]))
    scores = np.array([[2.0, 1.0, 0.0]])
    assert evaluate_scores(as_they_are, scores, query, items).map == 1


def test_only_items_up_to_the_cut_count():
    labels = read_labels([0, 1, 1, 0])
    query, items = labels.take(np.array([0])), labels.take(np.array([1, 2, 3]))
    scores = np.array([[0.0, 1.0, 2.0]])
    assert evaluate_scores(as_they_are, scores, query, items, cut=2).map == 0
    assert evaluate_scores(as_they_are, scores, query, items).map == pytest.approx(1 / 3)


def test_the_tie_aware_mean_does_not_depend_on_the_order_of_equal_scores():
    labels = read_labels([0, 0, 1])
    query, items = labels.take(np.array([0])), labels.take(np.array([1, 2]))
    quality = evaluate_scores(as_they_are, np.zeros((1, 2)), query, items)
    assert (quality.map, quality.map_tie_aware) == (1, pytest.approx(0.75))


def test_precision_is_measured_at_cuts_up_to_the_number_of_items():
    y = read_labels(np.arange(20) % 2)
    quality = evaluate_scores(as_they_are, np.zeros((20, 20), np.float32), y, y)
    assert quality.precision_at == {1: 0.5, 10: 0.5}


def test_euclidean_scores_rank_like_distances():
    rng = np.random.default_rng(1)
    items, queries = rng.normal(size=(30, 5)), rng.normal(size=(4, 5))
    distances = np.linalg.norm(queries[:, None] - items, axis=2)
    np.testing.assert_array_equal(euclidean_scores(items)(queries).argsort(axis=1), distances.argsort(axis=1))


def test_no_queries_are_refused():
    labels = read_labels([0, 1])
    with pytest.raises(InputError, match="0 queries and 2 items"):
        evaluate_scores(as_they_are, np.zeros((0, 2)), labels.take(np.arange(0)), labels)
