"""A saved `CodeIndex` as a document store of Haystack, and its retriever."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils.filters import document_matches_filter

from supquant.index import CodeIndex


class SupquantDocumentStore:
    """Documents whose embeddings are kept as codes. Scores are probabilities.

    Filters are evaluated by Haystack, document after document. Documents come back without embeddings.

    Parameters
    ----------
    folder : str
        The folder of an index with string ids, or without rows. ``store.index.save(store.folder)`` keeps changes.
    label : str or None, default=None
        The key of a document's `meta` that holds its label. None adds all documents without labels.
    """

    def __init__(self, folder: str, label: str | None = None) -> None:
        self.index, self.folder, self.label = CodeIndex.load(folder), folder, label

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, folder=self.folder, label=self.label)

    from_dict: Any = classmethod(default_from_dict)

    def count_documents(self) -> int:
        return len(self.index)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        documents = self._documents(self.index.ids)
        return [each for each in documents if not filters or document_matches_filter(filters, each)]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        if not all(isinstance(each, Document) for each in documents):
            raise ValueError("documents must be a list of Document")
        known = {each.id for each in documents if each.id in self.index}
        if known and policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
            raise DuplicateDocumentError(f"the store has {known}")
        new = [each for each in documents if policy != DuplicatePolicy.SKIP or each.id not in known]
        if new:
            y = [each.meta.get(self.label) for each in new] if self.label else None
            kept = [json.dumps(replace(each, embedding=None).to_dict(flatten=False)) for each in new]
            ids, X = [each.id for each in new], np.array([each.embedding for each in new])
            self.index.upsert(ids, X, y, metadata={"document": kept}, unknown_labels="ignore")
        return len(new)

    def delete_documents(self, document_ids: list[str]) -> None:
        self.index.remove([each for each in document_ids if each in self.index])

    def _documents(self, ids: Any) -> list[Document]:
        return [Document.from_dict(json.loads(row["document"])) for row in self.index.get(ids).to_pylist()]


@component
class SupquantRetriever:
    """Finds the documents of a `SupquantDocumentStore` for the embedding of a query."""

    def __init__(self, document_store: SupquantDocumentStore, top_k: int = 10) -> None:
        self.document_store, self.top_k = document_store, top_k

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, query_embedding: list[float], filters: dict[str, Any] | None = None) -> dict[str, Any]:
        where = [each.id for each in self.document_store.filter_documents(filters)] if filters else None
        scores, ids = self.document_store.index.search(np.array(query_embedding), self.top_k, where=where)
        found = zip(self.document_store._documents(ids), scores.tolist(), strict=True)
        return {"documents": [replace(document, score=score) for document, score in found]}
