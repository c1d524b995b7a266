import json
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from supquant import InputError
from supquant_lab.bench import WrongAnswersError, timing
from supquant_lab.bench.search import bench_search, figures, plot_search, run
from supquant_lab.bench.search.codes import (
    Cell,
    CodeSource,
    Stock,
    asked_cells,
    check_sums,
    grid_cells,
    uniform,
)
from supquant_lab.bench.search.figures import opening_figures, ratios, speed_figures
from supquant_lab.bench.search.sides import (
    ADDITIVE,
    BINARY,
    FAST_SCAN,
    OURS,
    OURS_HAMMING,
    PQ,
    our_sides,
    their_sides,
)

faiss = pytest.importorskip("faiss")


def make_small(monkeypatch):
    """Take few rows, few repeats, and the digits in place of MNIST."""
    monkeypatch.setattr(timing, "TURN_SECONDS", 1e-6)
    monkeypatch.setattr(run, "QUICK_ROWS", 300)
    monkeypatch.setattr(run, "OPENED_ROWS", 50_000)
    monkeypatch.setattr(figures, "BITS", (16,))
    monkeypatch.setenv("SUPQUANT_DATA", "/no/such/folder")
    monkeypatch.setattr("supquant_lab.datasets.mnist._packaged_file", lambda: None)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture(scope="module")
def data():
    return uniform(Stock("uniform", 1000, 32))


def cell(**changes):
    return replace(Cell("uniform", 1000, 32, queries=64, k=10, threads=1), **changes)


# cells --------------------------------------------------------------------------------------------------------------------


def test_the_grid_has_every_combination_once():
    cells = grid_cells()
    assert len(set(cells)) == len(cells)
    assert len({each for each in cells if each.threads == 1}) == 3 * 4 * 2 * 3 * 2
    assert {each.rows for each in cells} == {100_000, 1_000_000, 10_000_000}


def test_every_figure_with_a_limit_has_its_cells():
    figures = speed_figures(
        {
            each: {
                "sides": [
                    {"name": name, "tables_to_answers": {"seconds": 1.0}}
                    for name in (OURS, PQ, ADDITIVE, FAST_SCAN)
                ]
            }
            for each in asked_cells()
        }
    )
    names = [figure.name for figure in figures]
    assert len(names) == 9
    assert "IndexPQFastScan over ours: uniform codes, 64 bits, 64 queries" in names
    assert not any(figure.reached for figure in figures if figure.asked != "at least 1")


# codes and sides ---------------------------------------------------------------------------------------------------------


def test_trained_codes_repeat_and_are_reproducible():
    stock = Stock("trained", 5000, 16)
    one, two = CodeSource(quick=True).make(stock), CodeSource(quick=True).make(stock)
    np.testing.assert_array_equal(one.codes, two.codes)
    assert one.codes.shape == (5000, 2)
    assert one.about["model_distinct_codes"] < 100
    assert len(one.queries) == 64


def test_longer_trained_codes_start_from_shorter_ones():
    source = CodeSource(quick=True)
    source.make(Stock("trained", 10, 32))
    assert source._model(32)[0].init is source._model(16)[0]


def test_every_side_answers_both_ways(data):
    sides = [*our_sides(data), *their_sides(faiss, data)]
    assert [side.name for side in sides] == [OURS, OURS_HAMMING, PQ, FAST_SCAN, ADDITIVE, BINARY]
    for side in sides:
        for ask in side.ways.values():
            scores, ids = ask(64, 7, 1)
            assert scores.shape == ids.shape == (64, 7)
            assert ((ids >= 0) & (ids < 1000)).all(), side.name


