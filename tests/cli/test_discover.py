"""`supquant discover` shows classes that nobody has labelled. Named in its table, they become classes of a model or an index."""

import csv
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from supquant import CodeIndex, load_model
from supquant.cli import app

KNOWN = 6
"""Classes 6 and 7 are never labelled."""


def command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(KNOWN + 2), 120))
    X = rng.normal(size=(KNOWN + 2, 24))[y] + rng.normal(0, 0.35, (len(y), 24))
    return X.astype(np.float32), y, (y < KNOWN) & (np.arange(len(y)) % 2 == 0)


@pytest.fixture(scope="module")
def discovered(rows, tmp_path_factory):
    """Items in a file, and the model, the page and the table that the command makes of them."""
    X, y, labelled = rows
    folder = tmp_path_factory.mktemp("discover")
    columns = {
        "id": [f"item-{row}" for row in range(len(X))],
        "embedding": pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1]),
        "label": [f"class {label}" if known else None for label, known in zip(y, labelled, strict=True)],
        "words": [f"a <b>text</b> of class {label}, row {row}" for row, label in enumerate(y)],
    }
    pq.write_table(pa.table(columns), folder / "items.parquet")
    np.save(folder / "items.npy", X)
    done = command(
        *("discover", folder / "items.parquet", "--labels", "label", "--bits", 32, "--jobs", 1),
        *("--save", folder / "items.model", "-o", folder / "found.html", "-o", folder / "found.csv"),
    )
    assert done.exit_code == 0, done.output
    (folder / "output.txt").write_text(done.stdout)
    return folder


