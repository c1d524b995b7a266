import json
from pathlib import Path

import pytest

from supquant.errors import InputError
from supquant_lab.bench.opponents import measure as measuring
from supquant_lab.bench.opponents import run
from supquant_lab.bench.opponents.measure import measure
from supquant_lab.bench.opponents.plan import COMPARED, Cell, plan_cells
from supquant_lab.cell import run_cells
from supquant_lab.cli.opponent_tables import BEGIN, END, compared, rendered, tables
from supquant_lab.datasets import load
from supquant_lab.methods import METHODS, OPPONENTS, Settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "maintainers" / "opponents.md"
ROWS = 1000

# plan


def test_cells_are_planned_by_data_set_and_protocol():
    cells = plan_cells(quick=True)
    assert [cells[0].name, cells[1].name] == [
        "open-banking77-sq-64bits-seed0",
        "open-banking77-pq-64bits-seed0",
    ]
    assert len({cell.name for cell in cells}) == len(cells) == 4 * 4 * 2 * len(COMPARED)
    assert {cell.rows for cell in cells if cell.data == "tinyimagenet"} == {12_000}
    assert {cell.rows for cell in plan_cells(["tinyimagenet", "digits"])} == {36_000, None}
    assert {cell.rows for cell in plan_cells(["tinyimagenet"], rows=500)} == {500}
    assert set(COMPARED) <= {*METHODS, *OPPONENTS}


@pytest.mark.parametrize(
    ("told", "part"), [({"methods": ["sdh"]}, "method"), ({"protocols": ["x"]}, "protocol")]
)
def test_what_cannot_be_planned_is_refused(told, part):
    with pytest.raises(InputError, match=part):
        plan_cells(**told)


# measures


@pytest.mark.parametrize("protocol", ["open", "paper"])
@pytest.mark.parametrize("method", ["label-pq", "sq"])
def test_figures_are_those_of_an_experiment(protocol, method):
    figures, parameters = measure(Cell(protocol, "digits", ROWS, method, 64, 0), n_jobs=1)
    tuned = method == "label-pq"
    (cell,) = run_cells(
        load("digits").sample(ROWS),
        method=method,
        bits=[64],
        protocol=protocol,
        ranking="label",
        settings=Settings(n_jobs=1),
        tuning="validate" if tuned else None,
    )
    assert figures["map"] == pytest.approx(cell.map)
    assert figures.get("map_new") == (pytest.approx(cell.map_new) if protocol == "open" else None)
    assert figures["bytes_per_item"] == cell.index_bytes_per_item == 8
    assert parameters == cell.parameters["tuning"].get("found", {})
    assert (figures["tune_seconds"] > 0) == tuned
    assert figures["encode_us"] > 0


def test_clusters_are_told_the_number_of_all_classes():
    _, parameters = measure(Cell("open", "digits", 400, "semi-kmeans", 64, 0), n_jobs=1)
    assert parameters == {"n_clusters": 10}


def test_methods_that_differ_in_the_store_are_tuned_once(monkeypatch):
    tuned = []
    validated = measuring.validated
    monkeypatch.setattr(measuring, "_LAST_TUNING", {})
    monkeypatch.setattr(measuring, "validated", lambda *told: tuned.append(told[0]) or validated(*told))
    for method, seed in (("linear-head", 0), ("linear-head-pq", 0), ("linear-head", 1)):
        measure(Cell("paper", "digits", 300, method, 16, seed), n_jobs=1)
    assert len(tuned) == 2


# records


@pytest.fixture
def measured(monkeypatch):
    """The names of the cells that were measured, without a fit."""
    names = []

    def note(cell, n_jobs):
        names.append(cell.name)
        return {"map": 0.5 + cell.seed / 10, "bytes_per_item": 8.0}, {"C": 0.1}

    monkeypatch.setattr(run, "measure", note)
    return names


def test_a_run_that_was_stopped_goes_on_where_it_stopped(measured, tmp_path):
    cells = plan_cells(["digits"], ["paper"], ["sq", "pq"])

    def interrupt(number, name):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.run_cells(cells, tmp_path, on_cell=interrupt)
    records = run.run_cells(cells, tmp_path)
    assert measured == [each.name for each in cells]
    assert sorted(map(str, run.read_folder(tmp_path))) == sorted(map(str, records))
    record = json.loads((tmp_path / f"{cells[0].name}.json").read_text())
    assert record["parameters"] == {"C": 0.1}
    assert record["protocol"] == "paper"
    assert {
        "commit",
        "sources",
        "lab_sources",
        "method_sources",
        "machine",
        "threads",
        "load_before",
    } < record.keys()


def test_only_ours_is_measured_again_when_the_default_model_changes(measured, tmp_path, monkeypatch):
    cells = plan_cells(["digits"], ["paper"], ["sq", "pq"], seeds=[0])
    run.run_cells(cells, tmp_path)
    monkeypatch.setattr(run, "OUR_SOURCES", run.OUR_SOURCES[1:])
    run.run_cells(cells, tmp_path)
    assert measured[2:] == ["paper-digits-sq-64bits-seed0"]
    monkeypatch.setattr(run, "LAB_SOURCES", run.LAB_SOURCES[1:])
    run.run_cells(cells, tmp_path)
    assert len(measured) == 5


