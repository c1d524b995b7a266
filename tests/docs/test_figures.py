"""Tables of the documents are those that the records make, and the records are of the present code."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from supquant_lab.bench.quality.run import fingerprints

ROOT = Path(__file__).parents[2]


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_show_the_records_of_the_present_code(figures, capsys):
    assert figures.main("--check") == 0, capsys.readouterr().out


@pytest.fixture
def copied(figures, tmp_path, monkeypatch):
    """The module, for a copy of pages and records in which everything is new."""
    records = tmp_path / "records"
    shutil.copytree(figures.RECORDS, records)
    present = fingerprints()
    for path in records.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | present))
    for name in figures.PAGES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "RECORDS", records)
    monkeypatch.setattr(figures, "PICTURES", {})
    assert figures.main() == 0
    assert figures.main("--check") == 0
    return figures


@pytest.mark.parametrize(
    ("name", "figure", "typed"),
    [
        ("quality.md", "| **.", "| **9."),
        ("speed.md", "| 1.8 / 8.5", "| 1.9 / 8.5"),
        ("maintainers/measurements.md", " microseconds |", "0 microseconds |"),
        ("maintainers/comparison.md", "(.159, 69)", "(.159, 70)"),
    ],
)
def test_a_typed_figure_is_found_and_written_over(copied, capsys, name, figure, typed):
    page = copied.ROOT / "docs" / name
    right = page.read_text()
    page.write_text(right.replace(figure, typed, 1))
    assert copied.main("--check") == 1
    assert f"docs/{name} differs" in capsys.readouterr().out
    copied.main()
    assert page.read_text() == right


def test_a_record_of_other_sources_is_named(copied, capsys):
    path = min(copied.RECORDS.glob("open-banking77-64bits*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sources": "0"}))
    assert copied.main("--check") == 1
    assert "older than the code: open, banking77, 64 bits" in capsys.readouterr().out


def test_every_table_of_the_pages_has_a_renderer(copied):
    shown = {match[1] for name in copied.PAGES for match in copied.BLOCK.finditer((ROOT / name).read_text())}
    assert shown == {*copied.TABLES, *copied.BENCH_TABLES, *copied.PAPER_TABLES}
    told = {match[1] for name in copied.PAGES for match in copied.FIGURE.finditer((ROOT / name).read_text())}
    assert told == {*copied.FIGURES}
    assert [name for name in copied.PAGES if re.search(r"\n *<!-- figure: ", (ROOT / name).read_text())] == []


def test_a_typed_figure_in_a_sentence_is_written_over(copied):
    page = copied.ROOT / "README.md"
    right = page.read_text()
    page.write_text(right.replace(" to 14.5<!-- end -->", " to 15.0<!-- end -->"))
    assert page.read_text() != right
    copied.main()
    assert page.read_text() == right


def test_the_best_figures_of_a_row_are_bold(figures):
    assert figures.best_bold([0.5, 0.71234, None, 0.7124]) == [".500", "**.712**", figures.NONE, "**.712**"]
    assert figures.best_bold([1.0, 0.999], 2) == ["**1.00**", "**1.00**"]
