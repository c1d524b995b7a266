"""Recalls of the nearest vectors are compared with plain loops over scores with many ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.inputs.labels import read_labels
from supquant_lab import quality as judging
from supquant_lab.quality import cosine_scores, evaluate_scores, first_items, neighbour_recalls


def plain_first(scores, k, among):
    return sorted(among, key=lambda item: (scores[item], item))[:k]


def plain_recall(scores, distances, k, among):
    found, nearest = plain_first(scores, k, among), plain_first(distances, k, among)
    return len(set(found) & set(nearest)) / min(k, len(among))


@st.composite
def two_rankings(draw):
    """Draw scores and distances with few distinct values, and relevant items: all, some or none."""
    n_queries, n_items = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    scores = rng.integers(draw(st.sampled_from([1, 3, 100])), size=(n_queries, n_items))
    scores = scores.astype(draw(st.sampled_from([np.uint16, np.int64, np.float32])))
    distances = rng.integers(draw(st.sampled_from([1, 3, 100])), size=(n_queries, n_items)).astype(np.float32)
    relevant = rng.random((n_queries, n_items)) < draw(st.sampled_from([0.0, 0.2, 1.0]))
    return scores, distances, relevant


@given(two_rankings(), st.sampled_from([1, 3, 10]))
def test_recalls_are_those_of_plain_loops(rankings, k):
    scores, distances, relevant = rankings
    found = neighbour_recalls(scores, distances, relevant, k=k)
    for i in range(len(scores)):
        every, same = range(scores.shape[1]), np.flatnonzero(relevant[i]).tolist()
        assert found[i, 0] == plain_recall(scores[i], distances[i], k, every)
        if same:
            assert found[i, 1] == plain_recall(scores[i], distances[i], k, same)
        else:
            assert np.isnan(found[i, 1])


def test_of_equal_scores_the_first_items_are_taken():
    assert sorted(first_items(np.array([7, 7, 1, 7, 7]), 3).tolist()) == [0, 1, 2]
    assert sorted(first_items(np.array([-0.0, 0.0, 0.0]), 2).tolist()) == [0, 1]


def test_cosine_scores_rank_by_the_angle_alone(rng):
    items, queries = rng.normal(size=(30, 5)), rng.normal(size=(4, 5))
    expected = (queries @ items.T) / np.linalg.norm(items, axis=1) / np.linalg.norm(queries, axis=1)[:, None]
    scaled = cosine_scores(items * rng.uniform(0.1, 10, size=(30, 1)))(queries * 7)
    np.testing.assert_allclose(scaled, -expected, atol=1e-12)
    assert cosine_scores(items.astype(np.float32))(queries.astype(np.float32)).dtype == np.float32


def test_the_cosine_of_a_zero_vector_is_zero():
    zeros = np.zeros((2, 3), dtype=np.float32)
    assert not cosine_scores(zeros)(np.ones((1, 3), np.float32)).any()
    assert not cosine_scores(np.ones((1, 3), np.float32))(zeros).any()


@pytest.fixture
def asked(rng):
    """Return scores, labels and vectors of thirty queries and sixty items; vectors lie on axes, so cosines are exact."""
    scores = rng.integers(5, size=(30, 60)).astype(np.float32)
    labels = read_labels(rng.integers(3, size=90))
    vectors = np.eye(6, dtype=np.float32)[rng.integers(6, size=90)] * 2.0 ** rng.integers(-2, 3, size=(90, 1))
    return scores, labels.take(np.arange(30)), labels.take(np.arange(30, 90)), (vectors[:30], vectors[30:])


def test_recalls_of_a_ranking_are_means_over_queries(asked):
    scores, queries, items, vectors = asked
    quality = evaluate_scores(lambda block: block, scores, queries, items, vectors=vectors)
    cosines = np.sign(vectors[0]) @ np.sign(vectors[1]).T
    same = [np.flatnonzero(items.indices == label).tolist() for label in queries.indices]
    every = range(60)
    assert quality.recall_at_10 == pytest.approx(
        np.mean([plain_recall(scores[i], -cosines[i], 10, every) for i in range(30)])
    )
    assert quality.recall_within_class == pytest.approx(
        np.mean([plain_recall(scores[i], -cosines[i], 10, same[i]) for i in range(30)])
    )
    assert 0 < quality.recall_at_10 < quality.recall_within_class < 1


def test_vectors_change_no_other_figure_and_blocks_and_threads_nothing(asked, monkeypatch):
    scores, queries, items, vectors = asked
    without = evaluate_scores(lambda block: block, scores, queries, items)
    whole = evaluate_scores(lambda block: block, scores, queries, items, vectors=vectors)
    assert (without.recall_at_10, without.recall_within_class) == (None, None)
    for field in ("map", "map_tie_aware", "precision_at", "precision_at_recall"):
        assert getattr(whole, field) == getattr(without, field)
    monkeypatch.setattr(judging, "_BLOCK_BYTES", 7 * 4 * 60)
    for n_jobs in (1, 2, 3):
        again = evaluate_scores(lambda block: block, scores, queries, items, vectors=vectors, n_jobs=n_jobs)
        assert again == whole


def test_a_ranking_by_cosine_finds_all_nearest_vectors(asked):
    _, queries, items, vectors = asked
    quality = evaluate_scores(cosine_scores(vectors[1]), vectors[0], queries, items, vectors=vectors)
    assert (quality.recall_at_10, quality.recall_within_class) == (1, 1)


def test_only_the_first_queries_are_asked_for_their_neighbours(asked, monkeypatch):
    scores, queries, items, vectors = asked
    first = evaluate_scores(
        lambda block: block, scores[:8], queries.take(np.arange(8)), items, vectors=vectors
    )
    monkeypatch.setattr(judging, "MAX_NEIGHBOUR_QUERIES", 8)
    monkeypatch.setattr(judging, "_BLOCK_BYTES", 5 * 4 * 60)
    some = evaluate_scores(lambda block: block, scores, queries, items, vectors=vectors)
    assert some.recall_at_10 == first.recall_at_10
    assert some.recall_within_class == first.recall_within_class


def test_queries_without_a_true_neighbour_have_no_recall_within_their_class():
    labels = read_labels([0, 2, 1, *[0] * 11])
    queries, items = labels.take(np.arange(2)), labels.take(np.arange(2, 14))
    vectors = np.eye(2, dtype=np.float32)[[0] * 11 + [1]]
    scores = np.tile(np.arange(12.0), (2, 1))
    ask = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    quality = evaluate_scores(lambda block: block, scores, queries, items, vectors=(ask, vectors))
    assert quality.recall_within_class == 0.9  # the first query: item 11 is nearest and is ranked last
    none = evaluate_scores(
        lambda block: block, scores[1:], queries.take(np.array([1])), items, vectors=(ask[1:], vectors)
    )
    assert none.recall_within_class == 0
