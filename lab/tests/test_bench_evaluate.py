import json

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.bench import WrongAnswersError, evaluate
from supquant_lab.bench.process import run_fresh
from supquant_lab.quality import evaluate_scores

LABELS = read_labels([0, 1, 0, 1])
SCORES = np.array([[1, 1, 0, 2], [3, 1, 1, 0]])
SPLIT = LABELS.take([0, 1]), LABELS


def test_every_kind_is_timed_in_a_process_of_its_own():
    record = evaluate.bench_evaluate(queries=7, rows=70, bits=16)
    assert [measured["kind"] for measured in record["kinds"]] == ["tables", "hamming", "vectors"]
    for measured in record["kinds"]:
        assert len(measured["all_seconds"]) == evaluate.RUNS
        assert min(measured["all_seconds"]) <= measured["seconds"] <= max(measured["all_seconds"])
        assert 20 < measured["peak_memory_mb"] < 500
        made = evaluate._random_arguments(measured["kind"], 7, 70, 16)
        assert measured["map"] == evaluate_scores(*made).map
    assert record["machine"]["instruction_set"]
    assert record["threads"] >= 1
    json.dumps(record)


def test_plain_loops_give_the_figures_known_by_hand():
    relevant = np.array([[True, False, True, False], [False, False, False, False]])
    quality = evaluate.plain_quality(SCORES, relevant)
    assert quality.map == pytest.approx((1 / 1 + 2 / 2) / 2 / 2)
    assert quality.map_tie_aware == pytest.approx((1 + (2 / 2 + 2 / 3) / 2) / 2 / 2)
    assert quality.precision_at == {1: 0.5}
    assert set(quality.precision_at_recall.values()) == {1.0}


@pytest.mark.parametrize("figure", ["map", "map_tie_aware", "precision_at", "precision_at_recall"])
def test_a_wrong_figure_is_caught_before_anything_is_timed(monkeypatch, figure):
    def judge(*arguments):
        right = evaluate_scores(*arguments)
        fields = dict(vars(right))
        is_mapping = figure.startswith("precision")
        fields[figure] = dict.fromkeys(fields[figure], 2.0) if is_mapping else fields[figure] + 1e-9
        return type(right)(**fields)

    evaluate.check_quality("right", lambda block: block, SCORES, *SPLIT)
    monkeypatch.setattr(evaluate, "evaluate_scores", judge)
    monkeypatch.setattr(evaluate, "run_fresh", lambda *_, **__: pytest.fail("timed"))
    with pytest.raises(WrongAnswersError, match=r"tables: .*by plain loops"):
        evaluate.bench_evaluate(queries=3, rows=20, bits=8)


def test_half_a_byte_is_refused():
    with pytest.raises(InputError, match="multiple of 8, got 12"):
        evaluate.bench_evaluate(bits=12)


@pytest.mark.usefixtures("new_python")
def test_the_failure_of_a_fresh_process_is_reported():
    with pytest.raises(InputError, match=r"could not judge scores: TypeError"):
        run_fresh(evaluate._measure, "tables", "many", 2, 8, purpose="judge scores")
