"""LlamaIndex over codes: its own index and retriever ask our store."""

import pytest

schema = pytest.importorskip("llama_index.core.schema", reason="llama-index-core is not installed")

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from supquant import CodeIndex, SupervisedQuantizer
from supquant.integrations.llama_index import SupquantVectorStore


@pytest.fixture(scope="module")
def model(questions):
    return SupervisedQuantizer(4, random_state=0).fit(questions.X, questions.intents)


@pytest.fixture
def nodes(questions):
    return [
        schema.TextNode(
            id_=name,
            text=text,
            embedding=vector.tolist(),
            metadata={"intent": intent, "length": len(text)},
            relationships={
                schema.NodeRelationship.SOURCE: schema.RelatedNodeInfo(node_id=f"page {row // 100}")
            },
        )
        for row, (name, text, vector, intent) in enumerate(
            zip(questions.ids, questions.texts, questions.X, questions.intents, strict=True)
        )
    ]


@pytest.fixture
def store(model, nodes):
    store = SupquantVectorStore(index=CodeIndex(model), label="intent")
    assert store.add(nodes) == [node.node_id for node in nodes]
    return store


def test_a_query_has_the_answers_of_the_index(store, questions):
    for vector in questions.Q:
        found = store.query(VectorStoreQuery(query_embedding=vector.tolist(), similarity_top_k=5))
        scores, ids = store.index.search(vector, k=5)
        assert found.ids == ids.tolist() == [node.node_id for node in found.nodes]
        assert found.similarities == scores.tolist()
        assert [node.text for node in found.nodes] == [
            questions.texts[questions.ids.index(name)] for name in ids
        ]


def test_labels_of_nodes_are_stored(store, questions, model):
    expected = CodeIndex(model).add(questions.X, questions.intents, ids=questions.ids)
    assert (store.index.codes(questions.ids) == expected.codes(questions.ids)).all()


def test_filters_choose_nodes(store, questions):
    short = MetadataFilters(filters=[MetadataFilter(key="length", operator=FilterOperator.LT, value=25)])
    query = VectorStoreQuery(query_embedding=questions.Q[0].tolist(), similarity_top_k=2000, filters=short)
    shorter = [name for name, text in zip(questions.ids, questions.texts, strict=True) if len(text) < 25]
    assert sorted(store.query(query).ids) == sorted(shorter)
    assert [node.node_id for node in store.get_nodes(shorter[:3])] == shorter[:3]
    query.node_ids = shorter[:2] + questions.ids[:1]
    assert set(store.query(query).ids) <= set(query.node_ids)


def test_nodes_go_with_their_document_and_by_id(store, questions):
    store.delete("page 3")
    assert list(store.index.ids) == questions.ids[:300] + questions.ids[400:]
    store.delete_nodes(questions.ids[:2])
    assert list(store.index.ids) == questions.ids[2:300] + questions.ids[400:]
    store.clear()
    assert len(store.index) == 0
    assert store.get_nodes() == []


def test_an_index_of_llama_index_retrieves_through_the_store(store, questions):
    class Known(MockEmbedding):
        def _get_query_embedding(self, query):
            return questions.Q[questions.asked.index(query)].tolist()

    index = VectorStoreIndex.from_vector_store(store, embed_model=Known(embed_dim=384))
    found = index.as_retriever(similarity_top_k=3).retrieve(questions.asked[1])
    _, ids = store.index.search(questions.Q[1], k=3)
    assert [each.node.node_id for each in found] == ids.tolist()


def test_a_saved_index_is_the_same_store(store, questions, tmp_path):
    store.index.save(tmp_path / "store.index")
    again = SupquantVectorStore(index=CodeIndex.load(tmp_path / "store.index"), label="intent")
    query = VectorStoreQuery(query_embedding=questions.Q[2].tolist(), similarity_top_k=4)
    assert again.query(query) == store.query(query)
