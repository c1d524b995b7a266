import json

import pytest

from supquant_lab.bench.extend import bench_extend
from supquant_lab.datasets import load


def test_the_gain_of_few_rows_is_printed_and_written(run, tmp_path):
    result = run(
        "bench", "extend", "--dataset", "digits", "--rows", "10", "--bits", 32, "--json", tmp_path / "r.json"
    )
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "r.json").read_text())
    (measured,) = record["measured"]
    for value in (
        record["before"]["harmonic"],
        measured["extended"]["new"],
        measured["fitted_anew"]["known"],
    ):
        assert f"{value:.4f}" in result.output
    assert record["new_classes"] == 3
    assert measured["extended"]["new"] > record["before"]["new"] + 0.02


def test_the_fraction_of_the_gain_is_that_of_harmonic_means():
    steps = []
    record = bench_extend(load("digits"), rows=(20,), bits=32, on_step=steps.append)
    (measured,) = record["measured"]
    gains = [measured[how]["harmonic"] - record["before"]["harmonic"] for how in ("extended", "fitted_anew")]
    assert measured["part_of_gain"] == pytest.approx(gains[0] / gains[1])
    assert len(steps) == 2


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--bits", "12"), "multiple of 8"),
        (("--rows", "five"), "integers"),
        (("--rows", "0"), "rows"),
        (("--dataset", "nothing"), "nothing"),
        (("--json", "/no/such/folder/r.json"), "there is no folder"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, arguments, part):
    result = run("bench", "extend", *arguments)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert "Traceback" not in result.stderr
