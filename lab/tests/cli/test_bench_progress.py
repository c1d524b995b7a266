import json

import pytest

from supquant_lab.bench.progress import worst_ratio


def test_the_events_of_a_fit_are_recorded_and_judged(run, tmp_path):
    result = run("bench", "progress", "--rows", 400, "--bits", 16, "--jobs", 1, "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert list(record["stages"]) == list(dict.fromkeys(event["stage"] for event in record["events"]))
    assert record["first_seconds"] == record["events"][0]["at"]
    assert record["worst_ratio"] == pytest.approx(worst_ratio(record["events"], record["seconds"]))
    assert f"{record['worst_ratio']:.2f}" in result.output
    assert record["rows"] == 360


def test_a_forecast_is_wrong_by_the_larger_of_both_ratios_with_a_second_of_slack():
    assert worst_ratio([{"at": 50, "remaining": 99}], 100) == pytest.approx(100 / 51)
    assert worst_ratio([{"at": 50, "remaining": 16}], 100) == pytest.approx(3)
    assert worst_ratio([{"at": 10, "remaining": 900}], 100) == 1.0  # too early to be judged


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(("--bits", "12"), "multiple of 8"), (("--dataset", "nothing"), "unknown data set")],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, arguments, part):
    result = run("bench", "progress", *arguments)
    assert result.exit_code == 2
    assert part in result.stderr
