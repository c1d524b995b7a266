import json
import sys

import numpy as np
import pytest

QUICK = ("--rows", 600, "--anchors", 60, "--max-iter", 1)


def test_one_cell_is_written_as_one_object(run, tmp_path):
    result = run("experiment", "--method", "pq", *QUICK, "--seed", 1, "--json", tmp_path / "cell.json")
    assert result.exit_code == 0, result.output
    cell = json.loads((tmp_path / "cell.json").read_text())
    assert (cell["dataset"], cell["method"], cell["bits"], cell["seed"]) == ("digits", "pq", 16, 1)
    for field in ("map", "recall_at_10", "recall_within_class"):
        assert f"{cell[field]:.4f}" in result.output


def test_several_lengths_are_written_to_a_folder_and_make_a_table(run, tmp_path):
    for seed in (0, 1):
        result = run("experiment", "--bits", "16,32", *QUICK, "--seed", seed, "--out-dir", tmp_path / "cells")
        assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "cells").iterdir())
    assert names[0] == "digits-paper-sq-euclidean-16bits-seed0.json"
    assert len(names) == 4
    table = run("results", tmp_path / "cells", "--markdown").output
    assert "| digits, 540 rows | paper, euclidean | sq, joint, 60 anchors | 0, 1 | ." in table
    assert "16 bits" in run("results", tmp_path / "cells", "--value", "fit_seconds").output


def test_the_best_point_of_a_tuning_file_is_used(run, tmp_path):
    points = tmp_path / "points.json"
    points.write_text(
        json.dumps(
            {
                "fingerprint": "",
                "points": [
                    {"parameters": {"constraint_weight": 0.2}, "map": 0.5, "fit_seconds": 1},
                    {"parameters": {"constraint_weight": 0.3}, "map": 0.4, "fit_seconds": 1},
                ],
            }
        )
    )
    result = run("experiment", *QUICK, "--tuning", points, "--json", tmp_path / "cell.json")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "cell.json").read_text())["parameters"]["constraint_weight"] == 0.2


def test_parameters_of_the_estimator_are_set_by_name(run, tmp_path):
    arguments = ("--method", "classifier-bits", "--rows", 300, "--set", "ridge=0.5", "--kernel-for-all")
    result = run("experiment", *arguments, "--anchors", 60, "--out-dir", tmp_path)
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.iterdir()
    assert file.name == "digits-paper-classifier-bits-hamming-16bits-seed0.json"
    parameters = json.loads(file.read_text())["parameters"]
    assert (parameters["ridge"], parameters["features"]) == (0.5, "kernel")


def test_rows_without_labels_can_be_given_to_the_fit(run, tmp_path):
    for chosen in ((), ("--fit-rows", "labelled")):
        arguments = ("--method", "pq", "--protocol", "open", "--rows", 900, *chosen)
        result = run("experiment", *arguments, "--out-dir", tmp_path)
        assert result.exit_code == 0, result.output
    cells = {path.name: json.loads(path.read_text())["parameters"] for path in tmp_path.iterdir()}
    assert {name: parameters["fit_rows"] for name, parameters in cells.items()} == {
        "digits-open-pq-euclidean-16bits-seed0.json": "all",
        "digits-open-pq-fit-labelled-euclidean-16bits-seed0.json": "labelled",
    }
    table = run("results", tmp_path, "--markdown").output
    assert "| pq, fit_rows=all | 0 |" in table
    assert "| pq, fit_rows=labelled | 0 |" in table


def test_known_and_new_classes_are_printed_separately(run, tmp_path):
    arguments = ("--method", "pq", "--protocol", "open", "--rows", 900, "--out-dir", tmp_path)
    output = run("experiment", *arguments).output
    (path,) = tmp_path.iterdir()
    cell = json.loads(path.read_text())
    for header in ("known", "new", "harmonic"):
        assert header in output
    for field in ("map", "map_known", "map_new", "map_known_only", "map_new_only"):
        assert f"{cell[field]:.4f}" in output
    shown = [f"{cell[field]:.4f}".removeprefix("0") for field in ("map", "map_known", "map_new")]
    assert " | ".join(shown) in run("results", tmp_path, "--markdown").output