def test_sides_that_answer_the_same_question_agree(data):
    answers = {
        side.name: side.from_tables(64, 7, 1) for side in (*our_sides(data), *their_sides(faiss, data))
    }
    np.testing.assert_allclose(-answers[ADDITIVE][0], answers[OURS][0], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(answers[BINARY][0], answers[OURS_HAMMING][0])


# checks ------------------------------------------------------------------------------------------------------------------


def test_right_answers_pass_and_wrong_ones_do_not(data):
    side = our_sides(data)[0]
    sums, rows = side.index.search_tables(side.tables, 9)
    check_sums("case", side.tables, data.codes, sums, rows)
    for broken in (rows[:, ::-1], np.where(rows == rows[3, 2], 5, rows), (rows + 1) % 1000):
        with pytest.raises(WrongAnswersError, match="case: query"):
            check_sums("case", side.tables, data.codes, sums, broken)
    with pytest.raises(WrongAnswersError, match="float32"):
        check_sums("case", side.tables, data.codes, np.nextafter(sums, np.float32(np.inf)), rows)


def test_float64_may_reorder_only_what_float32_cannot_distinguish():
    tables = np.zeros((1, 2, 256), dtype=np.float32)
    tables[0, 0, :2] = 2**24
    tables[0, 1, 0] = 1  # 2**24 + 1 is 2**24 in float32
    codes = np.array([[0, 0], [1, 1]], dtype=np.uint8)
    check_sums("close", tables, codes, np.full((1, 2), 2**24, np.float32), np.array([[0, 1]]))


def test_a_wrong_answer_ends_the_run_and_names_the_case(data, monkeypatch):
    sides = our_sides(data)
    honest = type(sides[0].index).search_tables
    monkeypatch.setattr(
        type(sides[0].index),
        "search_tables",
        lambda *args, **kw: tuple(a[:, ::-1] for a in honest(*args, **kw)),
    )
    with pytest.raises(WrongAnswersError, match="supquant, uniform codes, 32 bits, 1,000 rows"):
        run.measure_stock(faiss, data, [cell()])


def test_answers_that_change_with_threads_or_from_queries_are_caught(data, monkeypatch):
    index = type(our_sides(data)[0].index)
    honest = index.search
    monkeypatch.setattr(index, "search", lambda *args, **kw: tuple(a[:, ::-1] for a in honest(*args, **kw)))
    with pytest.raises(WrongAnswersError, match="query_to_answers gives other answers"):
        run.measure_stock(faiss, data, [cell()])


# times -------------------------------------------------------------------------------------------------------------------


def test_calls_are_timed_in_turn():
    order = []
    spent = timing.time_in_turn({name: lambda name=name: order.append(name) for name in "ab"}, repeats=3)
    assert "".join(name for name, _ in groupby(order)) == "ab" * 4  # once before the clock starts
    assert spent["a"].repeats == 3
    assert spent["a"].best_seconds <= spent["a"].seconds


def test_a_spent_budget_ends_the_repeats():
    assert timing.time_in_turn({"a": lambda: None}, repeats=50, budget=0)["a"].repeats == 1


def test_a_cell_has_the_times_of_every_side(data):
    (result,) = run.measure_stock(faiss, data, [cell(queries=1)], repeats=2).values()
    assert {side["name"] for side in result["sides"]} == {OURS, OURS_HAMMING, PQ, FAST_SCAN, ADDITIVE, BINARY}
    for side in result["sides"]:
        assert side["million_sums_per_second"] == pytest.approx(1e-3 / side["tables_to_answers"]["seconds"])
        assert side["query_to_answers"]["repeats"] == 2
    assert ratios(result)[PQ] == pytest.approx(
        result["sides"][2]["tables_to_answers"]["seconds"]
        / result["sides"][0]["tables_to_answers"]["seconds"]
    )


# all of it ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One record of a few rows, as text."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        return json.dumps(bench_search(quick=True, folder=tmp_path_factory.mktemp("opened")))


@pytest.fixture
def record(measured):
    return json.loads(measured)


def test_the_record_has_all_figures_and_can_be_drawn(record, tmp_path):
    for figure in record["figures"]:
        assert {"name", "asked", "measured", "instruction_set", "reached"} <= set(figure)
    names = " | ".join(figure["name"] for figure in record["figures"])
    parts = ("IndexPQ over", "IndexPQFastScan over", "1% mask", "prepared", "one thread over two")
    for part in (*parts, "plain scan", "memory over", "opening"):
        assert part in names
    assert len(record["cells"]) == 10
    assert record["cells"][-1]["grouped"]
    plot_search(record, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_continues_from_the_cells_of_an_earlier_record(record, monkeypatch):
    seen = []
    monkeypatch.setattr(run, "_pieces", lambda *_: [])
    result = record["cells"].pop()
    record["cells"][0]["sides"][0]["million_sums_per_second"] = -1.0

    def measure(_, data, cells, **timing):
        seen.extend(cells)
        return dict.fromkeys(cells, result)

    monkeypatch.setattr(run, "measure_stock", measure)
    again = bench_search(quick=True, resume=record)
    assert [(each.source, each.queries) for each in seen] == [("trained", 64)]
    assert again["cells"][0]["sides"][0]["million_sums_per_second"] == -1.0
    assert len(again["cells"]) == 10


def test_a_record_of_another_machine_is_refused(record):
    record["machine"]["processor"] = "another one"
    for foreign in (record, {}, []):
        with pytest.raises(InputError, match="elsewhere"):
            bench_search(quick=True, resume=foreign)


def test_the_record_is_passed_on_while_it_grows(monkeypatch):
    monkeypatch.setattr(run, "_pieces", lambda *_: [])
    sizes = []
    bench_search(quick=True, on_record=lambda record: sizes.append(len(record["cells"])))
    assert sizes == [2, 4, 6, 8, 10, 10]


def test_files_made_for_the_opening_are_removed(tmp_path):
    folder = tmp_path / "not there yet"
    speed, memory = opening_figures(20_000, folder=folder)
    assert speed.measured > 0
    assert memory.measured < 20
    assert folder.is_dir()
    assert not list(folder.iterdir())
