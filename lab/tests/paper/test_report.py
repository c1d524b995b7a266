"""The numbers of the page are those of the result files: they are read from the page and compared."""

import json
import re
from html.parser import HTMLParser
from statistics import mean

import pytest

from supquant_lab.paper import render_report
from supquant_lab.paper.published import published_map
from supquant_lab.paper.tables import write

DECIMALS = {
    "query_ms": 3,
    "index_bytes_per_item": 0,
    "distinct_codes": 0,
    "fit_seconds": 1,
    "cell_seconds": 1,
}
"""Number of printed decimals by field; MAP and precision have four."""


SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Page(HTMLParser):
    """Collects table cells with their attributes and text, ids, and texts of a kind."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.entries, self.ids, self.sources, self.open, self.text = [], [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.ids += [named["id"]] if "id" in named else []
        self.sources += [named[name] for name in ("src", "href") if named.get(name)]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td":
            self.entries.append([{k.removeprefix("data-"): v for k, v in named.items()}, ""])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text += data
        if self.open[-1:] and "td" in self.open and "small" not in self.open:
            self.entries[-1][1] += data


@pytest.fixture(scope="module")
def page(rendered):
    return Page(rendered.page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cells(results_folder):
    return {path.stem: json.loads(path.read_text()) for path in (results_folder / "cells").glob("*.json")}


def look_up(cell, field):
    for name in field.split("/"):
        cell = cell[name]
    return cell


def test_every_number_on_the_page_is_that_of_the_result_files(page, cells):
    checked = set()
    for data, text in page.entries:
        if "cells" not in data or data["figure"].startswith("convergence"):
            continue
        values = [look_up(cells[name], data["figure"]) for name in json.loads(data["cells"])]
        assert float(data["value"]) == mean(values)
        decimals = DECIMALS.get(data["figure"].split("/")[0], 4)
        printed = f"{mean(values):,.{decimals}f}"
        assert text.strip().removesuffix("†") == (printed.removeprefix("0") if decimals == 4 else printed)
        for name in json.loads(data["cells"]):
            for field in ("dataset", "method", "bits", "protocol", "ranking"):
                assert data[field] == str(cells[name][field])
        if "spread" in data:
            assert float(data["spread"]) == (max(values) - min(values)) / 2
        checked.add(data["figure"])
    assert {
        "map",
        "map_learned",
        "map_encoded",
        "query_ms/total",
        "distinct_codes",
        "precision_at/10",
    } <= checked


def test_every_map_of_every_cell_is_on_the_page(page, cells):
    shown = {
        (figure, name)
        for data, _ in page.entries
        if "cells" in data
        for figure in [data["figure"]]
        for name in json.loads(data["cells"])
    }
    for name, cell in cells.items():
        for figure in ("map", "map_learned", "map_encoded"):
            assert cell[figure] is None or (figure, name) in shown


def test_best_code_of_a_column_is_marked(made, tmp_path):
    values = {"sq": 0.5, "sdh": 0.7, "classifier-scores": 0.9}
    cells = [made.cell("mnist", method, map_encoded=value) for method, value in values.items()]
    report = render_report(made.folder(tmp_path / "few", cells), tmp_path / "out")
    encoded = [
        data
        for data, _ in Page(report.page.read_text(encoding="utf-8")).entries
        if data.get("figure") == "map_encoded"
    ]
    assert [data["method"] for data in encoded if data.get("class") == "best"] == [
        "sdh"
    ]  # scores are not codes


def test_paper_numbers_are_shown_next_to_ours(page):
    found = [(data, text) for data, text in page.entries if data.get("class") == "published"]
    assert found
    for data, text in found:
        number = published_map(data["dataset"], data["method"], int(data["bits"]))
        assert float(data["published"]) == number.value
        assert text.strip() == write(number.value) + ("*" if number.derived else "")
    assert "not published as a number" in page.text


def test_paper_numbers_next_to_a_stand_in_are_marked_as_other_data(made, tmp_path):
    cells = [made.cell(name, map=0.7) for name in ("mnist", "tinyimagenet-1500")]
    cells += [made.cell("tinyimagenet-1500", "sdh")]
    report = render_report(made.folder(tmp_path / "few", cells), tmp_path / "out")
    page, index = (path.read_text(encoding="utf-8") for path in (report.page, report.index))
    shown = [(data, text.strip()) for data, text in Page(page).entries if "published" in data]
    assert [text for data, text in shown if data.get("dataset") == "imagenet"] == [".5039‡"] * 2
    assert [text for data, text in shown if data.get("dataset") == "mnist"] == [".9329"] * 2
    tables = {path.stem: path.read_text(encoding="utf-8") for path in report.tables}
    other = "This is other data: the two numbers cannot be compared directly."
    marked = {name for name, text in tables.items() if "‡" in text}
    assert marked == {"beside-paper", "map-tinyimagenet-1500-paper"}
    for name in marked:
        assert "\n‡ The paper's number is that of ImageNet: 1,000 classes" in tables[name]
        assert other in tables[name]
    assert "in the paper, ImageNet‡: 16 bits" in tables["map-tinyimagenet-1500-paper"]
    assert report.headline.with_paper == "sq reaches MAP .7000 where the paper has .9329 (MNIST, 16 bits)."
    for text in (page, index):
        assert "On other data, Tiny-ImageNet (R = 1,500), sq reaches MAP .7000 at 16 bits" in text
        assert other in text.partition(".5039)")[2].split("\n")[0]


def test_sweep_and_convergence_numbers_are_those_of_their_files(page, results_folder, cells):
    sweeps = [json.loads(path.read_text()) for path in (results_folder / "sweeps").glob("*.json")]
    points = {
        (sweep["dataset"], *map(repr, point["parameters"].values())): point["map"]
        for sweep in sweeps
        for point in sweep["points"]
    }
    shown = {
        (data["dataset"], data["gamma"], data["mu"]): float(data["value"])
        for data, _ in page.entries
        if data.get("figure") == "sweep"
    }
    assert shown == points
    last = [data for data, _ in page.entries if data.get("figure") == "convergence/last"]
    assert len(last) == 2
    for data in last:
        assert float(data["value"]) == cells[json.loads(data["cells"])[0]]["convergence"][-1][1]
    for told in ("30%", "0.1%"):
        assert page.text.count(f"lowers the objective by less than {told}") == 1


def test_odd_names_are_text_and_not_markup(page, rendered):
    assert "a & b <c>.npz" in page.text
    assert "no <rows> & no labels" in page.text
    assert "cat & <dog>" in page.text
    assert (rendered.page.parent / "figures" / "map-a-b-c-npz-paper-learned.svg").is_file()


def test_truncated_failed_and_missing_cells_are_reported(page):
    assert "† A fit of this number stopped at the time limit." in page.text
    assert any(text.strip().endswith("†") for _, text in page.entries)
    assert "stopped at the time limit: bre" in page.text
    assert (
        "supquant experiment --dataset 'a & b <c>.npz' --method sdh --bits 16 --protocol paper" in page.text
    )


def test_times_of_two_machines_are_not_mixed(page):
    timed = [data for data, _ in page.entries if data.get("figure") == "query_ms/total"]
    assert {"sq", "cq", "sdh"} == {data["method"] for data in timed}
    assert "32" not in {
        data["bits"] for data in timed
    }  # the only cell of that length is from the other machine


def test_times_are_shown_with_codes_of_one_kind(made, tmp_path):
    cells = [made.cell("mnist", method, map_learned=0.75, map_encoded=0.25) for method in ("sq", "sdh")]
    report = render_report(made.folder(tmp_path / "few", cells), tmp_path / "out")
    timed = (report.page.parent / "tables" / "query-time-mnist.md").read_text(encoding="utf-8")
    assert timed.count("| .7500 | .2500 |") == 2
    names = {path.stem for path in report.figures}
    assert {"time-mnist-learned", "time-mnist-encoded"} <= names


def test_marks_are_explained_below_every_table_that_has_them(rendered):
    tables = {path.stem: path.read_text(encoding="utf-8") for path in rendered.tables}
    marked = {name for name, text in tables.items() if re.search(r"\d†", text)}
    assert {"map-mnist-paper", "size-mnist"} <= marked
    for name, text in tables.items():
        assert ("† A fit of this number stopped at the time limit." in text) == (name in marked), name


def test_index_page_has_the_sentences_about_items_without_labels(rendered):
    index = rendered.index.read_text(encoding="utf-8")
    assert "### Unlabelled" in index
    after = index.partition("### Unlabelled")[2]
    assert "- Codes made from the vectors alone" in after
    assert "- MNIST, encoded" in after


def test_convergence_mentions_other_fits_and_a_lower_objective_with_a_lower_map(made, tmp_path):
    told = {"convergence": made.curve(4000, 0.5, 0.7), "parameters": {"tol": 0.001}}
    other = {"convergence": made.curve(40, 0.5, 0.7), "parameters": {"solver": "alternating", "tol": 0.001}}
    cells = [made.cell("coco30k", map_learned=0.7, parameters={"tol": 0.3})]
    cells.append(made.cell("coco30k", map_learned=0.6, **other))
    folder = made.folder(tmp_path / "few", cells)
    name, whole = made.cell("coco30k", map_learned=0.7, **told)
    (folder / "curves").mkdir()
    (folder / "curves" / f"{name}.json").write_text(json.dumps(whole))
    index = render_report(folder, tmp_path / "out").index.read_text(encoding="utf-8")
    assert "by less than 0.1%; its fit in the tables of MAP, by less than 30%." in index
    assert "`alternating` ends with the lower objective, `joint` with the higher MAP." in index


def test_times_are_of_one_split(page):
    timed = [data for data, _ in page.entries if data.get("figure", "").startswith("query_ms/")]
    assert timed
    assert {data["seeds"] for data in timed} == {"0"}


def test_the_page_needs_no_other_file(page, rendered):
    assert all(source.startswith(("data:", "#")) for source in page.sources)
    text = rendered.page.read_text(encoding="utf-8")
    assert not re.search(r"<script\s", text)  # no script comes from elsewhere, and none asks for anything
    assert not re.search(r"fetch|import|XMLHttpRequest|https?://|\.src\b", "".join(SCRIPT.findall(text)))
    assert "@import" not in text
    assert len(page.ids) == len(set(page.ids))
    assert not page.open


def test_contents_lead_to_sections(page):
    targets = [source.removeprefix("#") for source in page.sources if source.startswith("#")]
    assert {"map", "time", "triplet", "transform", "penalties", "convergence", "without-labels"} <= set(
        targets
    )
    assert set(targets) <= set(page.ids)


def test_same_files_give_the_same_bytes(made, tmp_path):
    cells = [made.cell("mnist", method) for method in ("sq", "sdh", "classifier")]
    folder = made.folder(
        tmp_path / "few", cells, sweeps=[made.sweep("mnist")], samples=[made.samples("mnist")]
    )
    one, other = (render_report(folder, tmp_path / name) for name in ("one", "other"))
    for path in (one.page, one.index, *one.figures, *one.tables):
        assert (tmp_path / "other" / path.relative_to(tmp_path / "one")).read_bytes() == path.read_bytes()
    assert one.headline == other.headline


def test_index_page_names_the_long_tables_of_cells_and_links_to_others(rendered):
    index = rendered.index.read_text(encoding="utf-8")
    names = {path.stem for path in rendered.tables}
    long = {name for name in names if name.startswith("cells-")}
    assert long
    linked = set(re.findall(r"\]\(tables/([^)]*)\.md\)", index))
    assert {"machines", "splits", "size-mnist"} <= linked <= names - long
    assert all(f"`tables/{name}.md`" in index for name in long)


def test_figures_and_tables_are_files_too(rendered):
    assert {path.suffix for path in rendered.figures} == {".svg"}
    assert all(path.is_file() for path in (*rendered.figures, *rendered.tables))
    assert {"machines", "splits"} <= {path.stem for path in rendered.tables}
    for path in rendered.tables:
        text = path.read_text(encoding="utf-8")
        widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1


def test_index_page_shows_the_headline_and_pictures_that_are_there(rendered):
    text = rendered.index.read_text(encoding="utf-8")
    assert all(sentence in text for sentence in rendered.headline.lead)
    pictures = [part.split('"')[0] for part in text.split('src="')[1:]]
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert pictures
    for path in (*pictures, *links):
        assert (rendered.index.parent / path).is_file()


def test_empty_folder_makes_a_report_that_says_what_to_run(tmp_path, made):
    report = render_report(made.folder(tmp_path / "none", {}), tmp_path / "out")
    text = Page(report.page.read_text(encoding="utf-8")).text
    assert text.count("Not measured yet.") >= 8
    assert "supquant paper --only penalties" in text
    assert report.headline.lead == ("There is nothing to compare yet.",)
