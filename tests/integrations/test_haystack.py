"""Haystack's own tests of document stores, and a pipeline that retrieves by codes."""

from dataclasses import replace

import numpy as np
import pytest

standard = pytest.importorskip("haystack.testing.document_store", reason="haystack-ai is not installed")

from haystack import Document, Pipeline
from haystack.document_stores.types import DuplicatePolicy

from supquant import CodeIndex, ProductQuantizer, SupervisedQuantizer
from supquant.integrations.haystack import SupquantDocumentStore, SupquantRetriever

DIMENSIONS = 768


class FilledStore(SupquantDocumentStore):
    """Gives an embedding to the documents of Haystack's tests that have none."""

    def write_documents(self, documents, policy=DuplicatePolicy.NONE):
        zeros = [0.0] * DIMENSIONS
        filled = [
            replace(each, embedding=each.embedding or zeros) if isinstance(each, Document) else each
            for each in documents
        ]
        return super().write_documents(filled, policy)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "empty.index"
    X = np.random.default_rng(0).normal(size=(300, DIMENSIONS))
    CodeIndex(ProductQuantizer(2, n_codewords=4, max_iter=1, random_state=0).fit(X)).save(folder)
    return str(folder)


class TestStandard(standard.DocumentStoreBaseTests):
    @pytest.fixture
    def document_store(self, empty):
        return FilledStore(empty)

    @staticmethod
    def assert_documents_are_equal(received, expected):
        assert received == [replace(each, embedding=None) for each in expected]

    def test_write_documents(self, document_store):
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(standard.DuplicateDocumentError, match="test|" + document.id):
            document_store.write_documents([document])


@pytest.fixture(scope="module")
def store(questions, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("stores") / "questions.index")
    CodeIndex(SupervisedQuantizer(4, random_state=0).fit(questions.X, questions.intents)).save(folder)
    store = SupquantDocumentStore(folder, label="intent")
    fields = zip(questions.ids, questions.texts, questions.X, questions.intents, strict=True)
    store.write_documents(
        [
            Document(id=name, content=text, embedding=x.tolist(), meta={"intent": y})
            for name, text, x, y in fields
        ]
    )
    store.index.save(folder)
    return store


def test_a_pipeline_retrieves_the_answers_of_the_index(store, questions):
    pipeline = Pipeline()
    pipeline.add_component("retriever", SupquantRetriever(store, top_k=5))
    ours = [SupquantRetriever.__module__]
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=ours)  # opens the folder again
    for vector in questions.Q:
        scores, ids = store.index.search(vector, k=5)
        for each in (pipeline, again):
            found = each.run({"retriever": {"query_embedding": vector.tolist()}})["retriever"]["documents"]
            assert [document.id for document in found] == ids.tolist()
            assert [document.score for document in found] == scores.tolist()
            assert [document.content for document in found] == [
                questions.texts[questions.ids.index(name)] for name in ids
            ]


def test_a_filter_chooses_documents(store, questions):
    condition = {"field": "meta.intent", "operator": "==", "value": "age_limit"}
    found = SupquantRetriever(store, top_k=500).run(questions.Q[0].tolist(), filters=condition)["documents"]
    assert {document.meta["intent"] for document in found} == {"age_limit"}
    assert len(found) == questions.intents.count("age_limit")


def test_labels_of_documents_are_stored(store, questions):
    expected = CodeIndex(store.index.codec).add(questions.X, questions.intents, ids=questions.ids)
    assert (store.index.codes(questions.ids) == expected.codes(questions.ids)).all()
