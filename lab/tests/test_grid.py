"""Grids run cheap tasks first, continue after a stop with the same results, and survive a task that fails."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import load
from supquant_lab.grid import CellsTask, SamplesTask, SweepTask, Workplace, run_grid
from supquant_lab.grid.tasks import _pictures, command
from supquant_lab.records import read_records

VARIES = ("fit_seconds", "cell_seconds", "query_ms", "peak_memory_mb", "convergence", "machine")
"""Fields that differ between runs."""

GRID = [
    CellsTask("digits", "pq", rows=400, expected_seconds=3.0),
    CellsTask("digits", "euclidean", (16, 32), rows=400, expected_seconds=1.0),
    CellsTask(
        "digits", "sq", (16, 32), rows=400, anchors=60, parameters={"max_iter": 2}, expected_seconds=5.0
    ),
    CellsTask("digits", "cca-itq", rows=400, protocol="unseen", seed=1, expected_seconds=2.0),
]


@dataclass(frozen=True)
class Broken:
    """A task that raises an error or kills its process."""

    how: str
    expected_seconds: float = 0.0
    name: str = "broken"
    dataset: str = "digits"

    def outputs(self):
        return ["cells/broken.json"]

    def run(self, workplace):
        if self.how == "raises":
            raise InputError("there is no such thing")
        os.kill(os.getpid(), signal.SIGKILL)


def measured(folder):
    """Return everything that a grid wrote, without the fields that vary."""
    found = {}
    for record in read_records(folder / "cells"):
        record.content["parameters"].pop("chain_seconds")
        found[record.name] = {name: value for name, value in record.content.items() if name not in VARIES}
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run the grid in this process: its folder, which no test changes, and its outcomes."""
    folder = tmp_path_factory.mktemp("whole")
    return SimpleNamespace(folder=folder, outcomes=list(run_grid(GRID, Workplace(folder), workers=0)))


def test_the_cheapest_task_goes_first_and_all_files_are_written(whole, lines):
    folder, outcomes = whole.folder, whole.outcomes
    assert [outcome.task.method for outcome in outcomes] == ["euclidean", "cca-itq", "pq", "sq"]
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert [path.name for path in folder.rglob("*.json*")] == ["digits.jsonl.xz"]
    names = [json.loads(line)["name"] for line in lines.read(folder / "cells/digits.jsonl.xz")]
    assert [f"cells/{name}.json" for name in names] == sorted(
        output for task in GRID for output in task.outputs()
    )
    assert "digits-unseen-cca-itq-hamming-16bits-seed1" in names


def test_finished_tasks_are_not_run_again(tmp_path):
    list(run_grid(GRID[:2], Workplace(tmp_path), workers=0))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json*")}
    outcomes = list(run_grid(GRID[:2], Workplace(tmp_path), workers=0))
    assert {outcome.status for outcome in outcomes} == {"there"}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json*")} == before


def test_only_the_missing_lengths_of_a_task_are_run(tmp_path, lines):
    list(run_grid([GRID[2]], Workplace(tmp_path), workers=0))
    whole = measured(tmp_path)
    path = tmp_path / "cells" / "digits.jsonl.xz"
    short, _ = sorted(lines.read(path), key=lambda line: json.loads(line)["bits"])
    lines.write(path, [short])
    assert [outcome.status for outcome in run_grid([GRID[2]], Workplace(tmp_path), workers=0)] == ["done"]
    assert short in lines.read(path)
    assert measured(tmp_path) == whole


def test_processes_measure_the_same_as_this_one(whole, tmp_path):
    outcomes = list(run_grid(GRID, Workplace(tmp_path, n_jobs=1), workers=2))
    assert {outcome.status for outcome in outcomes} == {"done"}
    here, there = measured(whole.folder), measured(tmp_path)
    for cell in (*here.values(), *there.values()):
        cell["parameters"].pop("n_jobs", None)
    assert here == there


@pytest.mark.parametrize(("how", "workers"), [("raises", 0), ("raises", 1), ("is killed", 1)])
def test_a_failing_task_is_reported_and_the_others_continue(tmp_path, how, workers):
    outcomes = list(run_grid([Broken(how), GRID[1]], Workplace(tmp_path), workers=workers))
    assert [outcome.status for outcome in outcomes] == ["failed", "done"]
    why = json.loads((tmp_path / "failed" / "cells-broken.json").read_text())
    assert why["name"] == "broken"
    assert ("no such thing" if how == "raises" else "killed") in why["error"]


