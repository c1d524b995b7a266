"""The Python blocks of README.md and of the pages run, in their order, in an empty folder."""

import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import questions
from typer.testing import CliRunner

import supquant
from supquant.cli import app
from supquant.demo import ASKED

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "results" not in page.parts)]
)


def run_page(name, **names):
    """Run the Python blocks of a page and return their names. Errors name the lines of the page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    names["__name__"] = "page"
    for block in BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], name, "exec"), names)
    return SimpleNamespace(**names)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty current folder, with a stand-in for the encoder of the pages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "sentence_transformers", questions)
    return tmp_path


@pytest.fixture
def few_digits(digits):
    """Names that pages use without making them: training rows, items and queries."""
    X, y = digits
    few = np.flatnonzero(y == 9)[:5]
    known = np.flatnonzero(y < 9)
    return {
        "X": X[known[:600]],
        "y": y[known[:600]],
        "X_items": X[900:1200],
        "y_items": [label if label < 9 else None for label in y[900:1200].tolist()],
        "X_database": X[900:1200],
        "Q": X[1200:1220],
        "X_few": X[few],
        "y_few": y[few],
        "SupervisedQuantizer": supquant.SupervisedQuantizer,
        "CodeIndex": supquant.CodeIndex,
    }


class EncoderOfTheAsked:
    """Has the vectors of the questions that come with the package, in place of the encoder that made them."""

    def __init__(self, name):
        assert name == "all-MiniLM-L6-v2"

    def encode(self, text):
        asked = supquant.open_vectors(ASKED, metadata=["text"])
        return asked.X[asked.metadata["text"].to_pylist().index(text)]


def test_readme_runs_as_it_stands_and_prints_what_it_shows(folder, monkeypatch, capsys):
    monkeypatch.setattr(questions, "SentenceTransformer", EncoderOfTheAsked)
    page = run_page("README.md")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    printed, (shown,) = (
        capsys.readouterr().out,
        re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL),
    )
    for ours, theirs in zip(printed.splitlines(), shown.splitlines(), strict=True):
        (query, score, words), (*_, shown_score, shown_words) = (line.split("  ") for line in (ours, theirs))
        assert abs(float(score) - float(shown_score)) <= 0.02  # a fit rounds differently on other processors
        assert ("limit" in words) == ("limit" in shown_words) == (query == "1")
        first = page.index.search_table(page.asked.X[int(query)], k=5)["text"].to_pylist()
        assert shown_words.strip() in first  # ties and near-ties differ as well, but not by much
    asked = supquant.open_vectors(ASKED, metadata=["text"]).metadata["text"].to_pylist()
    comment = re.search(r'# ("Can.*"), \.\.\.$', text, re.MULTILINE)[1]
    assert re.findall(r'"(.*?)"', comment) == asked[:2]
    known = np.mean([label is not None for label in page.items.labels])
    assert f"{known:.0%} have an intent" in text
    assert len(supquant.CodeIndex.load("questions.index")) == len(page.items)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_tutorial_goes_from_texts_to_a_saved_index(folder):
    questions.make_questions().to_csv("questions.csv", index=False)
    page = run_page("docs/tutorial.md")
    assert page.items.shape == (len(page.questions), questions.DIMENSIONS)
    assert page.sq.n_unlabelled_ == page.questions["intent"].isna().sum() > 0
    texts = page.answers.groupby("query")["text"].agg(" ".join)
    assert texts[0].count(" card") == 3
    assert texts[1].count(" rate") == 3
    assert "q2" not in page.index
    assert page.index.get(["new-1"], ["intent"]).to_pylist() == [{"id": "new-1", "intent": "card_arrival"}]
    assert supquant.load_model("questions.model").codec_.n_codebooks == 8


def commands_of(name):
    """Return the arguments of the commands in each block of a page, without comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = [block.replace("\\\n", "") for block in COMMANDS.findall(text)]
    lines = ([shlex.split(line, comments=True) for line in block.splitlines()] for block in blocks)
    return [[line for line in block if line] for block in lines]


