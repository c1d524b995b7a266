"""A `CodeIndex` as a vector store of LlamaIndex."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import (
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)


class SupquantVectorStore(BasePydanticVectorStore):
    """Nodes whose embeddings are kept as codes. Similarities are probabilities.

    Filters are evaluated by LlamaIndex, node after node. Nodes come back without embeddings.

    Parameters
    ----------
    index : CodeIndex
        With string ids, or empty. ``store.index.save`` keeps it.
    label : str or None, default=None
        The key of a node's metadata that holds its label. None adds all nodes without labels.
    """

    stores_text: bool = True
    index: Any = Field(exclude=True)
    label: str | None = None

    @property
    def client(self) -> Any:
        """The index."""
        return self.index

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        if not nodes:
            return []
        ids, X = zip(*((node.node_id, node.get_embedding()) for node in nodes), strict=True)
        y = [node.metadata.get(self.label) for node in nodes] if self.label else None
        columns = {"node": [json.dumps(node_to_metadata_dict(node)) for node in nodes]}
        self.index.upsert(ids, np.array(X), y, metadata=columns, unknown_labels="ignore")
        return list(ids)

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        self.index.remove([name for name, node in self._nodes() if node["ref_doc_id"] == ref_doc_id])

    def delete_nodes(self, node_ids: Any = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        self.index.remove(self._chosen(node_ids, filters))

    def clear(self) -> None:
        self.index.remove(self.index.ids)

    def get_nodes(self, node_ids: Any = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        return [metadata_dict_to_node(node) for _, node in self._nodes(self._chosen(node_ids, filters))]

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        where = self._chosen(query.node_ids, query.filters) if query.node_ids or query.filters else None
        scores, ids = self.index.search(np.array(query.query_embedding), query.similarity_top_k, where=where)
        nodes = [metadata_dict_to_node(node) for _, node in self._nodes(ids)]
        return VectorStoreQueryResult(nodes=nodes, similarities=scores.tolist(), ids=ids.tolist())

    def _nodes(self, ids: Any = None) -> list[tuple[str, dict[str, Any]]]:
        rows = self.index.get(self.index.ids if ids is None else ids).to_pylist()
        return [(row["id"], json.loads(row["node"])) for row in rows]

    def _chosen(self, ids: Any, filters: MetadataFilters | None) -> list[str]:
        metadata = dict(self._nodes(ids))
        return list(filter(build_metadata_filter_fn(metadata.__getitem__, filters), metadata))
