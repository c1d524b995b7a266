import json

import numpy as np
import pytest

from supquant import CodeIndex, SupervisedQuantizer
from supquant.index import ordering
from supquant_lab.bench import WrongAnswersError, cells, timing
from supquant_lab.datasets import load

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
    assert sum("64 queries together" in name for name in figures) == 2
    assert figures["add_codes: peak memory of the process in bytes per code"] > 8  # the codes themselves
    assert figures["add_codes: seconds per 10,000,000 codes"] > 0


def test_other_answers_of_a_batch_end_the_run(monkeypatch):
    data, codes = load("digits"), np.zeros((1000, 8), dtype=np.uint8)
    codec = SupervisedQuantizer(8, n_codewords=16, random_state=0).fit(data.X[:400], data.y[:400]).codec_
    index = CodeIndex(codec).add_codes(codes)
    assert cells.batch_figure(index, data, 400, "labelled", 1).measured > 0
    search = CodeIndex.search

    def shifted(self, queries, k):
        scores, ids = search(self, queries, k)
        return scores, ids + (len(queries) > 1)

    monkeypatch.setattr(CodeIndex, "search", shifted)
    with pytest.raises(WrongAnswersError, match="a batch"):
        cells.batch_figure(index, data, 400, "labelled", 1)


def test_wrong_answers_end_the_run(run, monkeypatch, tmp_path):
    def wrong(**_options):
        raise WrongAnswersError("query 0 has other answers")

    monkeypatch.setattr("supquant_lab.cli.bench_searches.bench_cells", wrong)
    result = run("bench", "cells", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "query 0 has other answers" in result.output + result.stderr