def run_commands(lines):
    for program, *arguments in lines:
        assert program == "supquant"
        endless = arguments[0] == "serve"  # tests/docs/test_serving.py runs it
        done = CliRunner().invoke(app, [*arguments, "--help"] if endless else arguments)
        assert done.exit_code == 0, (arguments, done.output)


def test_page_on_audits_finds_the_label_that_it_changes(folder):
    found = run_page("docs/audit.md").found
    assert (found.suspicious[0].row, found.suspicious[0].suggested) == (7, 7)
    assert (folder / "audit.csv").is_file()


def test_commands_of_the_page_on_audits_write_findings(folder):
    questions.write_items(folder)
    (install, *for_files), for_a_service = commands_of("docs/audit.md")
    assert install[:2] == ["pip", "install"]
    run_commands([*for_files, *for_a_service])
    assert (folder / "audit.html").stat().st_size > 1000
    named, beside = (pq.read_table(each)["row"] for each in ("audit.parquet", "items.index.audit.parquet"))
    assert named.equals(beside)
    assert len(named) > 0


def test_encoder_of_the_page_on_serving_makes_vectors(folder):
    encode = run_page("docs/serving.md").encode
    assert encode(["a red shoe"]).shape == (1, questions.DIMENSIONS)


def test_commands_of_the_page_on_commands_run(folder, digits):
    questions.write_items(folder)
    items = pd.read_parquet("items.parquet")
    items.dropna(subset="intent").to_parquet("questions.parquet")
    Path("vectors").mkdir()
    items.to_parquet("vectors/part-0.parquet")
    items[20:25].to_parquet("changed.parquet")
    items[:5].assign(id=[f"new-{row}" for row in range(5)]).to_parquet("more.parquet")
    new = items[:8].assign(id=[f"grown-{row}" for row in range(8)], intent=["fees", "limits"] * 4)
    new.to_parquet("grown.parquet")
    new.assign(intent="loans").to_parquet("few.parquet")
    Path("named.csv").write_text("id,label\nq7,fees\nq9,fees\n")
    X, y = digits
    np.savez("vectors.npz", X=X[:300], y=y[:300])
    np.save("new.npy", X[300:400])
    np.save("queries.npy", X[400:410])
    with_tables, with_arrays = commands_of("docs/commands.md")
    run_commands(with_tables)
    index = supquant.CodeIndex.load("items.index")
    assert len(index) == len(items) + 5 - 2 + 8
    assert "q17" not in index
    known = supquant.load_model("items.model").classes_.tolist()
    assert index.codec.classes.tolist() == [*known, "fees", "limits", "loans"]
    assert supquant.load_model("wider.model").classes_.tolist() == [*known, "fees"]
    assert pd.read_parquet("answers.parquet")["text"].str.contains("card").all()
    run_commands(with_arrays)
    assert len(Path("answers.csv").read_text().splitlines()) == 1 + 10 * 10


def test_commands_of_the_page_on_the_lab_have_their_options():
    (lines,) = commands_of("docs/maintainers/lab.md")
    for program, command, *arguments in lines:  # they take minutes, so only their options are read
        assert program == "supquant"
        done = CliRunner().invoke(app, [command, *arguments, "--help"])
        assert done.exit_code == 0, done.output


def test_production_page_changes_and_filters_a_saved_index(folder):
    table = questions.make_questions()
    encode = questions.SentenceTransformer("").encode
    X = encode(table["text"].tolist())
    sq = supquant.SupervisedQuantizer(8, random_state=0).fit(X, table["intent"])
    index = supquant.CodeIndex(sq).add(X, ids=table["id"], metadata={"text": table["text"]})
    index.save("questions.index")
    page = run_page("docs/production.md", vectors=encode(["Where is my card?", "Is the rate good?"]))
    assert "q3" in index
    assert "q3" not in page.index
    assert "q1" not in page.ids
    grown = supquant.CodeIndex.load("questions.index")
    assert grown.codec.classes.tolist() == [*index.codec.classes.tolist(), "fees"]
    np.testing.assert_array_equal(grown.codes(["n1"]), grown.codec.encode_items(page.vectors[:1], ["fees"]))
    assert page.ids.shape == (2, 5)


