import json

import pytest

from supquant.index import ordering
from supquant_lab.bench import WrongAnswersError, cells, timing

pytest.importorskip("faiss")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Take few queries and repeats."""
    monkeypatch.setattr(timing, "TURN_SECONDS", 1e-6)
    monkeypatch.setattr(timing, "BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(cells, "QUERIES", 2)
    monkeypatch.setattr(ordering, "MIN_IN_CELL", 8)


def test_a_quick_run_compares_equal_answers_and_writes_every_figure(run, tmp_path):
    result = run("bench", "cells", "--quick", "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert [(scan["items"], scan["ranking"]) for scan in record["scans"]] == [
        (items, ranking) for items in ("labelled", "unlabelled") for ranking in ("label", "position")
    ]
    assert all(len(scan["cells_milliseconds"]) == 2 for scan in record["scans"])
    figures = {figure["name"]: figure["measured"] for figure in record["figures"]}
    assert figures["string ids: bytes per row in addition to the text"] == pytest.approx(12, abs=0.01)
    assert sum("over ours" in name for name in figures) == 2
    assert sum("full scan over cells" in name for name in figures) == 8


def test_wrong_answers_end_the_run(run, monkeypatch, tmp_path):
    def wrong(**_options):
        raise WrongAnswersError("query 0 has other answers")

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_cells", wrong)
    result = run("bench", "cells", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "query 0 has other answers" in result.output + result.stderr
