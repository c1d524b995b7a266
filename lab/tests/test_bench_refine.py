"""The order of first answers by vectors: what is measured, and what is asked."""

import numpy as np
import pytest

from supquant_lab.bench import refine
from supquant_lab.bench.refine import _average_precisions, _figures_of, _recall, _times_asked, measure_times


def test_recall_and_precision():
    nearest = np.array([[0, 1], [2, 3]])
    assert _recall(np.array([[1, 9], [2, 3]]), nearest) == 0.75
    relevant = np.array([[True, False, True]])
    assert _average_precisions(relevant, np.array([[2, 1, 0]])) == pytest.approx((1 + 2 / 3) / 2)


def test_figures_are_compared_with_codes_alone():
    about = {"data": "d", "protocol": "open", "within_class": 0.8, "recall_by_position": 0.96}
    orders = [
        about | {"vectors": None, "map_known": 0.8, "map_new": 0.6},
        about | {"vectors": "int8", "map_known": 0.6, "map_new": 0.8},
        {"data": "d", "protocol": "paper", "vectors": "faiss", "pq_recall": 0.9},
    ]
    within, recall, gain = _figures_of(orders)
    assert (within.reached, recall.reached, gain.reached) == (False, True, True)
    assert gain.measured == pytest.approx(1)


def test_searches_are_timed_for_both_kinds_of_items(digits, monkeypatch):
    X, y = digits
    model = refine._fitted(X[:400], y[:400], None, None)
    monkeypatch.setattr(refine, "TIMED_BATCH", 3)
    times = measure_times(model, 2000, 1)
    assert [(each["items"], each["queries"]) for each in times] == [
        ("unlabelled", 1),
        ("unlabelled", 3),
        ("labelled", 1),
        ("labelled", 3),
    ]
    assert times[0]["bytes_of_vectors"] > times[2]["bytes_of_vectors"] > 64
    assert [figure.at_most for figure in _times_asked(times)] == [0.4, 10.0] * 2
