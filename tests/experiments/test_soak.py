"""The soak: every kind of trial passes, and an index that answers wrongly is found out."""

import json
from collections import Counter

import numpy as np
import pytest

from supquant import CodeIndex
from supquant_experiments.soak import trials, worker
from supquant_experiments.soak.history import History
from supquant_experiments.soak.trials import Trials, damaged

KINDS = tuple(Trials(None, None, None).kinds())


@pytest.fixture
def few(monkeypatch):
    """Make trials small."""
    monkeypatch.setattr(trials, "MUTATED_A_CHILD", 40)
    monkeypatch.setattr(trials, "BIG_ROWS", 20_000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few")
def test_every_kind_of_trial_passes_and_is_counted(kind, tmp_path, rng):
    counts = Counter()
    Trials(tmp_path / "index", rng, counts).kinds()[kind][1]()
    assert counts["searches"] > 0
    if kind not in ("histories", "exhausted memory"):  # 20,000 rows may fit
        assert counts[kind] > 0


@pytest.mark.parametrize("wrong", ["sums", "order", "codes", "rows"])
def test_a_wrong_answer_is_found_out(wrong, tmp_path, rng, monkeypatch):
    history = History(tmp_path / "index", rng, Counter())
    history.add()
    history.add()
    search, codes = CodeIndex.search_tables, CodeIndex.codes
    if wrong == "sums":
        monkeypatch.setattr(
            CodeIndex, "search_tables", lambda *a, **o: (search(*a, **o)[0] + 1, search(*a, **o)[1])
        )
    elif wrong == "order":
        monkeypatch.setattr(
            CodeIndex, "search_tables", lambda *a, **o: tuple(x[:, ::-1] for x in search(*a, **o))
        )
    elif wrong == "codes":
        monkeypatch.setattr(CodeIndex, "codes", lambda *a: codes(*a) ^ 1)
    else:
        history.index.remove(history.index.ids[:1])
    with pytest.raises(AssertionError):
        history.plain.check(history.index, rng)


def test_damage_always_changes_something_or_nothing_worse(rng):
    content = bytes(range(200))
    results = [damaged(content, rng) for _ in range(300)]
    assert sum(each != content for each in results) > 280
    assert min(map(len, results)) < 200 < max(map(len, results))


def test_a_failure_ends_the_soak_and_tells_its_trial(tmp_path, monkeypatch):
    def fail(_trials):
        raise AssertionError("rows are lost")

    for name in (
        "history",
        "kills",
        "interrupts",
        "full_disks",
        "exhausted_memory",
        "mutated_files",
        "writers",
    ):
        monkeypatch.setattr(Trials, name, fail)
    record = json.loads(json.dumps(worker.soak(5, 60, tmp_path)))
    assert record["failure"]["seed"] == [5, 0]
    assert "rows are lost" in record["failure"]["error"]
    assert np.sum(list(record["counts"].values())) == 0