@pytest.fixture
def here(discovered, tmp_path, monkeypatch):
    """A copy of these files, which is the current folder."""
    shutil.copytree(discovered, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def name_groups(path, y):
    """Fill in the column `label` of a table, as a person would who looks at the first item of each group."""
    lines = read(path)
    names = {}
    for line in lines:
        names.setdefault(line["group"], f"class {y[int(line['id'].removeprefix('item-'))]}")
        line["label"] = names[line["group"]]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def test_table_has_the_items_of_each_group_without_a_name(rows, discovered):
    _, y, labelled = rows
    lines = read(discovered / "found.csv")
    assert list(lines[0]) == ["id", "group", "label", "agreement", "novelty", "text"]
    by_group = {}
    for line in lines:
        row = int(line["id"].removeprefix("item-"))
        assert line["label"] == ""
        assert line["text"] == f"a <b>text</b> of class {y[row]}, row {row}"
        assert not labelled[row]
        assert 0 < float(line["agreement"]) <= 1
        assert 0.5 <= float(line["novelty"]) <= 1
        by_group.setdefault(line["group"], []).append(y[row])
    assert sorted(set(each) for each in by_group.values()) == [{KNOWN}, {KNOWN + 1}]
    assert len(lines) > 220


def test_output_lists_the_groups_and_the_next_command(rows, discovered):
    lines = (discovered / "output.txt").read_text().splitlines()
    assert lines[0].endswith(f"of {np.sum(~rows[2])} items belong to 2 found classes")
    assert lines[2].split()[0] == "0"
    assert "class " in lines[2]
    assert lines[-1].endswith(
        f"supquant extend {discovered / 'items.model'} {discovered / 'found.csv'} --vectors {discovered / 'items.parquet'}"
    )


def test_named_groups_become_classes_of_a_model(rows, here):
    X, y, _ = rows
    name_groups(here / "found.csv", y)
    assert command("extend", "items.model", "found.csv", "--vectors", "items.parquet").exit_code == 0
    predicted = load_model("items.model").predict(X[y >= KNOWN])
    assert np.mean(predicted == [f"class {label}" for label in y[y >= KNOWN]]) > 0.95


@pytest.mark.parametrize("rows_from", [["--vectors", "items.parquet"], ["--by-id"]])
def test_items_of_an_index_are_found_under_the_new_names_and_keep_their_codes(rows, here, rows_from):
    X, y, _ = rows
    assert command("index", "items.model", "items.parquet", "-o", "items.index").exit_code == 0
    before = {path.name: path.read_bytes() for path in here.glob("items.index/codes-*")}
    result = command("discover", "items.parquet", "items.index", "-o", "found.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].endswith("supquant extend items.index found.csv --by-id")
    name_groups(here / "found.csv", y)
    result = command("extend", "items.index", "found.csv", *rows_from)
    assert result.exit_code == 0, result.output
    index = CodeIndex.load("items.index")
    assert {path.name: path.read_bytes() for path in here.glob("items.index/codes-*")} == before != {}
    assert index.codec.classes.tolist()[KNOWN:] == ["class 6", "class 7"]
    queries = np.flatnonzero(y == KNOWN)[:20]
    ids = index.search(X[queries], 50)[1]
    found = y[[int(each.removeprefix("item-")) for each in ids.ravel()]]
    assert np.mean(found == KNOWN) > 0.9


def test_names_are_given_in_the_command_and_ids_may_be_row_numbers(rows, here):
    X, y, _ = rows
    result = command(
        *("discover", "items.npy", "items.model", "-o", "named.csv", "-o", "named.html"),
        *("--name", "0 = one", "--name", "1=other"),
    )
    assert result.exit_code == 0, result.output
    assert "Now: supquant extend items.model named.csv --vectors items.npy" in result.stdout
    assert 'value="other"' in (here / "named.html").read_text()
    assert {(line["group"], line["label"]) for line in read(here / "named.csv")} == {
        ("0", "one"),
        ("1", "other"),
    }
    result = command("extend", "items.model", "named.csv", "--vectors", "items.npy", "-o", "wider.model")
    assert result.exit_code == 0, result.output
    predicted = load_model("wider.model").predict(X[y == KNOWN])
    assert set(predicted[:50]) <= {"one", "other"}


def test_page_shows_groups_and_writes_their_names(discovered, browse):
    seen = browse(discovered / "found.html")
    assert seen.console == []
    assert seen.dom.count("<article ") == 2
    assert "a &lt;b&gt;text&lt;/b&gt; of class 6" in seen.dom
    assert "No group is named yet." in seen.dom
    assert "labels.csv --vectors" in seen.dom


def test_a_name_on_the_page_becomes_lines_of_its_table(discovered, browse, tmp_path):
    page = (discovered / "found.html").read_text(encoding="utf-8")
    fill = """<script>
fields[1].value = 'refund, "late"'; fields[1].dispatchEvent(new Event("input"))
document.body.append(Object.assign(document.createElement("pre"), {textContent: table()}))
</script></body>"""
    (tmp_path / "filled.html").write_text(page.replace("</body>", fill), encoding="utf-8")
    seen = browse(tmp_path / "filled.html")
    members = [line["id"] for line in read(discovered / "found.csv") if line["group"] == "1"]
    assert f'{members[0]},1,"refund, ""late"""' in seen.dom
    assert f"1 of 2 groups named: {len(members)} items get a label." in seen.dom
    assert seen.console == []


def test_items_of_known_classes_alone_give_an_empty_page(rows, here):
    X, y, _ = rows
    np.save("known.npy", X[y < 2][:40])
    result = command("discover", "known.npy", "items.model", "-o", "none.html", "-o", "none.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "0 of 40 items belong to 0 found classes"
    assert "Nothing was found" in (here / "none.html").read_text()
    assert (here / "none.csv").read_text().splitlines() == ["id,group,label,agreement,novelty"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["items.npy", "items.model", "-o", "found.pdf"], "ends in .html or .csv"),
        (["items.npy", "items.model", "--name", "first=one"], "such as 3=refund"),
        (
            ["items.npy", "items.model", "--name", "7=one"],
            "there is no group 7; the groups with items are [0, 1]",
        ),
        (["items.npy", "items.model", "--save", "other.model"], "--save writes the model that is fitted"),
        (["items.npy", "none.model"], "none.model"),
        (["none.npy", "items.model"], "no such file"),
        (["items.npy", "pq.model"], "models of the method sq alone"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(here, rows, arguments, problem):
    if "pq.model" in arguments:
        assert (
            command("fit", "items.parquet", "--labels", "label", "--method", "pq", "-o", "pq.model").exit_code
            == 0
        )
    result = command("discover", *arguments)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())
    assert result.stderr.splitlines()[-1].startswith("Error: ")