@dataclass(frozen=True)
class WritesVariable(Broken):
    """A task that writes a variable of its environment to a file."""

    def run(self, workplace):
        (workplace.folder / "found").write_text(os.environ.get(self.how, "not set"))


def test_workers_have_the_environment_at_the_time_they_start(tmp_path, monkeypatch):
    for value in ("one", "two"):
        monkeypatch.setenv("SUPQUANT_TOLD", value)
        list(run_grid([WritesVariable("SUPQUANT_TOLD")], Workplace(tmp_path), workers=1))
        assert (tmp_path / "found").read_text() == value


def test_the_file_of_a_failure_is_removed_when_the_task_succeeds(tmp_path):
    failing = replace(GRID[0], parameters={"no_such_parameter": 1})
    (outcome,) = run_grid([failing], Workplace(tmp_path), workers=0)
    assert "no_such_parameter" in outcome.error
    assert len(list((tmp_path / "failed").iterdir())) == 1
    list(run_grid([GRID[0]], Workplace(tmp_path), workers=0))
    assert not list((tmp_path / "failed").iterdir())


def test_the_time_left_follows_the_time_that_tasks_took(whole):
    assert whole.outcomes[-1].seconds_left == 0
    first, second = whole.outcomes[:2]
    taken = (first.seconds + second.seconds) / 3.0  # seconds for each expected second
    assert second.seconds_left == pytest.approx(taken * 8.0)


def test_a_killed_grid_resumes_to_the_same_results(whole, tmp_path, telling_child):
    workplace = Workplace(tmp_path / "stopped", tmp_path / "keep")

    def run(tell):
        signal.alarm(120)
        for outcome in run_grid(GRID, workplace, workers=0):
            tell(outcome.status)

    child, lines = telling_child(run)
    wait_until(lambda: list(workplace.folder.glob("cells/*sq-*16bits*")))  # in the middle of the chain
    os.kill(child, signal.SIGKILL)
    assert lines.read() == "done\n" * 3
    statuses = [outcome.status for outcome in run_grid(GRID, workplace, workers=0)]
    assert statuses == ["there"] * 3 + ["done"]
    assert measured(workplace.folder) == measured(whole.folder)


WORKER = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
from supquant_lab.grid import Workplace, run_grid

@dataclass(frozen=True)
class Endless:
    expected_seconds: float = 0.0
    name: str = "endless"
    dataset: str = "digits"

    def outputs(self):
        return ["cells/endless.json"]

    def run(self, workplace):
        (workplace.folder / "worker").write_text(str(os.getpid()))
        time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off
    list(run_grid([Endless()], Workplace(Path(__file__).parent), workers=1))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_when_the_process_that_started_them_ends(tmp_path, how):
    (tmp_path / "endless.py").write_text(WORKER)
    grid = subprocess.Popen([sys.executable, str(tmp_path / "endless.py")], stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "worker").is_file)
        worker = int(wait_until((tmp_path / "worker").read_text))
        grid.send_signal(how)
        grid.wait(timeout=60)
        wait_until(lambda: not is_running(worker))
    finally:
        grid.kill()
        grid.wait()


def wait_until(happens, seconds=120):
    until = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process_id}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_points_of_a_sweep_have_a_time_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("supquant_lab.grid.tasks.PENALTIES", {"quantization_weight": (1e-5,)})
    task = SweepTask("digits", rows=500, anchors=60, training_rows=300)
    list(run_grid([task], Workplace(tmp_path, time_limit=0.001, n_jobs=1), workers=0))
    (point,) = json.loads((tmp_path / "sweeps/digits.json").read_text())["points"]
    assert point["truncated"]


