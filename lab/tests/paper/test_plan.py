"""The plan of the paper: every item has its cells, every cell has one task and its seeds."""

import pytest

from supquant.errors import InputError
from supquant_lab.grid import CellsTask, SweepTask
from supquant_lab.methods import METHODS
from supquant_lab.paper.plan import DATASETS, FIT_SECONDS, ITEMS, MANY_ANCHORS, paper_tasks, quick_tasks

UNPLANNED = {"cosine", "probabilities"}
"""Methods that the plan does not measure."""


def cells_of(tasks):
    return {
        (task.dataset, task.variant or task.method, task.protocol, bits, task.seed)
        for task in tasks
        if isinstance(task, CellsTask) and task.ranking is None and task.variant != MANY_ANCHORS
        for bits in task.bits
    }


@pytest.fixture(scope="module")
def whole():
    return paper_tasks(datasets=DATASETS)


def test_no_file_is_written_by_two_tasks(whole):
    files = [file for task in whole for file in task.outputs()]
    assert len(files) == len(set(files))


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "coco30k"])
def test_all_methods_are_compared_at_all_lengths(whole, dataset):
    cells = cells_of(whole)
    compared = set(METHODS) - {"sq-triplet", "sq-no-transform", "opq"} - UNPLANNED | {"alternating"}
    for method in compared:
        assert {(dataset, method, "paper", bits, 0) for bits in (16, 32, 64, 128)} <= cells
    assert {(dataset, "opq", "paper", bits, 0) for bits in (16, 64)} <= cells


@pytest.mark.parametrize("method", ["sq", "sdh", "cca-itq", "pq", "classifier"])
def test_quick_methods_have_three_seeds_at_all_but_the_longest_code(whole, method):
    cells = cells_of(whole)
    for dataset in ("mnist", "cifar10", "coco30k"):
        assert {seed for *which, seed in cells if which == [dataset, method, "paper", 64]} == {0, 1, 2}
        assert {seed for *which, seed in cells if which == [dataset, method, "paper", 128]} == {0}


def test_slow_methods_have_one_seed(whole):
    for _, method, _, _, seed in cells_of(whole):
        if method in ("ksh", "bre", "mlh", "fasthash", "cq", "alternating", "sq-triplet"):
            assert seed == 0


def test_several_labels_end_the_published_solver_sooner(whole):
    for task in whole:
        several = task.dataset.startswith("coco30k") and getattr(task, "method", "") == "sq"
        told = several and getattr(task, "ranking", None) != "label" and not getattr(task, "variant", "")
        told = told and getattr(task, "folder", "cells") == "cells"
        assert (dict(getattr(task, "parameters", {})).get("tol") == 0.3) == told, task.name


def test_every_item_has_tasks(whole):
    together = {file for item in ITEMS for task in paper_tasks([item], DATASETS) for file in task.outputs()}
    assert together == {file for task in whole for file in task.outputs()}
    for item in ITEMS:
        assert paper_tasks([item], DATASETS), item


def test_convergence_is_of_a_fit_that_ends_by_itself():
    joint, alternating = paper_tasks(["convergence"], DATASETS)
    assert joint.outputs() == ["curves/coco30k-paper-sq-euclidean-16bits-seed0.json"]
    assert joint.parameters == {}
    assert joint.name not in {task.name for task in paper_tasks(["map"], DATASETS)}
    assert alternating.outputs() == ["cells/coco30k-paper-sq-alternating-euclidean-16bits-seed0.json"]


def test_triplets_and_transforms_are_where_the_paper_has_numbers():
    cells = cells_of(paper_tasks(["triplet", "transform"], DATASETS))
    assert cells == {
        (dataset, method, "paper", bits, 0)
        for dataset in ("mnist", "cifar10")
        for method in ("sq-triplet", "sq-no-transform")
        for bits in (16, 32, 64, 128)
    }


def test_unseen_classes_are_measured_on_data_sets_with_one_label():
    assert {dataset for dataset, *_ in cells_of(paper_tasks(["unseen"], DATASETS))} == {"mnist", "cifar10"}