def test_any_npz_file_is_a_data_set(run, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "train.npz", X=X[:500], y=y[:500])
    result = run(
        "experiment",
        "--dataset",
        tmp_path / "train.npz",
        "--method",
        "euclidean",
        "--json",
        tmp_path / "c.json",
    )
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "c.json").read_text())["map"] > 0.5


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--dataset", "imagenette"), "unknown data set"),
        (("--dataset", "nowhere.npz"), "no such file"),
        (("--bits", "16;32"), "integers"),
        (("--bits", "20"), "multiple of 8"),
        (("--set", "ridge"), "name=value"),
        (("--set", "ridge=1"), "has no parameter 'ridge'"),
        (("--method", "pq", "--solver", "joint"), "has no parameter 'solver'"),
        (("--method", "lsh"), "method"),
        (("--protocol", "transductive"), "protocol"),
        (("--fit-rows", "some"), "fit_rows"),
        (("--ranking", "x"), "ranking"),
        (("--rows", "5000"), "1797 rows"),
        (("--rows", "200"), "256"),
        (("--queries", "5000"), "n_queries"),
        (("--tuning", "nowhere.json"), "no such file"),
        (("--json", "/no/such/folder/x.json"), "there is no folder"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_line(run, arguments, part):
    result = run("experiment", *arguments)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_missing_data_say_how_to_get_them(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path))
    result = run("experiment", "--dataset", "cifar10")
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr
    assert "GIST" in result.stderr


def test_results_of_an_empty_folder_are_refused(run, tmp_path):
    result = run("results", tmp_path)
    assert result.exit_code == 2
    assert "holds no cell" in result.stderr


def test_bench_prints_the_ratio_with_machine_and_quality(run, tmp_path, monkeypatch):
    machine = {"processor": "a processor", "cores": 2, "instruction_set": "neon"}
    record = {
        "dataset": "digits",
        "rows": 9,
        "features": 3,
        "bits": 16,
        "fit_seconds": 2.0,
        "n_iter": 4,
        "map": 0.9,
    }
    record |= {"product_seconds": 0.1, "ratio": 20.0, "ratio_limit": 40.0, "memory": [], "machine": machine}
    record["default_fits"] = {
        "banking77": {
            "rows": 8,
            "bits": 64,
            "fit_seconds": 3.0,
            "map_labelled": 0.75,
            "map_unlabelled": None,
            "regressions": [{"tolerance": 1e-6, "seconds": 1.5, "iterations": 7, "ratio": 2.0}],
            "ratio": 2.0,
            "ratio_limit": 2.0,
        }
    }
    monkeypatch.setattr("supquant_lab.cli.bench_fits.bench_fit", lambda **_: record)
    result = run("bench", "fit", "--json", tmp_path / "fit.json")
    assert result.exit_code == 0, result.output
    for part in ("20.0", "neon", "MAP 0.9000", "7 iterations", "--labels 1000"):
        assert part in result.output
    assert json.loads((tmp_path / "fit.json").read_text()) == record


@pytest.mark.parametrize("which", ["encode", "search"])
def test_bench_without_faiss_names_the_package(run, monkeypatch, which):
    monkeypatch.setitem(sys.modules, "faiss", None)
    result = run("bench", which, "--quick")
    assert result.exit_code == 2
    assert "faiss" in result.stderr


def test_cells_are_folded_into_one_file_per_data_set(run, tmp_path):
    arguments = ("--method", "euclidean", "--bits", "16,32", "--rows", 300, "--out-dir", tmp_path / "cells")
    assert run("experiment", *arguments).exit_code == 0
    table = run("results", tmp_path, "--markdown").output
    result = run("results", tmp_path, "--fold")
    assert result.exit_code == 0, result.output
    assert "digits.jsonl.xz: 2 cells moved into it" in result.output
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["digits.jsonl.xz"]
    assert run("results", tmp_path, "--markdown").output == table
    assert run("results", tmp_path / "nowhere", "--fold").exit_code == 2
