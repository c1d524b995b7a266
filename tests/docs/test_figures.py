"""Tables of the documents are those that the records make, and the records are of the present code."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from supquant_lab.bench.quality.run import fingerprints

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def load_figures():
    """Return a function that loads the module, each time anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")

        def load():
            spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

        yield load


@pytest.fixture(scope="module")
def figures(load_figures):
    return load_figures()


def test_the_pages_show_the_records_of_the_present_code(figures, capsys):
    assert figures.main("--check") == 0, capsys.readouterr().out


@pytest.fixture(scope="module")
def copied(load_figures, tmp_path_factory):
    """The module, for a copy of pages and records in which everything is new. Tests leave the copy as it was."""
    figures, folder = load_figures(), tmp_path_factory.mktemp("copied")
    records = folder / "records"
    shutil.copytree(figures.RECORDS, records)
    present = fingerprints()
    for path in records.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | present))
    for name in figures.PAGES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    figures.ROOT, figures.RECORDS, figures.PICTURES = folder, records, {}
    assert figures.main() == 0
    assert figures.main("--check") == 0
    return figures


TYPED = {
    "README.md": (" to 14.5<!-- end -->", " to 15.0<!-- end -->"),
    "docs/audit.md": ("| **.", "| **9."),
    "docs/gpu.md": (" million per second |", "0 million per second |"),
    "docs/quality.md": ("| **.", "| **9."),
    "docs/speed.md": ("| 1.8 / 8.5", "| 1.9 / 8.5"),
    "docs/maintainers/audits.md": ("| 100 of 100 |", "| 99 of 100 |"),
    "docs/maintainers/measurements.md": (" microseconds |", "0 microseconds |"),
    "docs/maintainers/comparison.md": ("(.159, 69)", "(.159, 70)"),
}
"""A figure of each page, in a sentence or in a table, and what is typed over it."""


def test_typed_figures_are_found_and_written_over(copied, capsys):
    right = {name: (copied.ROOT / name).read_text() for name in copied.PAGES}
    for name, (figure, typed) in TYPED.items():
        assert figure in right[name], name
        (copied.ROOT / name).write_text(right[name].replace(figure, typed, 1))
    assert copied.main("--check") == 1
    told = capsys.readouterr().out
    assert [name for name in copied.PAGES if f"{name} differs" in told] == [
        name for name in copied.PAGES if name in TYPED
    ]
    copied.main()
    assert {name: (copied.ROOT / name).read_text() for name in copied.PAGES} == right


def test_a_record_of_other_sources_is_named(copied, capsys):
    path = min(copied.RECORDS.glob("open-banking77-64bits*.json"))
    record = path.read_text()
    path.write_text(json.dumps(json.loads(record) | {"sources": "0"}))
    assert copied.main("--check") == 1
    assert "older than the code: open, banking77, 64 bits" in capsys.readouterr().out
    path.write_text(record)


def test_every_table_of_the_pages_has_a_renderer(figures):
    pages = {name: (ROOT / name).read_text() for name in figures.PAGES}
    shown = {match[1] for text in pages.values() for match in figures.BLOCK.finditer(text)}
    assert shown == {*figures.TABLES, *figures.BENCH_TABLES, *figures.PAPER_TABLES}
    told = {match[1] for text in pages.values() for match in figures.FIGURE.finditer(text)}
    assert told == {*figures.FIGURES}
    assert [name for name, text in pages.items() if re.search(r"\n *<!-- figure: ", text)] == []


def test_the_best_figures_of_a_row_are_bold(figures):
    assert figures.best_bold([0.5, 0.71234, None, 0.7124]) == [".500", "**.712**", figures.NONE, "**.712**"]
    assert figures.best_bold([1.0, 0.999], 2) == ["**1.00**", "**1.00**"]