def test_ours_with_the_label_ranking_is_compared_with_a_classifier_on_as_many_anchors(whole):
    def lengths_and_seeds(dataset, protocol, **changes):
        return {
            (bits, task.seed)
            for task in whole
            if isinstance(task, CellsTask) and (task.dataset, task.protocol) == (dataset, protocol)
            if all(getattr(task, name) == value for name, value in changes.items())
            for bits in task.bits
        }

    all_of_them = {(bits, seed) for bits in (16, 64) for seed in (0, 1, 2)}
    for dataset in DATASETS:
        protocols = ["paper", "unlabelled"] + ["unseen"] * (dataset in ("mnist", "cifar10"))
        for protocol in protocols:
            ours = {"method": "sq", "ranking": "label", "anchors": None, "variant": ""}
            assert lengths_and_seeds(dataset, protocol, **ours) == all_of_them
            for method in ["classifier"] + ["classifier-scores"] * (protocol != "paper"):
                compared = {"method": method, "anchors": 4000}
                assert lengths_and_seeds(dataset, protocol, **compared) == all_of_them


def test_on_imagenet_only_sdh_has_the_kernel_and_cq_follows_pca():
    plan = paper_tasks(["map"], ["imagenet"])
    by_meaning = [task for task in plan if task.ranking == "label"]
    assert {task.anchors for task in by_meaning} == {None}  # the library's own features
    tasks = {task.method: task for task in plan if not task.variant and task not in by_meaning}
    assert (tasks["sq"].anchors, tasks["sdh"].anchors) == (0, 1000)
    assert tasks["cq"].parameters == {"n_components": 256}
    assert "sdh-linear" in tasks


STAND_IN = "tinyimagenet-1500"


def test_the_stand_in_of_imagenet_has_all_methods_and_three_seeds_of_ours_alone():
    plan = paper_tasks(datasets=[STAND_IN])
    assert {task.protocol for task in plan} == {"paper"}
    cells = cells_of(plan)
    compared = set(METHODS) - {"sq-triplet", "sq-no-transform", "opq"} - UNPLANNED | {"alternating"}
    assert {method for _, method, *_ in cells} == compared | {"opq"}
    for method in compared:
        assert {(STAND_IN, method, "paper", bits, 0) for bits in (16, 32, 64, 128)} <= cells
    assert {method for _, method, _, _, seed in cells if seed} == {"sq"}
    by_meaning = {(bits, task.seed) for task in plan if task.ranking == "label" for bits in task.bits}
    assert by_meaning == {(bits, seed) for bits in (16, 64) for seed in (0, 1, 2)}
    compared = [
        (task.method, task.anchors, task.bits, task.seed) for task in plan if task.variant == MANY_ANCHORS
    ]
    assert compared == [("classifier", 4000, (16, 64), 0)]


def test_the_stand_in_of_imagenet_has_its_features_but_no_pca():
    plan = paper_tasks(["map"], [STAND_IN])
    assert {task.anchors for task in plan if task.ranking == "label"} == {None}
    published = [task for task in plan if task.ranking != "label" and task.variant != MANY_ANCHORS]
    assert {task.method for task in published if task.anchors == 1000} == {"sdh", "ksh"}
    assert {task.anchors for task in published if task.method not in ("sdh", "ksh")} == {0}
    assert all(task.parameters == {} for task in published if not task.variant)


def test_large_data_sets_are_planned_if_their_files_are_there(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path))
    assert not [task for task in paper_tasks() if task.dataset == "imagenet"]
    (tmp_path / "imagenet").mkdir()
    assert {task.dataset for task in paper_tasks()} == {*DATASETS, "imagenet"}
    (tmp_path / "tinyimagenet_effnet.npz").touch()
    assert {task.dataset for task in paper_tasks()} == {*DATASETS, "imagenet", STAND_IN}


def test_every_task_has_an_expected_time(whole):
    assert all(task.expected_seconds > 0 for task in (*whole, *quick_tasks()))
    assert set(METHODS) <= set(FIT_SECONDS)


def test_the_small_version_has_tasks_of_every_item():
    tasks = quick_tasks()
    assert {task.dataset for task in tasks} == {"digits"}
    assert {protocol for _, _, protocol, _, _ in cells_of(tasks)} == {"paper", "unlabelled", "unseen"}
    assert {"alternating", *METHODS} - UNPLANNED == {method for _, method, *_ in cells_of(tasks)}
    assert any(isinstance(task, SweepTask) for task in tasks)


def test_unknown_items_are_refused():
    with pytest.raises(InputError, match="there is no item 'table-9'"):
        paper_tasks(["table-9"])
