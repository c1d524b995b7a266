"""Result files are read as they are, and an error names the file that cannot be right."""

import json

import pytest

from supquant.errors import InputError
from supquant_lab.paper.measurements import convergence_cells
from supquant_lab.paper.results import OURS, Series, read_results


def test_series_are_distinguished_by_their_settings(made, tmp_path):
    cells = [
        made.cell(),
        made.cell(parameters={"solver": "alternating"}),
        made.cell(ranking="label"),
        made.cell("mnist", "sq-no-transform"),
        made.cell("mnist", "sq-no-transform", 32, parameters={"projection": "pca"}),
    ]
    found = read_results(made.folder(tmp_path, cells)).series(dataset="mnist")
    assert [series.label for series in found] == [
        "sq",
        "sq (alternating)",
        "sq (label ranking)",
        "sq-no-transform",
        "sq-no-transform (pca projection)",
    ]
    assert [series for series in found if series.is_ours] == list(OURS)


def test_anchors_are_named_only_where_they_differ_from_most(made, tmp_path):
    few = {"anchors": 200}
    cells = [made.cell(bits=bits, parameters=few) for bits in (16, 32)]
    cells += [made.cell(bits=64, parameters={"anchors": 4000})]
    labels = [series.label for series in read_results(made.folder(tmp_path, cells)).series(dataset="mnist")]
    assert labels == ["sq", "sq (4,000 anchors)"]


def test_anchors_of_the_label_ranking_do_not_make_other_anchors_unusual(made, tmp_path):
    own = {"features": "labels", "anchors": 4000}
    cells = [made.cell(ranking="label", seed=seed, parameters=own) for seed in (0, 1, 2)]
    cells += [made.cell("mnist", "sdh", parameters={"anchors": 1000})]
    labels = [series.label for series in read_results(made.folder(tmp_path, cells)).series(dataset="mnist")]
    assert labels == ["sq (label ranking)", "sdh"]


def test_mean_and_half_range_are_over_the_seeds_that_are_there(made, tmp_path):
    cells = [made.cell(seed=seed, map=value) for seed, value in ((0, 0.5), (2, 0.8))]
    mean = read_results(made.folder(tmp_path, cells)).mean(
        "map", OURS[0], 16, dataset="mnist", protocol="paper"
    )
    assert mean.by_seed == {0: 0.5, 2: 0.8}
    assert (mean.value, mean.half_range) == pytest.approx((0.65, 0.15))


def test_classifier_stands_in_at_lengths_it_was_not_measured_at(made, tmp_path):
    results = read_results(
        made.folder(tmp_path, [made.cell("mnist", "classifier"), made.cell("mnist", "pq")])
    )
    where = {"dataset": "mnist", "protocol": "paper"}
    assert results.mean("map", Series("classifier"), 64, **where).cells[0]["bits"] == 16
    assert results.mean("map", Series("pq"), 64, **where) is None


def test_number_that_a_cell_does_not_have_is_missing(made, tmp_path):
    results = read_results(made.folder(tmp_path, [made.cell("mnist", "euclidean")]))
    assert results.mean("map_learned", Series("euclidean"), 16, dataset="mnist", protocol="paper") is None


def test_curves_go_before_the_comparison_and_are_not_part_of_it(made, tmp_path):
    sooner = made.cell("coco30k", convergence=made.curve(4000, 0.5, 0.7)[:3], parameters={"tol": 0.3})
    slowly = made.cell("coco30k", parameters={"solver": "alternating"}, convergence=made.curve(1, 1, 1))
    folder = made.folder(tmp_path, [sooner, slowly])
    name, whole = made.cell("coco30k", convergence=made.curve(4000, 0.5, 0.7), map=0.125)
    (folder / "curves").mkdir()
    (folder / "curves" / f"{name}.json").write_text(json.dumps(whole))
    results = read_results(folder)
    joint, alternating = convergence_cells(results, "coco30k", 16)
    assert joint.content == whole
    assert joint.name != sooner[0]
    assert alternating.content == slowly[1]
    assert results.mean("map", OURS[0], 16, dataset="coco30k", protocol="paper").value == sooner[1]["map"]


def test_two_files_of_the_same_cell_are_refused_by_name(made, tmp_path):
    name, cell = made.cell()
    folder = made.folder(tmp_path, [(name, cell), ("copy", cell)])
    with pytest.raises(InputError, match=rf"copy and {name} are both sq on mnist"):
        read_results(folder)


@pytest.mark.parametrize(("protocol", "usual"), [("unseen", "labelled"), ("open", "all")])
def test_cells_fitted_to_other_rows_are_another_series(made, tmp_path, protocol, usual):
    other = {"labelled": "all", "all": "labelled"}[usual]
    _, cell = made.cell(protocol=protocol)  # as in older records, which have no `fit_rows`
    _, same = made.cell(protocol=protocol, seed=1, parameters={"fit_rows": usual})
    _, apart = made.cell(protocol=protocol, parameters={"fit_rows": other})
    folder = made.folder(tmp_path, [("a", cell), ("b", same), ("c", apart)])
    series = [cell.series for cell in read_results(folder).cells]
    assert series == [Series("sq"), Series("sq"), Series("sq", fit_rows=other)]
    assert series[2].label == f"sq (fitted to {other} rows)"


def test_damaged_and_foreign_files_are_refused_by_name(made, tmp_path):
    folder = made.folder(tmp_path, [made.cell()])
    broken = folder / "cells" / "half.json"
    broken.write_text('{"map":')
    with pytest.raises(InputError, match=r"half\.json is not a JSON file"):
        read_results(folder)
    broken.write_text('{"map": 0.5}')
    with pytest.raises(InputError, match=r"half\.json should have bits, dataset"):
        read_results(folder)


def test_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        read_results(tmp_path / "nowhere")
