import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.progress import Progress
from supquant_lab.cell import Cell, check_cells, run_cells, time_queries
from supquant_lab.datasets import load
from supquant_lab.methods import METHODS, STEP_NAMES, Settings, Training
from supquant_lab.methods.interface import Watch
from supquant_lab.problem import pose
from supquant_lab.records import read_records
from supquant_lab.time_limit import TimeIsUpError
from supquant_lab.tuning import GridPoint, Tuning

FIELDS = [
    "dataset",
    "method",
    "bits",
    "protocol",
    "ranking",
    "seed",
    "map",
    "map_learned",
    "map_encoded",
    "map_tie_aware",
    "map_learned_tie_aware",
    "map_encoded_tie_aware",
    "cut",
    "precision_at",
    "precision_at_recall",
    "map_known",
    "map_new",
    "map_known_only",
    "map_new_only",
    "recall_at_10",
    "recall_within_class",
    "distinct_codes",
    "quantization_error",
    "fit_seconds",
    "truncated",
    "convergence",
    "query_ms",
    "index_bytes_per_item",
    "peak_memory_mb",
    "calibration",
    "cell_seconds",
    "command",
    "parameters",
    "machine",
]
QUICK = Settings(anchors=100, parameters={"max_iter": 2})
PARAMETERS: dict[str, dict] = {
    "sq": {"max_iter": 2},
    "sq-triplet": {"max_iter": 1},
    "sq-no-transform": {"max_iter": 1},
    "cq": {"max_iter": 1},
    "opq": {"max_iter": 2},
    "ksh": {"max_iter": 20},
    "fasthash": {"n_trees": 10},
    "mlh": {"n_epochs": 1},
    "bre": {"max_iter": 5},
}
"""Parameters that make fits of a few hundred rows fast, by method."""


def quick(method):
    return Settings(anchors=100, parameters=PARAMETERS.get(method, {}))


@pytest.fixture(scope="module")
def data():
    return load("digits").sample(700)


@pytest.fixture(scope="module")
def more_data():
    return load("digits").sample(900)


@pytest.fixture(scope="module")
def several_labels(data):
    y = np.stack([data.y % 2 == 0, data.y > 4, data.y < 3], axis=1).astype(np.uint8)
    y[y.sum(axis=1) == 0, 0] = 1
    return replace(data, y=y)


SOME = ["sq", "pq", "sdh", "classifier-scores"]
"""Methods that store what they learned from labels, what they learned without, bits and numbers."""


@pytest.mark.parametrize(
    ("method", "protocol"),
    [
        *((method, protocol) for method in METHODS for protocol in ("paper", "open")),
        *((method, protocol) for method in SOME for protocol in ("unlabelled", "unseen")),
    ],
)
def test_a_cell_has_the_agreed_fields(data, more_data, method, protocol):
    rows = more_data if protocol == "open" else data  # here fewer rows are training rows
    (cell,) = run_cells(rows, method=method, protocol=protocol, settings=quick(method))
    record = json.loads(json.dumps(cell.to_json()))
    assert sorted(record) == sorted(FIELDS)
    assert sorted(record["query_ms"]) == ["encode", "features", "projection", "scan", "tables", "total"]
    assert record["machine"]["instruction_set"]
    assert 0 < record["map"] <= 1
    assert list(record["precision_at_recall"]) == [f"{level / 20:.2f}" for level in range(1, 21)]
    assert record["cell_seconds"] >= record["fit_seconds"]
    assert not record["truncated"]
    assert 0 < record["recall_at_10"] <= 1
    assert 0 < record["recall_within_class"] <= 1
    learned = protocol == "paper" and method not in ("euclidean", "cosine", "classifier-scores")
    published = METHODS[method].published if learned else "encoded"
    for end in ("", "_tie_aware"):
        assert record["map" + end] == record[f"map_{published}{end}"]
        assert (record["map_learned" + end] is not None) == learned
    for field in ("map_known", "map_new", "map_known_only", "map_new_only"):
        assert (record[field] is not None) == (protocol == "open")


@pytest.mark.parametrize(
    ("method", "protocol"),
    [*((method, "paper") for method in METHODS), *((method, "unlabelled") for method in SOME)],
)
def test_cells_with_several_labels_per_row(several_labels, method, protocol):
    (cell,) = run_cells(several_labels, method=method, protocol=protocol, settings=quick(method))
    assert cell.map > 0.5


