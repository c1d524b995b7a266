import json

import pytest

from supquant_lab.bench import WrongAnswersError

TIME = {"seconds": 0.0125, "best_seconds": 0.012, "repeats": 3}
SIDE = {
    "name": "supquant",
    "million_sums_per_second": 80.0,
    "tables_to_answers": TIME,
    "query_to_answers": TIME,
}
CELL = {
    "source": "uniform",
    "rows": 1_000_000,
    "bits": 64,
    "queries": 1,
    "k": 100,
    "threads": 1,
    "sides": [SIDE],
}
FIGURE = {"name": "IndexPQ over ours", "asked": "at least 1.6", "measured": 1.75, "unit": "", "reached": True}
RECORD = {
    "quick": False,
    "faiss": "1.9",
    "machine": {"processor": "a processor", "cores": 2, "instruction_set": "neon"},
    "figures": [FIGURE],
    "cells": [CELL],
}


@pytest.fixture
def asked(monkeypatch):
    """Replace the benchmark by a made-up record, and keep the arguments."""
    asked = {}

    def measure(**options):
        asked.update(options)
        if options["on_record"] is not None:
            options["on_record"](RECORD)
        return RECORD

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_search", measure)
    return asked


def test_figures_are_printed_written_and_drawn(run, asked, tmp_path):
    result = run("bench", "search", "--json", tmp_path / "r.json", "--plot", tmp_path / "r.png")
    assert result.exit_code == 0, result.output
    for part in ("neon", "uniform, 64 bits", "12.5", "at least 1.6", "1.75", "yes"):
        assert part in result.output
    assert json.loads((tmp_path / "r.json").read_text()) == RECORD
    assert (tmp_path / "r.png").stat().st_size > 1000
    assert (asked["quick"], asked["grid"], asked["resume"]) == (False, False, None)


def test_resume_hands_the_earlier_record_on(run, asked, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(RECORD))
    result = run("bench", "search", "--grid", "--resume", "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    assert (asked["resume"], asked["grid"]) == (RECORD, True)


def test_wrong_answers_end_with_exit_code_1_and_name_the_case(run, monkeypatch):
    def wrong(**_):
        raise WrongAnswersError("uniform codes, 64 bits: query 3 has other answers")

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_search", wrong)
    result = run("bench", "search")
    assert result.exit_code == 1
    assert "64 bits: query 3" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--resume",), "--json"),
        (("--resume", "--json", "nowhere.json"), "--json"),
        (("--plot", "speed.txt"), ".png"),
        (("--json", "/no/such/folder/r.json"), "there is no folder"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, asked, arguments, part):
    result = run("bench", "search", *arguments)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
