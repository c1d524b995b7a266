"""LangChain's own tests of vector stores, and what labels, conditions and probabilities add."""

import numpy as np
import pytest

documents = pytest.importorskip("langchain_core.documents", reason="langchain-core is not installed")
standard = pytest.importorskip(
    "langchain_tests.integration_tests.vectorstores", reason="langchain-tests is not installed"
)

from embedded import Lookup

from supquant import CodeIndex, ProductQuantizer
from supquant.errors import InputError
from supquant.integrations.langchain import SupquantVectorStore


class TestStandard(standard.VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        X = np.random.default_rng(0).normal(size=(2000, standard.EMBEDDING_SIZE))
        pq = ProductQuantizer(standard.EMBEDDING_SIZE, random_state=0).fit(X)
        return SupquantVectorStore(CodeIndex(pq), self.get_embeddings())


@pytest.fixture(scope="module")
def store(questions):
    metadatas = [{"intent": intent} for intent in questions.intents]
    return SupquantVectorStore.from_texts(
        questions.texts,
        Lookup(questions),
        metadatas,
        ids=questions.ids,
        label="intent",
        n_codebooks=4,
        random_state=0,
    )


def test_first_answers_are_those_of_the_index(store, questions):
    for text, vector in zip(questions.asked, questions.Q, strict=True):
        _, ids = store.index.search(vector, k=5)
        assert [document.id for document in store.similarity_search(text, k=5)] == ids.tolist()


def test_a_condition_chooses_documents(store, questions):
    found = store.similarity_search(questions.asked[0], k=5, filter="metadata->>'intent' = 'age_limit'")
    assert [document.metadata for document in found] == [{"intent": "age_limit"}] * 5


def test_retriever_keeps_probable_answers(store, questions):
    options = {"score_threshold": 0.9, "k": 20}
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs=options)
    scores, ids = store.index.search(questions.Q, k=20)
    assert 0 < (scores >= 0.9).sum() < scores.size
    for text, row, names in zip(questions.asked, scores, ids, strict=True):
        assert [document.id for document in retriever.invoke(text)] == names[row >= 0.9].tolist()


def test_documents_of_unknown_labels_are_found_too(store, questions):
    new = documents.Document(page_content=questions.asked[0], metadata={"intent": "never heard of"}, id="new")
    store.add_documents([new])
    try:
        assert new in store.similarity_search(questions.asked[0], k=1000)
        assert store.get_by_ids(["new", "not there"]) == [new]
    finally:
        store.delete(["new"])


def test_texts_without_any_label_are_refused_in_words(questions):
    with pytest.raises(InputError, match="no labelled row"):
        SupquantVectorStore.from_texts(questions.texts, Lookup(questions), label="intent")
