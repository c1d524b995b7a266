"""Tests of an index that a client of a service and an index in shards must pass as well."""

import numpy as np
import pytest

everywhere = pytest.mark.parametrize("index", ["here", "served", "sharded"], indirect=True)
"""Runs a test with an index, with a client of a service that holds this index, and with an index of the same rows in shards."""


def put_somewhere(request, index):
    """Return an index as the test of a fixture's `request` wants it: itself, behind a client, or in shards."""
    where = getattr(request, "param", "here")
    if where == "served":
        return request.getfixturevalue("serve_index")(index)
    if where == "sharded":
        return into_shards(index, request.getfixturevalue("tmp_path"))
    return index


def into_shards(index, folder, n_shards=3):
    """Return the rows of an index in shards, which this process serves."""
    from inline_workers import InlineWorkers

    from supquant import CodeIndex
    from supquant.distributed import ShardedIndex
    from supquant.index.ids import read_ids

    folders = []
    for number, ids in enumerate(np.array_split(index.ids, n_shards)):
        folders.append(folder / f"shard-{number}")
        part = CodeIndex(index.codec, vectors=index.vectors)
        if len(ids):
            own = None if index.info()["id_kind"] == "automatic" else ids
            vectors = None
            if index.vectors is not None:
                (rows,) = index._snapshot.parts
                vectors = rows.coded(index._snapshot.locate(read_ids(ids))).vectors
            metadata = index.get(ids).drop_columns(["id"]) if index.columns else None
            part.add_codes(index.codes(ids), own, metadata=metadata, vectors=vectors)
        part.save(folders[-1])
    return ShardedIndex(folders, workers=InlineWorkers(n_shards))
