import json

import pytest

from supquant_lab.bench import labels

TINY = ("--rows", 1500, "--dimensions", 16)


def measured(run, tmp_path, *arguments):
    """Run the command; return its only case and what it printed."""
    result = run("bench", "labels", *TINY, "--json", tmp_path / "r.json", *arguments)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["benchmark"] == "labels"
    assert record["machine"]["instruction_set"]
    (case,) = record["measured"]
    return case, result


def test_a_few_classes_come_near_to_what_is_best(run, tmp_path):
    case, result = measured(run, tmp_path, "--labels", 30, "--bits", 16)
    assert (case["labels"], case["rows"], case["dimensions"], case["bits"]) == (30, 1500, 16, 16)
    assert case["new_classes"] == 0
    assert 0.97 < case["bayes_accuracy"] <= 1
    assert case["accuracy_ratio"] == pytest.approx(case["accuracy"] / case["bayes_accuracy"])
    assert 0.97 < case["accuracy_ratio"] < 1.02
    for kind in ("labelled", "unlabelled"):
        found = case[kind]
        assert found["queries"] == labels.RANKING_QUERIES
        assert found["map_ratio"] == pytest.approx(found["map"] / found["map_best"])
        assert found["map_best"] > 0.9
        assert 0.97 < found["map_ratio"] < 1.02
        assert found["precision_at_10"] == pytest.approx(found["precision_at_10_best"], abs=0.02)
        assert f"{found['map']:.4f}" in result.output
    assert case["items"] == 1500
    assert case["item_labels"] == 30
    assert 30 <= case["distinct_codes"] <= 1500
    assert case["fit_ratio"] == pytest.approx(case["fit_seconds"] / case["product_seconds"])
    assert 0 < case["peak_memory_mb"] < 2000
    assert 0 < case["tables_ms"] < 1000
    assert 0 < case["answers_ms"] < 1000
    assert "Measuring 30 labels, 16 bits" in result.stderr


def test_several_labels_per_row_are_a_set_of_their_own(run, tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "SEVERAL_LABELS", 20)
    case, result = measured(run, tmp_path, "--several", "--bits", 32, "--spread", 2)
    assert case["several"]
    assert (case["labels"], case["spread"]) == (20, 2)
    assert case["bayes_accuracy"] is None
    assert case["accuracy_ratio"] is None
    assert case["accuracy"] > 0.9
    assert 0.95 < case["labelled"]["map_ratio"] < 1.05
    assert 0.95 < case["unlabelled"]["map_ratio"] < 1.05
    assert case["labelled"]["map"] > case["unlabelled"]["map"] + 0.05  # the labels are in the codes
    assert "20, several per row" in result.output


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--labels", "1", *TINY), "labels must be an integer of at least 2, got 1"),
        (("--labels", "many"), "integers"),
        (("--labels", "30"), "rows and dimensions must be given for 30 labels"),
        (("--labels", "1000", "--rows", "900"), "900 rows for 1000 labels"),
        (
            ("--labels", "30", "--rows", "200", "--dimensions", "16"),
            "rows must be an integer of at least 256",
        ),
        (("--labels", "30", "--rows", "300", "--dimensions", "0"), "dimensions must be"),
        (("--labels", "1000", "--rows", "0"), "rows must be"),
        (("--bits", "12"), "multiple of 8"),
        (("--bits", "0"), "bits must be"),
        (("--spread", "0"), "spread must be"),
        (("--new-classes", "some"), "or auto"),
        (("--new-classes", "1"), "below 1"),
        (("--json", "/no/such/folder/r.json"), "there is no folder"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, arguments, part):
    result = run("bench", "labels", *arguments)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert "Traceback" not in result.stderr
    assert "Measuring" not in result.stderr
