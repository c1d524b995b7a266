import json

import pytest

from supquant_lab.bench import WrongAnswersError

MEASURED = {
    "kind": "tables",
    "seconds": 1.25,
    "all_seconds": [1.5, 1.25, 1.125],
    "cpu_seconds": 2.375,
    "peak_memory_mb": 240.0,
    "map": 0.1,
    "map_tie_aware": 0.1,
}
RECORD = {
    "kinds": [MEASURED],
    "threads": 2,
    "load_before": 0.1,
    "seconds_limit": 3.0,
    "memory_limit_mb": 500.0,
    "machine": {"processor": "a processor", "cores": 2, "instruction_set": "neon"},
}


def test_times_are_printed_and_written(run, monkeypatch, tmp_path):
    asked = {}

    def measure(*, on_kind, **sizes):
        on_kind("tables")
        asked.update(sizes)
        return RECORD

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_evaluate", measure)
    result = run("bench", "evaluate", "--queries", 20, "--bits", 128, "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    for part in ("20 queries, 69,000", "neon", "2 threads", "1.25", "1.12", "1.50", "2.38", "240"):
        assert part in result.output
    assert json.loads((tmp_path / "r.json").read_text()) == RECORD
    assert asked == {"queries": 20, "rows": 69_000, "bits": 128}


def test_wrong_answers_end_with_exit_code_1_and_name_the_figure(run, monkeypatch, tmp_path):
    def wrong(**_):
        raise WrongAnswersError("hamming: map is 0.5, by plain loops 0.25")

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_evaluate", wrong)
    result = run("bench", "evaluate", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "hamming: map is 0.5" in result.stderr
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(("--bits", "12"), "multiple of 8"), (("--json", "/no/such/folder/r.json"), "there is no folder")],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, arguments, part):
    result = run("bench", "evaluate", *arguments)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
