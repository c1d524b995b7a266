import json

import pytest

SMALL = ("--part", "paper", "--data", "digits", "--rows", 600, "--bits", 16, "--seeds", "0,1")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """A folder of records, and what the command printed."""
    from typer.testing import CliRunner

    from supquant_lab.cli import app

    folder = tmp_path_factory.mktemp("quality")
    result = CliRunner().invoke(app, ["bench", "quality", *map(str, SMALL), "--results", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


def test_means_and_spreads_are_printed_and_each_cell_has_a_file(earlier):
    folder, result = earlier
    paths = sorted(folder.iterdir())
    assert [path.name for path in paths] == [
        f"paper-digits-600rows-16bits-seed{seed}.json" for seed in (0, 1)
    ]
    maps = [json.loads(path.read_text())["figures"]["map"] for path in paths]
    assert f"{sum(maps) / 2:.3f}".removeprefix("0") in result.output
    assert "±" in result.output
    assert "digits, 600 rows, 16 bits" in result.output
    assert "Measuring paper-digits-600rows-16bits-seed1 (2 of 2)" in result.stderr


def test_what_moved_is_printed_and_written(run, earlier, tmp_path):
    folder, _ = earlier
    before = tmp_path / "before"
    before.mkdir()
    for path in folder.iterdir():
        record = json.loads(path.read_text())
        record["figures"]["map"] += 0.01  # of both seeds
        record["protocol"] = "another"
        (before / path.name).write_text(json.dumps(record))
    told = ("--results", folder, "--against", before, "--json", tmp_path / "r.json")
    result = run("bench", "quality", *SMALL, *told)
    assert result.exit_code == 0, result.output
    assert "Measuring" not in result.stderr
    assert "1 of 6 figures moved" in result.output
    assert "-.0100" in result.output
    assert "worse" in result.output
    assert "the lab measures in another way" in result.output
    written = json.loads((tmp_path / "r.json").read_text())
    assert len(written["records"]) == 2
    (moved,) = [move for move in written["moves"] if move["moved"]]
    assert moved["figure"] == "map"
    assert moved["after"] == pytest.approx(moved["before"] - 0.01)


def test_a_run_does_not_differ_from_itself(run, earlier):
    folder, _ = earlier
    result = run("bench", "quality", *SMALL, "--results", folder, "--against", folder)
    assert "0 of 6 figures moved" in result.output
    assert "Compare with care" not in result.output


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--part", "all"), "part"),
        (("--bits", "12"), "multiple of 8"),
        (("--seeds", "one"), "integers"),
        (("--data", "nothing"), "unknown data set 'nothing'"),
        (("--against", "/no/such/folder"), "holds no record of quality"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, tmp_path, arguments, part):
    result = run("bench", "quality", *arguments, "--results", tmp_path)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert "Traceback" not in result.stderr