def test_a_sweep_tries_all_penalties(tmp_path, monkeypatch):
    grid = {"quantization_weight": (1e-5, 1e-3), "constraint_weight": (0.1, 1.0)}
    monkeypatch.setattr("supquant_lab.grid.tasks.PENALTIES", grid)
    task = SweepTask("digits", rows=500, anchors=60, training_rows=300, parameters={"max_iter": 2})
    (outcome,) = run_grid([task], Workplace(tmp_path, n_jobs=1), workers=0)
    assert outcome.status == "done", outcome.error
    sweep = json.loads((tmp_path / "sweeps/digits.json").read_text())
    assert [point["parameters"] for point in sweep["points"]] == [
        {"quantization_weight": gamma, "constraint_weight": mu} for gamma in (1e-5, 1e-3) for mu in (0.1, 1.0)
    ]
    assert (sweep["n_training"], sweep["n_validation"], sweep["bits"]) == (300, 50, 16)
    assert not any(point["truncated"] for point in sweep["points"])
    assert not (tmp_path / "partial").exists()
    names = {
        each.outputs()[0]
        for each in (task, replace(task, solver="alternating"), replace(task, method="sq-no-transform"))
    }
    assert len(names) == 3


def test_samples_are_the_nearest_items_of_one_query_per_class(tmp_path):
    task = SamplesTask("digits", anchors=100, bits=16)
    (outcome,) = run_grid([task], Workplace(tmp_path), workers=0)
    assert outcome.status == "done", outcome.error
    samples = json.loads((tmp_path / "samples/digits.json").read_text())
    assert [query["label"] for query in samples["queries"]] == [str(digit) for digit in range(10)]
    for query in samples["queries"]:
        assert [answer["method"] for answer in query["answers"]] == ["sq", "pq"]
        for answer in query["answers"]:
            assert len(answer["results"]) == 10
            for result in answer["results"]:
                assert result["right"] == (result["label"] == query["label"])
                assert result["picture"].startswith("data:image/png;base64,")
    right = [
        sum(result["right"] for query in samples["queries"] for result in query["answers"][which]["results"])
        for which in (0, 1)
    ]
    assert right[0] > 80


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.eye(2, dtype=np.uint8)[np.arange(400) % 2], "one label per row"),
        (np.arange(400) % 2, "not pictures"),
    ],
)
def test_samples_of_several_labels_or_without_pictures_are_refused(tmp_path, y, message):
    X = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    task = SamplesTask(str(tmp_path / "rows.npz"), methods=("euclidean",))
    (outcome,) = run_grid([task], Workplace(tmp_path / "results"), workers=0)
    assert message in outcome.error


def test_coloured_pictures_are_shown_as_they_are():
    images = np.random.default_rng(0).integers(256, size=(3, 4, 5, 3), dtype=np.uint8)
    dataset = replace(load("digits").sample(3), images=images)
    np.testing.assert_allclose(_pictures(dataset)(2), images[2] / 255)


def test_grey_pixels_are_shown_dark_on_light():
    dataset = load("digits")
    picture = _pictures(dataset)(7)
    np.testing.assert_allclose(picture, 1 - dataset.X[7].reshape(8, 8) / 16)


def test_a_task_names_the_command_that_makes_each_cell():
    task = replace(GRID[2], parameters={"solver": "alternating", "max_iter": 2}, variant="alternating")
    assert task.command(32, 600.0) == (
        "supquant experiment --dataset digits --method sq --bits 32 --protocol paper --ranking euclidean --seed 0 "
        "--anchors 60 --rows 400 --time-limit 600 --set solver=alternating --set max_iter=2"
    )


def test_a_task_gives_methods_the_rows_that_it_names(tmp_path):
    task = CellsTask("digits", "pq", protocol="open", rows=900, fit_rows="labelled", variant="labelled")
    assert "--rows 900 --fit-rows labelled" in task.command(16)
    list(run_grid([task, replace(task, fit_rows=None, variant="")], Workplace(tmp_path), workers=0))
    cells = {record.name: record.content for record in read_records(tmp_path / "cells")}
    labelled, every = (
        cells[f"digits-open-pq{variant}-euclidean-16bits-seed0"] for variant in ("-labelled", "")
    )
    assert (labelled["parameters"]["fit_rows"], every["parameters"]["fit_rows"]) == ("labelled", "all")
    assert labelled["parameters"]["n_unlabelled"] == 0 < every["parameters"]["n_unlabelled"]
    assert labelled["quantization_error"] > every["quantization_error"]


def test_commands_quote_what_a_shell_would_split():
    assert command("experiment", dataset="my data.npz", rows=None, kernel_for_all=False) == (
        "supquant experiment --dataset 'my data.npz'"
    )
