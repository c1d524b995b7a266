"""Many changes of one service: every answer is checked, and what grows is told."""

import pytest

from supquant_lab.bench.serving import changes
from supquant_lab.bench.serving.changes import ChangingClient, bench_changes, find_growth


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(changes, "CLIENTS", 2)
    monkeypatch.setattr(changes, "SEARCHES", 0.5)


def test_every_answer_of_a_changed_service_is_right():
    record = bench_changes(60)
    assert record["failures"] == []
    assert len(record["tenths"]) == 10
    kinds = ("add", "update", "upsert", "metadata", "remove")
    assert sum(record["counts"][kind] for kind in kinds) >= 60  # with those that fill the index
    assert record["counts"]["reads of columns"] > 0


def test_a_lost_column_is_a_failure(monkeypatch):
    set_columns = ChangingClient.columns
    monkeypatch.setattr(ChangingClient, "columns", lambda self, n, mark=0: set_columns(self, n))
    assert any("other columns" in each for each in bench_changes(200)["failures"])


def test_a_lost_row_is_a_failure(monkeypatch):
    accept = ChangingClient.accept

    def forget(self):
        accept(self)
        self.rows.pop(next(iter(self.rows)), None)

    monkeypatch.setattr(ChangingClient, "accept", forget)
    with pytest.raises(AssertionError, match="differ from what was answered"):
        bench_changes(100)


def test_growth_is_told_unless_the_index_still_fills():
    even = dict.fromkeys(changes.MAX_GROWTH, 10.0) | {"rows": 100}
    assert find_growth([even] * 10) == []
    for name in changes.MAX_GROWTH:
        assert find_growth([even] * 9 + [even | {name: 31.0}]) == [f"{name} grew from 10.0 to 31.0"]
    assert find_growth([even] * 9 + [even | {"memory_mb": 99.0, "rows": 200}]) == []
