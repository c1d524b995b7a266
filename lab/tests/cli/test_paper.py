"""`supquant paper` plans, runs, continues, renders, and names what failed."""

import json

import pytest

from supquant_lab.grid import CellsTask

TASKS = [
    CellsTask("digits", "euclidean", (16, 32), rows=300, expected_seconds=1.0),
    CellsTask("digits", "pq", (16,), rows=300, expected_seconds=200.0),
]
FAILING = CellsTask("digits", "pq", (32,), rows=300, parameters={"no_such": 1}, expected_seconds=2.0)


@pytest.fixture
def tasks(monkeypatch):
    """Replace the tasks of the small version by a few."""
    chosen = list(TASKS)
    monkeypatch.setattr("supquant_lab.cli.paper.quick_tasks", lambda: chosen)
    return chosen


def test_it_prints_the_expected_time_and_what_is_left_and_writes_the_report(run, tasks, tmp_path, lines):
    result = run("paper", "--quick", "--results", tmp_path)
    assert result.exit_code == 0, result.output
    assert "2 tasks, 0 already done; about 3 min 21 s to go" in result.output
    assert "[1/2] digits-paper-euclidean-euclidean 16,32 bits seed 0" in result.output
    assert "left" in result.output
    assert (tmp_path / "report.html").is_file()
    (path,) = (tmp_path / "cells").iterdir()
    assert path.name == "digits.jsonl.xz"
    assert len(lines.read(path)) == 3


def test_it_continues_where_it_was_stopped(run, tasks, tmp_path, lines):
    run("paper", "--quick", "--results", tmp_path)
    path = tmp_path / "cells" / "digits.jsonl.xz"
    lines.write(path, [line for line in lines.read(path) if '"method":"pq"' not in line])
    result = run("paper", "--quick", "--results", tmp_path)
    assert "2 tasks, 1 already done" in result.output
    assert "[1/1] digits-paper-pq" in result.output


def test_the_report_can_be_written_elsewhere_and_rendered_alone(run, tasks, tmp_path):
    run("paper", "--quick", "--results", tmp_path / "results")
    result = run(
        "paper", "--quick", "--results", tmp_path / "results", "--report", tmp_path / "page", "--render"
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "page" / "report.html").is_file()
    assert "tasks" not in result.output


def test_a_plan_runs_nothing(run, tasks, tmp_path):
    result = run("paper", "--quick", "--results", tmp_path / "new", "--plan")
    assert result.exit_code == 0, result.output
    assert "3 min 20 s  digits-paper-pq-euclidean 16 bits seed 0" in result.output
    assert "3 min 21 s  in all" in result.output
    assert not (tmp_path / "new").exists()


def test_failures_are_named_and_the_rest_is_in_the_report(run, tasks, tmp_path):
    tasks.append(FAILING)
    result = run("paper", "--quick", "--results", tmp_path)
    assert result.exit_code == 1
    assert "digits-paper-pq-euclidean 32 bits seed 0: FAILED" in result.output
    assert "no_such" in result.output
    assert "1 of 3 tasks failed" in result.output
    assert "no_such" in (tmp_path / "report.html").read_text()


def test_a_missing_data_set_is_reported_once_before_any_work(run, monkeypatch, tmp_path):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path / "empty"))
    result = run("paper", "--only", "map", "--dataset", "coco30k", "--results", tmp_path / "results")
    assert result.exit_code == 2
    assert result.output.count("coco30k_bow.npz was not found") == 1
    assert "leave coco30k out" in result.output
    assert not list((tmp_path / "results").iterdir())


def test_a_foreign_readme_is_not_overwritten(run, tasks, tmp_path):
    (tmp_path / "README.md").write_text("# My project")
    result = run("paper", "--quick", "--results", tmp_path / "results", "--report", tmp_path)
    assert result.exit_code == 2
    assert "was not written by supquant" in result.output
    assert (tmp_path / "README.md").read_text() == "# My project"
    for _ in range(2):
        assert run("paper", "--quick", "--results", tmp_path / "results").exit_code == 0


def test_fits_are_kept_in_the_given_folder(run, tasks, tmp_path):
    run("paper", "--quick", "--results", tmp_path / "results", "--keep", tmp_path / "fits")
    assert len(list((tmp_path / "fits").glob("ProductQuantizer-16bits-*.json"))) == 1


def test_parts_of_the_plan_can_be_chosen(run):
    result = run("paper", "--plan", "--only", "triplet, transform", "--dataset", "mnist")
    assert result.exit_code == 0, result.output
    first, second, total = result.output.splitlines()
    assert "mnist-paper-sq-no-transform" in first
    assert "mnist-paper-sq-triplet" in second
    assert "in all" in total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "table-9"), "there is no item 'table-9'; there are map, query-time"),
        (("--dataset", "minst"), "unknown data set 'minst'"),
        (("--quick", "--only", "map"), "--quick is one small version"),
        (("--render", "--results", "no-such-folder"), "no-such-folder"),
    ],
)
def test_nonsense_is_refused_in_one_line(run, arguments, message):
    result = run("paper", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("option", ["--results", "--report", "--keep"])
def test_a_file_in_place_of_a_folder_is_refused_before_any_work(run, tasks, tmp_path, option):
    (tmp_path / "file").touch()
    given = {"--results": tmp_path / "results", option: tmp_path / "file"}
    result = run("paper", "--quick", *(each for pair in given.items() for each in pair))
    assert result.exit_code == 2
    assert "is a file; name a folder" in " ".join(result.output.split())
    assert not (tmp_path / "results" / "cells").exists()


def test_cells_name_the_command_that_makes_them(run, tasks, tmp_path, lines):
    run("paper", "--quick", "--results", tmp_path)
    cells = map(json.loads, lines.read(tmp_path / "cells" / "digits.jsonl.xz"))
    (cell,) = (cell for cell in cells if cell["method"] == "pq")
    assert cell["command"].startswith("supquant experiment --dataset digits --method pq --bits 16")