@pytest.mark.parametrize(
    ("protocol", "fit_rows", "given"),
    [
        ("paper", "all", "labelled"),
        ("unseen", None, "labelled"),
        ("unseen", "all", "all"),
        ("open", None, "all"),
    ],
)
def test_a_cell_says_which_rows_the_method_was_given(more_data, protocol, fit_rows, given):
    (cell,) = run_cells(more_data, method="pq", protocol=protocol, fit_rows=fit_rows)
    assert cell.parameters["fit_rows"] == given
    assert cell.parameters["n_unlabelled"] == (cell.parameters["n_database"] if given == "all" else 0)


def test_unsupervised_codes_are_better_for_the_rows_that_they_learned_from(more_data):
    errors = [
        next(run_cells(more_data, method="pq", protocol="open", fit_rows=fit_rows)).quantization_error
        for fit_rows in ("all", "labelled")
    ]
    assert errors[0] < 0.9 * errors[1]


def test_only_the_first_items_count_where_the_data_set_says_so(data):
    (whole,) = run_cells(data, method="pq")
    (first,) = run_cells(replace(data, cut=20), method="pq")
    assert (whole.cut, first.cut) == (None, 20)
    assert first.map > whole.map
    assert first.precision_at == whole.precision_at


def plain_average_precision(scores, relevant):
    hits = relevant[np.argsort(scores, kind="stable")]
    return np.mean(np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1))


def test_known_and_new_classes_are_measured_separately(more_data):
    problem = pose(more_data, protocol="open")
    (cell,) = run_cells(more_data, problem=problem, method="euclidean", protocol="open")
    scores = np.square(problem.queries[:, None] - problem.database).sum(axis=2)
    relevant = problem.query_labels.indices[:, None] == problem.database_labels.indices
    every = np.ones(len(problem.database), dtype=bool)
    figures = {}
    for kind, asked, items in (
        ("known", ~problem.new_queries, ~problem.new_items),
        ("new", problem.new_queries, problem.new_items),
    ):
        for end, among in (("", every), ("_only", items)):
            figures[f"map_{kind}{end}"] = np.mean(
                [
                    plain_average_precision(scores[row, among], relevant[row, among])
                    for row in np.flatnonzero(asked)
                ]
            )
    for field, expected in figures.items():
        assert getattr(cell, field) == pytest.approx(expected, abs=1e-4)
    assert len(set(figures.values())) == 4
    assert cell.map == pytest.approx(2 / (1 / cell.map_known + 1 / cell.map_new))
    assert cell.map == cell.map_encoded
    assert cell.map_tie_aware == cell.map_encoded_tie_aware == pytest.approx(cell.map, abs=1e-3)


def test_probabilities_of_known_and_new_classes_are_judged_separately(more_data):
    told = {"settings": Settings(anchors=60, parameters={"max_iter": 1}), "ranking": "label"}
    for protocol, more in (("unseen", set()), ("open", {"error_known", "error_new"})):
        (cell,) = run_cells(more_data, protocol=protocol, **told)
        assert set(cell.calibration) == {"error", "brier", "base_brier"} | more


def plain_recall_within_class(problem, first_of_class):
    """Compare items of the query's class with the ten of greatest cosine; `first_of_class` gives the first ten of them."""
    overlaps = []
    for query, label in zip(problem.queries, problem.query_labels.indices, strict=True):
        same = np.flatnonzero(problem.database_labels.indices == label)
        cosines = problem.database[same] @ query / np.linalg.norm(problem.database[same], axis=1)
        nearest = same[np.argsort(-cosines, kind="stable")[:10]]
        overlaps.append(len(set(nearest) & set(first_of_class(query, same))) / min(10, len(same)))
    return np.mean(overlaps)


def test_recall_within_a_class_is_of_distances_where_items_are_vectors(data):
    problem = pose(data, protocol="unlabelled")

    def nearest(query, same):
        return same[np.linalg.norm(problem.database[same] - query, axis=1).argsort()[:10]]

    (cell,) = run_cells(data, problem=problem, method="euclidean", protocol="unlabelled")
    assert cell.recall_within_class == pytest.approx(plain_recall_within_class(problem, nearest), abs=1e-3)


def test_cosine_finds_all_that_is_near_by_the_angle(data):
    (cell,) = run_cells(data, method="cosine")
    assert (cell.recall_at_10, cell.recall_within_class, cell.ranking) == (1, 1, "cosine")


