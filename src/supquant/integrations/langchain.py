"""A `CodeIndex` as a vector store of LangChain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self
from uuid import uuid4

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from supquant.index import CodeIndex
from supquant.model import SupervisedQuantizer


class SupquantVectorStore(VectorStore):
    """Documents whose embeddings are kept as codes. Scores are probabilities, so they serve as relevance scores.

    A search takes as `filter` what `CodeIndex.search` takes as `where`, such as ``"metadata->>'shop' = 'Paris'"``: the index has
    the columns ``text`` and ``metadata``, a JSON text.

    Parameters
    ----------
    index : CodeIndex
        With string ids, or empty. ``store.index.save`` keeps it.
    embedding : Embeddings
        The model that made the vectors from which the codes were learned.
    label : str or None, default=None
        The key of a document's metadata that holds its label. None adds all documents without labels.
    """

    embeddings: Any = None

    def __init__(self, index: CodeIndex, embedding: Embeddings, *, label: str | None = None) -> None:
        self.index, self.embeddings, self.label = index, embedding, label

    @classmethod
    def from_texts(
        cls, texts: Any, embedding: Any, metadatas: Any = None, *, label: str, ids: Any = None, **fit: Any
    ) -> Self:
        """Learn codes from at least 256 texts, and return a store of them; `fit` are parameters of `SupervisedQuantizer`."""
        y = [each.get(label) for each in metadatas or [{} for _ in texts]]
        model = SupervisedQuantizer(**fit).fit(np.array(embedding.embed_documents(texts)), y)
        store = cls(CodeIndex(model), embedding, label=label)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(self, texts: Any, metadatas: Any = None, *, ids: Any = None, **_: Any) -> list[str]:
        X = np.array(self.embeddings.embed_documents(texts := list(texts)))
        metadatas = metadatas or [{} for _ in texts]
        names = [name or str(uuid4()) for name in ids or [None] * len(texts)]
        y = [each.get(self.label) for each in metadatas] if self.label else None
        columns = {"text": texts, "metadata": [json.dumps(each) for each in metadatas]}
        self.index.upsert(names, X, y, metadata=columns, unknown_labels="ignore")
        return names

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        self.index.remove([name for name in self.index.ids if ids is None or name in ids])
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        found = self.index.get([name for name in ids if name in self.index])
        return [_document(row) for row in found.to_pylist()]

    def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        return self.similarity_search_by_vector(self.embeddings.embed_query(query), k, **options)

    def similarity_search_by_vector(self, embedding: Any, k: int = 4, **options: Any) -> list[Document]:
        return [document for document, _ in self._search(embedding, k, **options)]

    def similarity_search_with_score(self, query: str, k: int = 4, **options: Any) -> list[Any]:
        return self._search(self.embeddings.embed_query(query), k, **options)

    def _search(self, vector: list[float], k: int, *, filter: Any = None) -> list[Any]:  # noqa: A002  # LangChain's name
        found = self.index.search_table(np.array(vector), k=k, where=filter).to_pylist()
        return [(_document(row), row["score"]) for row in found]

    def _select_relevance_score_fn(self) -> Any:
        return float


def _document(row: dict[str, Any]) -> Document:
    return Document(id=row["id"], page_content=row["text"], metadata=json.loads(row["metadata"]))
