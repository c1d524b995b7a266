import json

import numpy as np
import pytest

from supquant import AnchorKernel
from supquant.errors import InputError
from supquant.evaluation import PenaltySelection, select_penalties

SETTINGS = {
    "quantization_weights": [1e-5, 1e-3],
    "constraint_weights": [0.1, 1.0],
    "max_rows": 300,
    "n_codewords": 16,
    "max_iter": 1,
    "random_state": 0,
}


def test_best_pair_of_the_grid_is_chosen(digits):
    events = []
    found = select_penalties(*digits, features=AnchorKernel(50), callback=events.append, **SETTINGS)
    grid, rows, columns = found.grid()
    assert (rows, columns) == ([1e-5, 1e-3], [0.1, 1.0])
    best = np.unravel_index(grid.argmax(), grid.shape)
    assert (found.quantization_weight, found.constraint_weight) == (rows[best[0]], columns[best[1]])
    assert [event.step for event in events] == [1, 2, 3, 4]
    assert sorted(event.values["map"] for event in events) == sorted(grid.ravel())


def test_finished_points_are_not_fitted_again(digits, tmp_path):
    file = tmp_path / "grid.json"

    def stop_after_two(event):
        if event.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select_penalties(*digits, features=None, resume=file, callback=stop_after_two, **SETTINGS)
    before = json.loads(file.read_text())["points"]
    found = select_penalties(*digits, features=None, resume=file, **SETTINGS)
    after = json.loads(file.read_text())["points"]
    assert 2 <= len(before) < 4
    assert after[: len(before)] == before  # seconds too: they were taken over
    assert {point.map for point in found.points} == {point["map"] for point in after}
    assert PenaltySelection.load(file).quantization_weight == found.quantization_weight


def test_points_of_other_settings_are_not_mixed(digits, tmp_path):
    file = tmp_path / "grid.json"
    select_penalties(*digits, features=None, resume=file, **SETTINGS)
    with pytest.raises(InputError, match="other data or settings"):
        select_penalties(*digits, features=None, resume=file, **SETTINGS | {"max_iter": 2})
    with pytest.raises(InputError, match="other data or settings"):
        select_penalties(*digits, features=None, resume=file, **SETTINGS | {"random_state": 1})


@pytest.mark.parametrize(
    "content", ["", "[]", '{"points": []}', '{"fingerprint": "", "points": [{"map": 1}]}']
)
def test_foreign_file_of_points_is_refused(digits, tmp_path, content):
    file = tmp_path / "grid.json"
    file.write_text(content)
    with pytest.raises(InputError, match="is not a file of penalty grid points"):
        select_penalties(*digits, features=None, resume=file, **SETTINGS)


def test_several_labels_a_row_are_accepted(digits):
    X, y = digits
    indicator = np.stack([y % 2 == 0, y > 4, y == 3], axis=1).astype(int)
    indicator[indicator.sum(axis=1) == 0, 0] = 1
    found = select_penalties(X, indicator, features=None, **SETTINGS | {"constraint_weights": [0.1]})
    assert len(found.points) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quantization_weights": []}, "at least one value"),
        ({"quantization_weights": [0.0]}, "quantization_weights"),
        ({"n_validation": 301}, "n_validation"),
        ({"max_rows": 1}, "max_rows"),
    ],
)
def test_impossible_settings_are_refused(digits, wrong, message):
    with pytest.raises(InputError, match=message):
        select_penalties(*digits, features=None, **SETTINGS | wrong)