def test_recall_is_of_the_items_that_map_is_about(data):
    """Labels order nothing within a class, so that its items come in order of insertion; predicted labels do."""
    problem = pose(data)
    expected = plain_recall_within_class(problem, lambda _query, same: same[:10])
    (cell,) = run_cells(data, problem=problem, method="classifier", settings=Settings(anchors=100))
    assert cell.map == cell.map_learned
    assert cell.recall_within_class == pytest.approx(expected, abs=1e-12)


def test_files_without_recalls_are_cells():
    records = read_records(Path(__file__).parents[2] / "docs" / "results" / "cells")
    cells = [Cell(**record.content) for record in records]
    assert any(cell.recall_at_10 is None for cell in cells)
    assert all(0 <= cell.recall_at_10 <= 1 for cell in cells if cell.recall_at_10 is not None)


def test_the_objective_of_every_step_is_recorded(data):
    (cell,) = run_cells(data, settings=QUICK)
    seconds, objectives = zip(*cell.convergence, strict=True)
    assert len(objectives) == cell.parameters["n_iter"] == 2
    assert list(seconds) == sorted(seconds)
    assert objectives[1] <= objectives[0]


def test_a_fit_that_takes_too_long_ends_with_the_model_it_has(data):
    settings = Settings(anchors=100, time_limit=1e-9)
    short, long = run_cells(data, bits=(16, 32), settings=settings)
    assert short.truncated
    assert short.parameters["n_iter"] == 1
    assert long.truncated
    assert 0.2 < short.map <= 1
    (whole,) = run_cells(data, settings=replace(settings, time_limit=3600.0))
    assert not whole.truncated
    assert whole.parameters["n_iter"] > 1


def test_a_longer_code_that_starts_from_one_that_was_cut_short_says_so(data):
    method = METHODS["sq"](Training(data.X, data.y), replace(QUICK, time_limit=1e-9))
    method.fitted(16)
    method.settings = QUICK  # enough time for the longer code
    assert method.fitted(32).truncated