def test_only_the_method_that_changed_is_measured_again(measured, tmp_path, monkeypatch):
    cells = plan_cells(["digits"], ["paper"], ["pq", "signs", "crovca"], seeds=[0])
    run.run_cells(cells, tmp_path)
    whole = run.definition_fingerprint
    monkeypatch.setattr(
        run,
        "definition_fingerprint",
        lambda root, module, name, within: whole(root, module, name, within) + "x" * (name == "AlignedBits"),
    )
    run.run_cells(cells, tmp_path)
    assert measured[3:] == ["paper-digits-crovca-64bits-seed0"]


def test_methods_have_fingerprints_of_their_own():
    methods = ("pq", "lda-pq", "lda-opq", "crovca")
    assert len({run.fingerprints(method)["method_sources"] for method in methods}) == 4


def test_sources_that_make_a_fingerprint_are_there():
    import supquant
    import supquant_lab

    for package, names in ((supquant, run.OTHER_SOURCES), (supquant_lab, run.LAB_SOURCES)):
        for name in names:
            assert (Path(package.__file__).parent / name).exists(), name


# tables


def record(method, size=8, protocol="paper", seed=0, data="banking77", rows=None, bits=64, **maps):
    times = {"tune_seconds": 3.0, "fit_seconds": 1.25, "encode_us": 20.0}
    return {
        "protocol": protocol,
        "data": data,
        "rows": rows,
        "method": method,
        "seed": seed,
        "bits": bits,
        "figures": {**maps, "bytes_per_item": size, **times},
    }


def test_figures_are_means_and_the_best_of_few_and_of_many_bytes_are_bold():
    text = tables(
        [
            record("sq", map=0.9),
            record("sq", map=0.8, seed=1),
            record("pq", map=0.4),
            record("cosine", 1536, map=0.6),
            record("label-cosine", 1537, map=0.95),
            record("label-cosine", 3137, data="mnist", rows=10_000, map=0.7),
        ]
    )
    rows = {
        line.split("|")[1].strip(): [each.strip() for each in line.split("|")[2:-1]]
        for line in text.splitlines()[6:]
    }
    assert rows == {
        "`sq`": ["8", "**.850**", "-", "3", "1.2", "20"],
        "`pq`": ["8", ".400", "-", "3", "1.2", "20"],
        "`cosine`": ["1,536", ".600", "-", "3", "1.2", "20"],
        "`label-cosine`": ["1,537 to 3,137", "**.950**", "**.700**", "3", "1.2", "20"],
    }
    assert "mnist, 10,000 rows" in text
    assert "Seeds of the splits: 0, 1." in text


def test_known_and_new_classes_have_a_best_of_their_own():
    text = tables(
        [
            record("sq", protocol="open", map=0.7, map_known=0.9, map_new=0.5),
            record("pq", protocol="open", map=0.6, map_known=0.6, map_new=0.6),
            record("sq", map=1.0),
        ]
    )
    assert "| **.900** / .500 |" in text
    assert "| .600 / **.600** |" in text
    assert text.index("(`open`)") < text.index("(`paper`)")
    assert "1.000" in text


def test_code_lengths_have_tables_of_their_own_after_the_usual_one():
    usual, short = (record("sq", bits=bits, map=bits / 100) for bits in (64, 16))
    text = tables([short, usual])
    assert text.index(".640") < text.index(", codes of 2 bytes") < text.index(".160")


def test_a_short_table_names_the_best_others_and_marks_those_that_are_better():
    records = [
        record("sq", protocol="open", map=0.7, map_known=0.9, map_new=0.5),
        record("pq", protocol="open", map=0.6, map_known=0.6, map_new=0.6),
        record("lda-pq", protocol="open", map=0.6, map_known=0.7, map_new=0.5),
        record("cosine", 1536, protocol="open", map=0.6, map_known=0.65, map_new=0.5),
        record("sq", map=0.8),
        record("pq", map=0.8),
        record("sq", bits=16, map=0.1),
        record("pq", bits=16, map=0.2),
        record("pq", protocol="unseen", map=0.2),
    ]
    lines = compared(records).splitlines()[2:]
    rows = [[each.strip() for each in line.split("|")[2:-1]] for line in lines]
    assert compared(records, lost=True).splitlines()[2:] == [lines[1]]
    assert compared(records[4:6], lost=True) == compared(records[6:]) == ""
    assert rows == [
        ["banking77", ".900", "`lda-pq` .700", "`cosine` .650"],
        ["banking77", ".500", "**`pq` .600**", "`cosine` .500"],
        ["banking77", ".800", "`pq` .800", "-"],
    ]


def test_a_page_without_a_place_for_tables_is_refused():
    with pytest.raises(InputError, match="no place"):
        rendered(f"{END} {BEGIN}", [])


def test_the_page_has_the_tables_of_the_records():
    records = run.read_folder(ROOT / "benchmarks" / "results" / "opponents")
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page, records) == page, "run `make figures`"
    assert {each["method"] for each in records} <= set(COMPARED)


def test_the_page_says_what_every_method_is():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in COMPARED if f"`{name}`" not in page.partition(BEGIN)[0]] == []
