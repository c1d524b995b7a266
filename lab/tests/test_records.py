"""Cells are read from files and from lines alike, and folding loses none of them."""

import json
import multiprocessing

import pytest

from supquant.errors import InputError
from supquant_lab import records
from supquant_lab.records import fold_cells, is_recorded, read_records

CELL = {
    "dataset": "mnist",
    "protocol": "paper",
    "ranking": "euclidean",
    "method": "sq",
    "bits": 16,
    "seed": 0,
    "map": 0.1 + 0.2,
    "parameters": {"solver": "joint"},
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2))


def contents(folder, **options):
    return {record.name: record.content for record in read_records(folder, **options)}


def test_folding_changes_no_name_and_no_number(tmp_path):
    for number in range(4):
        write(tmp_path / f"cell-{number}.json", CELL | {"seed": number, "map": 1 / (3 + number)})
    write(tmp_path / "other.json", CELL | {"dataset": "data/photos.npz"})
    before = contents(tmp_path)
    assert fold_cells(tmp_path) == {"mnist.jsonl.xz": 4, "photos.jsonl.xz": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mnist.jsonl.xz", "photos.jsonl.xz"]
    assert contents(tmp_path) == before
    assert fold_cells(tmp_path) == {}


def test_lines_are_sorted_so_that_a_new_cell_is_one_new_line(tmp_path, lines):
    for name in ("b", "d"):
        write(tmp_path / f"{name}.json", CELL)
    fold_cells(tmp_path)
    before = lines.read(tmp_path / "mnist.jsonl.xz")
    write(tmp_path / "c.json", CELL)
    fold_cells(tmp_path)
    after = lines.read(tmp_path / "mnist.jsonl.xz")
    assert [before[0], before[1]] == [after[0], after[2]]
    assert json.loads(after[1])["name"] == "c"


def test_the_same_cells_give_the_same_bytes(tmp_path, monkeypatch):
    together, in_turn = tmp_path / "together", tmp_path / "in-turn"
    for name in ("b", "a"):
        write(together / f"{name}.json", CELL)
        write(in_turn / f"{name}.json", CELL)
        fold_cells(in_turn)
    monkeypatch.setattr("time.time", lambda: 0.0)
    fold_cells(together)
    content = (together / "mnist.jsonl.xz").read_bytes()
    assert content == (in_turn / "mnist.jsonl.xz").read_bytes()
    assert content[:6] == b"\xfd7zXZ\0"  # a format that holds neither names nor times


def test_a_file_is_newer_than_the_line_of_its_name(tmp_path):
    write(tmp_path / "a.json", CELL)
    fold_cells(tmp_path)
    write(tmp_path / "a.json", CELL | {"map": 0.5})
    assert contents(tmp_path)["a"]["map"] == 0.5
    fold_cells(tmp_path)
    assert contents(tmp_path)["a"]["map"] == 0.5


def test_files_below_a_folder_keep_their_path_as_name_and_others_stay(tmp_path):
    write(tmp_path / "gamma-1" / "a.json", CELL)
    write(tmp_path / "gamma-2" / "a.json", CELL | {"map": 0.5})
    write(tmp_path / "gamma-2" / "points.json", {"points": []})
    write(tmp_path / "chain.json", [CELL, CELL | {"bits": 32, "parameters": {"solver": "alternating"}}])
    fold_cells(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "gamma-2",
        "gamma-2/points.json",
        "mnist.jsonl.xz",
    ]
    assert list(contents(tmp_path)) == [
        "chain/mnist-paper-sq-alternating-euclidean-32bits-seed0",
        "chain/mnist-paper-sq-euclidean-16bits-seed0",
        "gamma-1/a",
        "gamma-2/a",
    ]
    assert "gamma-2/points" in contents(tmp_path, subfolders=True)


def test_a_record_is_found_as_a_file_and_as_a_line(tmp_path):
    write(tmp_path / "a.json", CELL)
    assert is_recorded(tmp_path / "a.json")
    fold_cells(tmp_path)
    assert not (tmp_path / "a.json").exists()
    assert is_recorded(tmp_path / "a.json")
    assert not is_recorded(tmp_path / "b.json")


def test_a_stop_between_writing_and_removing_loses_nothing(tmp_path, monkeypatch):
    write(tmp_path / "a.json", CELL)
    monkeypatch.setattr(records.Path, "unlink", lambda *_, **__: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception):
        fold_cells(tmp_path)
    monkeypatch.undo()
    assert contents(tmp_path) == {"a": CELL}
    fold_cells(tmp_path)
    assert contents(tmp_path) == {"a": CELL}


def test_a_stop_while_lines_are_written_leaves_the_lines_before(tmp_path, monkeypatch):
    write(tmp_path / "a.json", CELL)
    fold_cells(tmp_path)
    write(tmp_path / "b.json", CELL)
    monkeypatch.setattr(records.os, "fsync", lambda _: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception):
        fold_cells(tmp_path)
    monkeypatch.undo()
    assert set(contents(tmp_path)) == {"a", "b"}


def _write_and_fold(folder, start, barrier):
    barrier.wait()
    for number in range(start, start + 20):
        write(folder / f"{number}.partial", CELL)
        (folder / f"{number}.partial").rename(folder / f"{number}.json")
        fold_cells(folder)


def test_processes_that_fold_one_folder_lose_no_cell(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    workers = [context.Process(target=_write_and_fold, args=(tmp_path, 20 * k, barrier)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert set(contents(tmp_path)) == {str(number) for number in range(60)}
    assert [path.name for path in tmp_path.iterdir()] == ["mnist.jsonl.xz"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "a"', "line 1, is not a JSON object"),
        ('{"map": 1}', "line 1, is not a JSON object with a name"),
        ("[]", "line 1, is not a JSON object with a name"),
        ('{"name": "a"}\n{"name": "a"}', "line 2: a occurs twice"),
    ],
)
def test_lines_that_cannot_be_right_are_refused_by_number(tmp_path, lines, text, message):
    lines.write(tmp_path / "mnist.jsonl.xz", text.splitlines())
    with pytest.raises(InputError, match=message):
        read_records(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: b"{" + data, lambda data: data[:20] * 2]
)
def test_a_damaged_file_of_lines_is_named(tmp_path, damage):
    write(tmp_path / "a.json", CELL)
    fold_cells(tmp_path)
    path = tmp_path / "mnist.jsonl.xz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"mnist\.jsonl\.xz is not a whole \.xz file"):
        read_records(tmp_path)
