"""The soak: every kind of trial passes, and an index that answers wrongly is caught."""

import gc
import json
import weakref
from collections import Counter

import numpy as np
import pytest

from supquant import CodeIndex
from supquant.storage import reading
from supquant_lab.bench.serving.checked import CheckedClient
from supquant_lab.soak import children, damage, run, service, trials
from supquant_lab.soak.damage import damaged, make_samples, read_damaged, read_forged
from supquant_lab.soak.history import History
from supquant_lab.soak.trials import Trials

KINDS = tuple(Trials(None, None, None).kinds())


@pytest.fixture
def few(monkeypatch):
    """Make trials small."""
    monkeypatch.setattr(trials, "MUTATED_PER_CHILD", 200)
    monkeypatch.setattr(trials, "FORGED_PER_CHILD", 60)
    monkeypatch.setattr(trials, "EXHAUSTED_PER_CHILD", 5)
    monkeypatch.setattr(damage, "METHODS", ("pq", "sdh"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few")
def test_every_kind_of_trial_passes_and_is_counted(kind, tmp_path, rng):
    counts = Counter()
    Trials(tmp_path, rng, counts).kinds()[kind][1]()
    assert counts[kind] > 0


def test_garbage_is_collected_before_memory_is_occupied():
    def work():
        cycle = Counter()
        cycle["itself"] = cycle
        gone = weakref.ref(cycle)
        del cycle
        children.occupy_free_memory()
        return int(gone() is not None)

    gc.disable()
    try:
        assert children.end_of(children.start_child(work)) == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("wrong", ["sums", "order", "codes", "columns", "rows"])
def test_a_wrong_answer_is_caught(wrong, tmp_path, rng, monkeypatch):
    history = History(tmp_path / "index", rng, Counter())
    for _ in range(5):
        history.add()  # half of the time with a column
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
    elif wrong == "columns":
        ids = list(history.plain.numbers)
        history.index.update_codes(ids, history.index.codes(ids), metadata={"number": [10] * len(ids)})
    else:
        history.index.remove(history.index.ids[:1])
    with pytest.raises(AssertionError):
        sum(
            history.plain.check(history.index, rng) for _ in range(5)
        )  # one of them may ask for one answer only


def test_damage_nearly_always_changes_the_file_and_its_length_both_ways(rng):
    content = bytes(range(200))
    results = [damaged(content, rng) for _ in range(300)]
    assert sum(each != content for each in results) > 280
    assert min(map(len, results)) < 200 < max(map(len, results))


def test_a_failure_ends_the_soak_and_names_its_trial(tmp_path, monkeypatch):
    def fail(_trials):
        raise AssertionError("rows are lost")

    monkeypatch.setattr(Trials, "history", fail)
    record = json.loads(json.dumps(run.soak(5, 60, tmp_path)))
    assert record["failure"]["trial"] == "searches"
    assert record["failure"]["seed"] == [5, 0]
    assert "rows are lost" in record["failure"]["error"]
    assert np.sum(list(record["counts"].values())) == 0


def test_the_kind_that_is_furthest_behind_is_tried_next():
    asked = {"kills": 10, "files": 1000}
    assert run.furthest_behind({}, asked) == "kills"
    assert run.furthest_behind({"kills": 1}, asked) == "files"
    assert run.furthest_behind({"kills": 1, "files": 99}, asked) == "files"
    assert run.furthest_behind({"kills": 1, "files": 101}, asked) == "kills"


def test_a_soak_tries_every_kind(tmp_path, monkeypatch):
    """Each trial adds some to its count; with so many trials, all counts are about the same fraction of what is asked."""

    def kinds(soak):
        steps = {"one": (100, 10), "two": (1000, 10), "three": (50, 1)}

        def trial(name, step):
            soak.counts[name] += step
            soak.counts["all"] += 1
            assert soak.counts["all"] < 1000, "enough"

        return {
            name: (asked, lambda name=name, step=step: trial(name, step))
            for name, (asked, step) in steps.items()
        }

    monkeypatch.setattr(Trials, "kinds", kinds)
    counts = run.soak(0, 60, tmp_path)["counts"]
    shares = [counts["one"] / 100, counts["two"] / 1000, counts["three"] / 50]
    assert min(shares) > 5
    assert max(shares) - min(shares) <= 0.1 + 1e-9


@pytest.mark.usefixtures("few")
def test_some_forged_files_are_refused_and_some_work(tmp_path, rng):
    for sample in make_samples(tmp_path / "samples"):
        refused = [read_forged(sample, rng) for _ in range(40)]
        assert 0 < sum(refused) < 40, sample.path
        assert {path: path.read_bytes() for path in sample.files} == sample.files
        assert not sample.path.is_dir() or not set(sample.path.glob("*-*")) - set(sample.files)


@pytest.mark.usefixtures("few")
def test_a_reader_that_accepts_damaged_files_is_caught(tmp_path, rng, monkeypatch):
    model = make_samples(tmp_path / "samples")[0]
    assert sum(read_damaged(model, rng) for _ in range(100)) > 90
    monkeypatch.setattr(reading.ArrayFile, "_compare", lambda *_: None)
    with pytest.raises(AssertionError, match="damaged"):
        any(read_damaged(model, rng) and False for _ in range(300))


@pytest.mark.parametrize("kind", ["mutated files", "forged files"])
@pytest.mark.usefixtures("few")
def test_a_reader_that_fails_in_another_way_is_caught(kind, tmp_path, rng, monkeypatch, capfd):
    make_samples(tmp_path / "samples")
    monkeypatch.setattr(reading, "shorten", lambda _: 1 / 0)
    monkeypatch.setattr(damage, "load_model", lambda _: 1 / 0)
    with pytest.raises(AssertionError, match=f"a child that read {kind} ended with 70"):
        Trials(tmp_path, rng, Counter()).kinds()[kind][1]()
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(service, "KILL_SECONDS", (0.5, 1.0))


@pytest.mark.usefixtures("impatient")
def test_innocent_clients_of_a_service_are_answered_among_hostile_ones_and_kills():
    record = service.soak_service(0.1)
    assert record["failures"] == []
    assert record["counts"]["kills"] > 0
    assert record["counts"]["innocent searches"] > 0
    assert record["seconds"]["greatest"] < service.DEADLINE


def test_memory_that_grows_after_the_first_requests_is_a_failure():
    warming, peaks = [50.0 + second for second in range(60)], [110.0, 150.0, 130.0, 110.0, 120.0]
    flat, growing = peaks * 20, [size + second / 5 for second, size in enumerate(peaks * 20)]
    assert service.lasting_growth(warming + flat) == (
        {"first third": 110.0, "last third": 110.0, "most": 150.0},
        [],
    )
    assert service.lasting_growth(warming + growing)[1] == ["the memory grew from 113 to 126 MB"]
    assert service.lasting_growth(warming)[1] == service.lasting_growth([])[1] == []  # too short to say


def test_an_innocent_request_that_takes_too_long_is_a_failure(monkeypatch):
    class Impatient(float):
        """A deadline that the service keeps, and no client."""

        def __gt__(self, seconds):
            return False

    monkeypatch.setattr(service, "DEADLINE", Impatient(10.0))
    assert "an innocent request took" in service.soak_service(1)["failures"][0]


def test_a_lost_row_of_an_innocent_client_is_a_failure(monkeypatch):
    class Forgetful(CheckedClient):
        def accept(self):
            super().accept()
            self.rows.pop(next(reversed(self.rows)))

    monkeypatch.setattr(service, "CheckedClient", Forgetful)
    failures = service.soak_service(0.1)["failures"]
    assert any("differ" in each or "other ids" in each or "not there" in each for each in failures)