def test_time_is_that_of_the_whole_fit_and_a_last_step_is_never_too_late(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("supquant_lab.methods.interface.time.monotonic", lambda: now[0])
    heard = []
    watch = Watch(limit=10.0, callback=heard.append, began=0.0)

    def step(number, total, elapsed, objective):
        watch(Progress("any", number, total, elapsed, None, {"objective": objective}))

    now[0] = 8.0
    step(1, 2, 8.0, 5.0)
    now[0] = 11.0
    step(2, 2, 11.0, 4.0)  # the end of a stage
    with pytest.raises(TimeIsUpError):
        step(1, 2, 0.5, 3.0)  # a new stage of a fit whose time is over
    assert watch.convergence == [(0.5, 3.0)]
    assert len(heard) == 3


def test_query_time_is_the_median_of_the_least_disturbed_round(monkeypatch, seconds_of_timing):
    now, rounds = [0.0], []
    monkeypatch.setattr("supquant_lab.cell.MAX_SECONDS", seconds_of_timing)
    monkeypatch.setattr("supquant_lab.cell.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def scan(query):
        rounds.append(len(rounds) // 5)
        busy = 0.004 if rounds[-1] in (0, 3) else 0.0  # something else runs in two of the rounds
        now[0] += 0.001 + busy + (0.1 if query[0, 0] == 4 else 0.0)  # and one query is an outlier
        return query

    queries = np.arange(5.0)[:, None]
    spent = time_queries({"features": lambda query: query, "scan": scan}, queries)
    assert spent["scan"] == spent["total"] == pytest.approx(1.0)
    assert len(set(rounds)) == 10  # until the second had passed


def test_lengths_that_make_no_difference_are_measured_once(data, monkeypatch):
    fits = []
    fit = METHODS["classifier"]._fit
    monkeypatch.setattr(METHODS["classifier"], "_fit", lambda self, *of: fits.append(of) or fit(self, *of))
    short, long = run_cells(data, method="classifier", bits=(16, 64), settings=Settings(anchors=50))
    assert len(fits) == 1
    assert (short.bits, long.bits) == (16, 64)
    assert (short.map, short.query_ms) == (long.map, long.query_ms)


def test_lengths_come_in_the_order_asked_for(data):
    lengths = [cell.bits for cell in run_cells(data, method="pq", bits=(32, 8, 16))]
    assert lengths == [32, 8, 16]


def test_a_length_is_the_same_alone_and_in_a_sweep(data):
    (alone,) = run_cells(data, bits=(32,), settings=replace(QUICK, parameters={"max_iter": 1}))
    *_, last = run_cells(data, bits=(16, 32), settings=replace(QUICK, parameters={"max_iter": 1}))
    assert alone.map == last.map
    assert alone.parameters["starts_from_bits"] == 16


def test_seeds_change_the_split_and_repeat(data):
    maps = [next(run_cells(data, method="euclidean", settings=Settings(seed=seed))).map for seed in (0, 0, 1)]
    assert maps[0] == maps[1] != maps[2]


def test_parameters_found_before_are_used(data):
    points = [
        GridPoint({"quantization_weight": weight}, score, 1.5) for weight, score in ((1e-3, 0.9), (1e-4, 0.8))
    ]
    (cell,) = run_cells(data, settings=QUICK, tuning=Tuning(tuple(points)))
    assert cell.parameters["quantization_weight"] == 1e-3
    assert cell.parameters["tuning"] == {"points": 2, "seconds": 3.0, "found": {"quantization_weight": 1e-3}}


def test_parameters_are_validated_on_the_training_rows_with_as_many_queries(data, monkeypatch, tmp_path):
    asked = {}

    def search(estimator, grid, X, y, **settings):
        asked.update(settings, estimator=estimator, grid=grid, shape=X.shape, n_labels=len(y))
        return Tuning((GridPoint({"quantization_weight": 1e-3}, 0.9, 1.0),))

    monkeypatch.setattr("supquant_lab.cell.tune", search)
    (cell,) = run_cells(data, settings=QUICK, tuning="validate", tuning_file=tmp_path / "grid.json")
    assert (asked["shape"], asked["n_labels"], asked["n_validation"]) == ((630, 64), 630, 70)
    assert asked["resume"] == tmp_path / "grid.json"
    assert asked["codes"] == "learned"
    assert len(asked["grid"]["quantization_weight"]) == 10
    assert (asked["estimator"].max_iter, asked["estimator"].features.n_anchors) == (2, 100)
    assert cell.parameters["quantization_weight"] == 1e-3


def test_a_method_without_a_callback_is_tuned_too(data):
    events = []
    settings, tuned = Settings(anchors=50, n_jobs=1), {"tuning": "validate", "tuning_rows": 200}
    (cell,) = run_cells(data, method="classifier", settings=settings, callback=events.append, **tuned)
    assert cell.parameters["tuning"]["points"] == len(METHODS["classifier"].grid["ridge"])
    assert events[-1].step == cell.parameters["tuning"]["points"]


def test_a_method_is_tuned_on_the_codes_that_it_is_published_with(data):
    (cell,) = run_cells(
        data,
        method="classifier-bits",
        settings=Settings(anchors=50, n_jobs=1),
        tuning="validate",
        tuning_rows=300,
    )
    assert cell.parameters["tuning"]["points"] == len(METHODS["classifier-bits"].grid["ridge"])
    assert cell.parameters["ridge"] == cell.parameters["tuning"]["found"]["ridge"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "lsh"}, "method"),
        ({"ranking": "alphabetical"}, "ranking"),
        ({"protocol": "transductive"}, "protocol"),
        ({"fit_rows": "some"}, "fit_rows"),
        ({"bits": (12,)}, "multiple of 8"),
        ({"n_queries": 700}, "n_queries"),
        ({"tuning": "guess"}, "tuning"),
        ({"method": "euclidean", "tuning": "validate"}, "nothing to tune"),
        ({"ranking": "hamming"}, "no ranking"),
    ],
)
def test_impossible_cells_are_refused(data, wrong, message):
    with pytest.raises(InputError, match=message):
        list(run_cells(data, settings=QUICK, **wrong))


def test_sq_ranks_by_position_and_its_forms_without_transform_do_not():
    assert check_cells("sq", [16], "open", "position") == "position"
    with pytest.raises(InputError, match="no ranking 'position'"):
        check_cells("sq-no-transform", [16], "open", "position")


def test_total_is_the_sum_of_the_steps():
    spent = time_queries({"features": lambda x: x, "scan": lambda x: x.sum()}, np.ones((3, 2)))
    assert spent["total"] == pytest.approx(sum(spent[name] for name in STEP_NAMES))
    assert spent["tables"] == 0
