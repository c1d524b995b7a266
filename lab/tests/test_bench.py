import json
import sys
from dataclasses import replace

import pytest

from supquant_lab.bench import encode, fit, query
from supquant_lab.bench.data import benchmark_data


@pytest.fixture
def without_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path))
    monkeypatch.setattr("supquant_lab.datasets.mnist._packaged_file", lambda: None)


@pytest.fixture
def few_rows(monkeypatch, without_mnist):
    _, digits = benchmark_data()
    rows = {
        "X": digits.X[:600],
        "y": digits.y[:600],
        "database_labels": digits.database_labels.take(range(600)),
    }
    few = "digits", replace(digits, **rows)
    for module in (encode, fit, query):
        monkeypatch.setattr(module, "benchmark_data", lambda **_: few)
        monkeypatch.setattr(module, "ANCHORS", 50)
    monkeypatch.setattr(encode, "CODEBOOKS", 2)
    monkeypatch.setattr(query, "BITS", 16)


def test_digits_stand_in_for_mnist(without_mnist):
    assert benchmark_data()[0] == "digits"


def test_a_fit_is_reported_as_a_multiple_of_one_product_with_its_map(few_rows):
    record = fit.bench_fit(default_fits=False, memory=False)
    assert record["ratio"] == pytest.approx(record["fit_seconds"] / record["product_seconds"])
    assert record["features"] == 50
    assert record["map"] > 0.7
    assert record["machine"]["instruction_set"]
    json.dumps(record)


def test_default_fits_are_compared_with_other_libraries():
    records = fit.bench_default_fits(quick=True)
    regressions = records["banking77"]["regressions"]
    assert [each["tolerance"] for each in regressions] == [1e-6, 1e-4]
    assert regressions[0]["iterations"] > regressions[1]["iterations"]
    for record in records.values():
        assert record["ratio"] > 0
        assert record["map_labelled"] > 0.5
    json.dumps(records)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.usefixtures("new_python")
def test_memory_is_watched_in_a_fresh_process(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "COLUMNS", 20)
    sizes = []
    (use,) = fit.measure_memory([600], bits=16, max_iter=1, folder=tmp_path, on_rows=sizes.append)
    assert sizes == [600]
    assert 20 < use["peak_anonymous_mb"] < 2000
    assert use["limit_mb"] == pytest.approx(500.012)
    assert not list(tmp_path.iterdir())


def test_encoding_is_compared_with_faiss(few_rows):
    pytest.importorskip("faiss")
    record = encode.bench_encode(quick=True)
    ours, _, theirs = record["sides"]
    assert record["ratio"] == pytest.approx(ours["vectors_per_second"] / theirs["vectors_per_second"])
    assert all(side["relative_error"] > 0 for side in record["sides"])
    json.dumps(record)


def test_queries_are_timed_for_both_rankings_of_each_model(few_rows):
    pytest.importorskip("faiss")
    record = query.bench_query(quick=True)
    assert [model["features"] for model in record["models"]] == ["label kernel", "anchor kernel"]
    for model in record["models"]:
        tables = model["tables_microseconds"]
        other = "position" if model["features"] == "label kernel" else "euclidean"
        assert set(tables) == {"label", other}
        assert model["ratio"] == pytest.approx(tables["label"] / tables[other])
        assert min(model["fit_seconds"], model["features_microseconds"], *tables.values()) > 0
    assert len(record["figures"]) == 6
    assert all(figure["asked"] and figure["measured"] > 0 for figure in record["figures"])
    json.dumps(record)


def test_parquet_files_give_the_codes_of_an_npy_file(tmp_path):
    record = encode.bench_reading(300, 4, rounds=1, folder=tmp_path)
    assert set(record["sides"]) == {"npy", "parquet"}  # equal codes: the benchmark compares them
    assert record["ratio"] > 0
    assert all(0 < side["memory_mb"] < 2000 for side in record["sides"].values())
    assert not list(tmp_path.iterdir())
