import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supquant.errors import InputError
from supquant.evaluation import (
    euclidean_scores,
    evaluate_scores,
    evaluate_tables,
    evaluate_vectors,
    retrieval,
)
from supquant.labels import read_labels


def plain_map(scores, relevant):
    """Mean average precision, item by item."""
    total = 0.0
    for of_query, hits in zip(scores, relevant, strict=True):
        order = sorted(range(len(of_query)), key=lambda item: (of_query[item], item))
        found, precisions = 0, []
        for rank, item in enumerate(order, start=1):
            if hits[item]:
                found += 1
                precisions.append(found / rank)
        total += np.mean(precisions) if precisions else 0.0
    return total / len(scores)


@settings(deadline=None, max_examples=30)
@given(
    n=st.sampled_from([1, 15, 16, 17, 65]),
    m=st.integers(1, 3),
    k=st.sampled_from([2, 16, 256]),
    seed=st.integers(0, 99),
)
def test_codes_are_ranked_by_their_table_sums_ties_by_insertion(n, m, k, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(k, size=(n, m), dtype=np.uint8)
    tables = rng.integers(3, size=(4, m, k)).astype(np.float32)  # few values: many ties
    labels = rng.integers(3, size=n + 4)
    labels[:2] = (0, 1)
    all_labels = read_labels(labels)
    queries, items = all_labels.take(np.arange(4)), all_labels.take(np.arange(4, n + 4))
    scores = sum(tables[:, j, codes[:, j]] for j in range(m))
    relevant = labels[:4, None] == labels[None, 4:]
    assert evaluate_tables(tables, codes, queries, items).map == pytest.approx(plain_map(scores, relevant))


def test_blocks_of_queries_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(50, 40)).astype(np.float32)
    labels = read_labels(rng.integers(4, size=90))
    split = labels.take(np.arange(50)), labels.take(np.arange(50, 90))
    whole = evaluate_scores(lambda block: block, scores, *split)
    monkeypatch.setattr(retrieval, "_BLOCK_BYTES", 7 * 4 * 40)
    for n_jobs in (1, 2):
        assert evaluate_scores(lambda block: block, scores, *split, n_jobs=n_jobs) == whole


def test_items_that_share_a_label_count_as_right():
    items = read_labels(np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1]]))
    query = items.take(np.array([1]))
    scores = np.array([[2.0, 1.0, 0.0]])
    assert evaluate_scores(lambda block: block, scores, query, items).map == 1


def test_a_cut_counts_only_the_head_of_a_ranking():
    labels = read_labels([0, 1, 1, 0])
    query, items = labels.take(np.array([0])), labels.take(np.array([1, 2, 3]))
    scores = np.array([[0.0, 1.0, 2.0]])
    assert evaluate_scores(lambda block: block, scores, query, items, cut=2).map == 0
    assert evaluate_scores(lambda block: block, scores, query, items).map == pytest.approx(1 / 3)


def test_equal_scores_favour_nobody_in_the_tie_aware_mean():
    labels = read_labels([0, 0, 1])
    query, items = labels.take(np.array([0])), labels.take(np.array([1, 2]))
    quality = evaluate_scores(lambda block: block, np.zeros((1, 2)), query, items)
    assert (quality.map, quality.map_tie_aware) == (1, pytest.approx(0.75))


def test_precision_is_given_at_cuts_that_the_database_reaches():
    y = read_labels(np.arange(20) % 2)
    quality = evaluate_vectors(np.zeros((20, 1), np.float32), np.zeros((20, 1), np.float32), y, y)
    assert quality.precision_at == {1: 0.5, 10: 0.5}


def test_euclidean_scores_rank_like_distances():
    rng = np.random.default_rng(1)
    items, queries = rng.normal(size=(30, 5)), rng.normal(size=(4, 5))
    distances = np.linalg.norm(queries[:, None] - items, axis=2)
    np.testing.assert_array_equal(euclidean_scores(items)(queries).argsort(axis=1), distances.argsort(axis=1))


def test_no_queries_are_refused():
    labels = read_labels([0, 1])
    with pytest.raises(InputError, match="0 queries and 2 items"):
        evaluate_scores(lambda block: block, np.zeros((0, 2)), labels.take(np.arange(0)), labels)