def test_scale_page_fits_encodes_and_searches_with_processes(folder, digits):
    X, y = digits
    (folder / "vectors").mkdir()
    for number in range(2):
        rows = slice(300 * number, 300 * number + 300)
        table = {"label": y[rows], "vector": pa.array(X[rows].tolist(), pa.list_(pa.float32(), 64))}
        pq.write_table(pa.table(table), folder / "vectors" / f"{number}.parquet")
    page = run_page("docs/scale.md")
    assert (y[page.ids[:, 0]] == y[:3]).all()
    assert page.missing == {}
    assert len(list((folder / "codes").glob("*.parquet"))) == 2


def test_searching_page_finds_digits(folder):
    page = run_page("docs/searching.md")
    assert len(page.index) == 700 - 10
    assert (page.y[1000 + page.ids] % 2).all()


def test_ranking_page_adds_a_class(folder, few_digits):
    page = run_page("docs/ranking.md", **few_digits)
    assert 9 in page.sq.classes_
    assert page.ids.shape == (20, 10)


def test_methods_page_searches_bits(folder, few_digits):
    page = run_page("docs/maintainers/methods.md", **few_digits)
    assert len(page.index) == 300
    assert page.index.codec.n_codebooks == 8


def test_every_page_with_python_is_run():
    # by lab/tests/test_own_method.py, tests/gpu/test_page.py and tests/integrations/test_page.py
    run_elsewhere = {"docs/maintainers/own-method.md", "docs/gpu.md", "docs/integrations.md"}
    run_here = set(re.findall(r'run_page\("([^"]+)"', Path(__file__).read_text(encoding="utf-8")))
    with_python = {
        page.relative_to(ROOT).as_posix() for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))
    }
    assert with_python == run_here | run_elsewhere


def test_relative_links_lead_to_files():
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_extras_of_the_first_page_are_those_of_the_package():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_developers = {"docs", "test", "test-integrations"}
    assert sorted(named) == sorted(set(project["optional-dependencies"]) - of_developers)


def test_every_example_has_a_page_in_the_gallery():
    gallery = ROOT / "docs" / "gallery"
    shown = {page.stem for page in gallery.glob("*.md")}
    assert shown - {"index"} == {path.stem for path in (ROOT / "examples").glob("*.py")}
    pictures = set(LINK.findall((gallery / "index.md").read_text(encoding="utf-8")))
    assert {path.name for path in gallery.glob("*.png")} <= pictures


def test_page_on_new_classes_finds_and_names_them(folder):
    page = run_page("docs/discover.md")
    assert np.mean(page.y[page.nines] == 9) > 0.9
    assert set(page.groups[page.nines]) == {0}
    assert 9 in page.sq.classes_


def test_commands_of_the_page_on_new_classes_name_both_groups(folder):
    limits = [
        text.format(word)
        for text in ("What is the {} limit?", "Why is the {} limit so low?", "Can you raise the {} limit?")
        for word in questions.WORDS
    ]
    told = pd.concat([questions.make_questions(), pd.DataFrame({"text": limits})], ignore_index=True)
    table = pd.concat([told] * 3, ignore_index=True)
    rng = np.random.default_rng(0)
    vectors = questions.SentenceTransformer("").encode(table["text"].tolist())
    table["embedding"] = list((vectors + rng.normal(0, 0.03, vectors.shape)).astype(np.float32))
    table["id"] = [f"q{row}" for row in range(len(table))]
    never = table["text"].str.contains("top up|limit")
    table.loc[never | (np.arange(len(table)) % 2 == 0), "intent"] = None
    table.to_parquet("items.parquet")
    (find,), (name, extend), of_an_index = commands_of("docs/discover.md")
    run_commands([find, name])
    assert (folder / "found.html").stat().st_size > 1000
    found = pd.read_csv("found.csv", keep_default_na=False)
    assert found["text"].str.contains("top up|limit").mean() > 0.95
    assert set(found["group"]) == {0, 1}
    assert set(found["label"]) == {""}
    run_commands([extend, *of_an_index])
    assert "fees" in supquant.load_model("items.model").classes_
    assert supquant.CodeIndex.load("items.index").codec.classes.tolist()[-2:] == ["fees", "limits"]
