import json

import pytest

from supquant.errors import InputError
from supquant_lab.table import read_cells, result_table


def cell(**changes):
    base = {
        "dataset": "mnist",
        "protocol": "paper",
        "ranking": "euclidean",
        "method": "sq",
        "bits": 16,
        "seed": 0,
    }
    return (
        base | {"map": 0.9, "parameters": {"solver": "joint", "anchors": 1000, "n_training": 69000}} | changes
    )


def test_figures_are_means_over_seeds():
    table = result_table(
        [cell(), cell(seed=1, map=0.8), cell(bits=32, map=0.7), cell(bits=32, seed=1, map=0.9)]
    )
    assert table.rows == [
        ["mnist, 69,000 rows", "paper, euclidean", "sq, joint, 1000 anchors", "0, 1", ".8500", ".8000"]
    ]


def test_missing_seeds_and_lengths_show():
    table = result_table([cell(), cell(seed=1), cell(bits=32), cell(method="pq", bits=64)])
    assert [row[-3:] for row in table.rows] == [["-", "-", ".9000"], [".9000", ".9000 (1 of 2)", "-"]]


def test_cells_of_different_settings_are_kept_apart():
    other = cell(parameters={"solver": "alternating", "anchors": 1000, "n_training": 69000}, map=0.1)
    assert len(result_table([cell(), other]).rows) == 2


def test_other_values_can_be_shown():
    table = result_table([cell(fit_seconds=123.45), cell(fit_seconds=100.0, seed=1)], "fit_seconds")
    assert table.rows[0][-1] == "111.7"


def test_map_of_the_protocol_open_is_shown_for_known_and_new_classes():
    of_open = cell(protocol="open", map=0.375, map_known=0.75, map_new=0.25)
    table = result_table([of_open, cell(bits=32)])
    assert table.header[-6:] == [
        "16 bits",
        "16 bits, known",
        "16 bits, new",
        "32 bits",
        "32 bits, known",
        "32 bits, new",
    ]
    assert [row[-6:] for row in table.rows] == [
        [".3750", ".7500", ".2500", "-", "-", "-"],
        ["-", "-", "-", ".9000", "-", "-"],
    ]
    assert result_table([of_open], "map_new").header[-1:] == ["16 bits"]


def test_a_missing_value_leaves_its_place_empty():
    table = result_table([cell(), cell(bits=32, recall_at_10=0.25)], "recall_at_10")
    assert table.rows[0][-2:] == ["-", ".2500"]


def test_unknown_value_is_refused():
    with pytest.raises(InputError, match="map_encoded"):
        result_table([cell()], "accuracy")


def test_other_files_in_a_folder_are_ignored(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "one.json").write_text(json.dumps(cell()))
    (tmp_path / "two.json").write_text(json.dumps([cell(bits=32), cell(bits=64)]))
    (tmp_path / "points.json").write_text('{"fingerprint": "x", "points": []}')
    assert sorted(found["bits"] for found in read_cells(tmp_path)) == [16, 32, 64]


def test_folders_without_cells_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no cell"):
        read_cells(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_cells(tmp_path / "nowhere")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json is not a JSON file"):
        read_cells(tmp_path)


def test_cells_with_different_settings_have_their_own_lines():
    cell = {
        "dataset": "digits",
        "protocol": "paper",
        "ranking": "hamming",
        "method": "ksh",
        "bits": 16,
        "seed": 0,
    }
    parameters = {"n_training": 1618, "max_rows": 1000, "ridge": 0.1}
    cells = [
        cell | {"map": 0.5, "parameters": parameters | {"chain_seconds": 1.0}},
        cell | {"map": 0.6, "parameters": parameters | {"max_rows": 5000, "chain_seconds": 2.0}},
        cell | {"map": 0.7, "seed": 1, "parameters": parameters | {"max_rows": 5000, "chain_seconds": 2.0}},
    ]
    rows = result_table(cells).rows
    assert [(row[2], row[3], row[4]) for row in rows] == [
        ("ksh, max_rows=1000", "0", ".5000"),
        ("ksh, max_rows=5000", "0, 1", ".6500"),
    ]
