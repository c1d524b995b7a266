"""Requests to answers: an index that a service holds, with the methods of `CodeIndex`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self
from urllib.parse import quote, urlencode
from uuid import uuid4

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Float32, RowNumbers
from supquant.client.connection import Connection
from supquant.client.values import (
    ClientFilter,
    novelty_of,
    plain_codes,
    plain_ids,
    plain_labels,
    plain_metadata,
    plain_where,
    read_vectors,
    table_of,
    to_base64,
    without_none,
)
from supquant.errors import InputError
from supquant.index.searchable import Change, SearchableIndex, SearchOptions
from supquant.index.unknown_labels import MODES, UnknownMode
from supquant.inputs.parameters import check_choice, check_integer, resolve_jobs
from supquant.inputs.validation import as_float32, refuse_masked

__all__ = ["Client"]


class Client(SearchableIndex):
    """An index that a service holds. Its methods take and return what those of `CodeIndex` do.

    The service saves a change before its method returns. So there is no `save`, `load` or `reload`, and no `codec`.
    Many queries are sent in several requests. The service decides the number of threads, so `n_jobs` is checked and ignored.
    If the answer to a change gets lost, the client sends the change again, and the service makes it once.
    Errors of input are `InputError`, all others `ServiceError`. Any number of threads may use one client.

    Parameters
    ----------
    url : str
        The address of the service, such as ``http://localhost:8000``.
    token : str, default=None
        The token for reading or writing, if the service has tokens. It is sent in a header.
    index : str, default=None
        The name of the index. None means the only one that the service has.
    timeout : float, default=60.0
        The time after which a request is given up, in seconds.

    Raises
    ------
    InputError
        If the service has no such index.
    ServiceError
        If the service cannot be reached, or refuses the token.

    Examples
    --------
    >>> Client("http://localhost:1")
    Traceback (most recent call last):
        ...
    supquant.client.connection.ServiceError: http://localhost:1 cannot be reached: Connection refused
    """

    def __init__(
        self, url: str, token: str | None = None, *, index: str | None = None, timeout: float = 60.0
    ) -> None:
        self._connection = Connection(url, token, timeout)
        names = [each["name"] for each in self._connection.ask("GET", "/v1")["indexes"]]
        if index is None and len(names) > 1:
            raise InputError(f"the service has several indexes: choose one of {', '.join(names)}")
        if index is not None and index not in names:
            raise InputError(f"the service has no index {index!r}: it has {', '.join(names)}")
        self.name: str = names[0] if index is None else index
        self._path = f"/v1/{quote(self.name, safe='')}"
        facts = self.info()
        self._limits: dict[str, Any] = facts["limits"]
        self._n_inputs: int = facts["inputs"]
        self._rankings: list[str] = facts["rankings"]

    def __repr__(self) -> str:
        return f"Client({self._connection.url}, index={self.name!r})"

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    # rows ----------------------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Describe the index, as `CodeIndex.info` does, with what the service adds."""
        return dict(self._connection.ask("GET", self._path))

    def __len__(self) -> int:
        return int(self.info()["rows"])

    def __contains__(self, id_: object) -> bool:
        try:
            return len(self._select({"ids": plain_ids([id_]), "skip_missing": True})) == 1
        except InputError:  # ids of this kind are not in the index
            return False

    @property
    def ids(self) -> Array:
        """The ids of all rows, in order of insertion: int64, or objects that are str."""
        return self._id_array(self._connection.ask("GET", f"{self._path}/ids")["ids"])

    @property
    def state(self) -> str:
        """Identifies the present rows and their order. It changes whenever the index is changed or reloaded."""
        return str(self.info()["state"])

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, ids and removals, without the codec."""
        return sum(size for name, size in self.info()["bytes"].items() if name != "codec")

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are kept with codes."""
        return list(self.info()["columns"])

    def codes(self, ids: ArrayLike) -> Codes:
        """Return the codes (n, M) uint8 of rows."""
        found = self._post("codes", {"ids": plain_ids(ids)})["codes"]
        width = len(found[0]) if found else self.info()["bytes_per_code"]
        return np.array(found, dtype=np.uint8).reshape(-1, width)

    def reconstruct(self, ids: ArrayLike) -> Float32:
        """Return the vectors (n, r) float32 that the codes of rows stand for."""
        found = self._post("reconstruct", {"ids": plain_ids(ids)})
        return np.array(found["vectors"], dtype=np.float32).reshape(-1, found["width"])

    def get(self, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the columns of rows as a `pyarrow.Table`, as `CodeIndex.get` does."""
        body = {"ids": plain_ids(ids), "columns": self.columns if columns is None else list(columns)}
        return table_of(self._connection.ask("POST", f"{self._path}/items", body, arrow=True))

    # searches ------------------------------------------------------------------------------------------------------------

    def _find_best(self, Q: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        queries = self._read_queries(Q, options)
        given = without_none(
            k=k,
            ranking=options.ranking,
            where=plain_where(options.where),
            state=options.state,
            refine=_refine_of(options),
        )
        found = []
        for rows in self._blocks(len(queries), max(k, given.get("refine", 0))):
            block = queries[rows]
            asked = given | without_none(novelty=novelty_of(options.novelty, rows))
            if isinstance(asked.get("where"), dict) or isinstance(asked.get("novelty"), list):
                answer = self._post("search", {"queries": to_base64(block), **asked})
            else:
                path = f"{self._path}/search?{urlencode(asked)}"
                answer = self._connection.ask("POST", path, block.astype("<f4").tobytes())
            found.append(self._answer_arrays(answer["scores"], answer["ids"], len(block), k))
        scores, ids = (np.concatenate(each) for each in zip(*found, strict=True))
        return scores, ids

    def search_encoded(
        self, query: str | bytes, k: int = 10, *, ranking: str | None = None, where: object = None
    ) -> tuple[Float32, Array]:
        """Find the k best rows for a text, or for the bytes of a picture's file, which the service encodes."""
        given = {"text": query} if isinstance(query, str) else {"picture": b64encode(query).decode("ascii")}
        body = without_none(**given, k=k, ranking=ranking, where=plain_where(where))
        answer = self._post("search", body)
        scores, ids = self._answer_arrays([answer["scores"]], [answer["ids"]], 1, k)
        return scores[0], ids[0]

    def search_table(
        self, Q: ArrayLike, k: int = 10, columns: Sequence[str] | None = None, **search: Any
    ) -> Any:
        """Find the k best rows for every query, and return them as one `pyarrow.Table`, as `CodeIndex.search_table` does."""
        body = self._search_body(np.atleast_2d(Q), SearchOptions(**search))
        body |= without_none(k=k, columns=None if columns is None else list(columns))
        return table_of(self._connection.ask("POST", f"{self._path}/search", body, arrow=True))

    def _find_lowest_sums(self, tables: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        resolve_jobs(options.n_jobs)
        array = np.asarray(refuse_masked(getattr(tables, "tables", tables), "tables"))
        facts = self.info()
        M, K = facts["bytes_per_code"], facts["codewords"]
        if array.ndim != 3 or array.shape[1:] != (M, K) or array.dtype.kind not in "fiu":
            raise InputError(
                f"tables must be numbers of shape (q, {M}, {K}), got {array.dtype} of shape {array.shape}"
            )
        body = without_none(
            tables=to_base64(as_float32(array)), k=k, where=plain_where(options.where), state=options.state
        )
        answer = self._post("search_tables", body)
        return self._answer_arrays(answer["sums"], answer["ids"], len(array), k)

    def _find_in_range(
        self, Q: ArrayLike, threshold: float, options: SearchOptions
    ) -> tuple[RowNumbers, Float32, Array]:
        body = self._search_body(Q, options) | without_none(threshold=threshold)
        answer = self._post("range_search", body)
        return (
            np.array(answer["limits"], dtype=np.int64),
            np.array(answer["scores"], dtype=np.float32),
            self._id_array(answer["ids"]),
        )

    def _rank_rows(self, Q: ArrayLike, options: SearchOptions) -> Iterator[tuple[Float32, Array]]:
        queries = self._read_queries(Q, options)
        n_rows = max(1, len(self))
        return (
            self._find_best(
                queries[rows], n_rows, replace(options, novelty=novelty_of(options.novelty, rows))
            )
            for rows in self._blocks(len(queries), n_rows)
            if len(queries)
        )

    def filter(self, where: ArrayLike, *, state: str | None = None) -> ClientFilter:
        """Select rows for searches among them: those that a mask, ids or a condition select now."""
        return ClientFilter(self.select(where, state=state))

    def select(self, where: object, *, state: str | None = None) -> Array:
        """Return the ids of some rows, in order of insertion, as `CodeIndex.select` does."""
        return self._select(plain_where(where), state)

    def _select(self, where: Any, state: str | None = None) -> Array:
        return self._id_array(self._post("select", without_none(where=where, state=state))["ids"])

    def _search_body(self, Q: ArrayLike, options: SearchOptions) -> dict[str, Any]:
        """Return the fields of a search of queries (q, p)."""
        return without_none(
            queries=to_base64(self._read_queries(Q, options)),
            ranking=options.ranking,
            novelty=novelty_of(options.novelty, slice(None)),
            where=plain_where(options.where),
            state=options.state,
            refine=_refine_of(options),
        )

    def _read_queries(self, Q: ArrayLike, options: SearchOptions) -> Float32:
        """Return queries (q, p) as float32, and check what else the index would refuse."""
        if options.ranking is not None:
            check_choice(options.ranking, "ranking", self._rankings)
        resolve_jobs(options.n_jobs)
        return read_vectors(Q, "Q", self._n_inputs)

    def _answer_arrays(self, scores: Any, ids: Any, n_queries: int, k: int) -> tuple[Float32, Array]:
        """Return the scores and ids (q, k') of an answer as arrays."""
        width = len(ids[0]) if n_queries else min(k, len(self))
        flat = [each for row in ids for each in row]
        return (
            np.array(scores, dtype=np.float32).reshape(n_queries, width),
            self._id_array(flat).reshape(n_queries, width),
        )

    def _id_array(self, ids: list[Any]) -> Array:
        """Return a list of ids as an array: int64, or objects that are str."""
        strings = isinstance(ids[0], str) if ids else self.info()["id_kind"] == "str"
        return np.array(ids, dtype=object if strings else np.int64)

    def _blocks(self, n_queries: int, k: Any) -> list[slice]:
        """Return the rows of each request, within the limits of the service. There is at least one request."""
        at_once = self._limits["max_queries"]
        if isinstance(k, int | np.integer) and k > 0:
            at_once = max(1, min(at_once, self._limits["max_answers"] // int(k)))
        return [slice(start, start + at_once) for start in range(0, max(1, n_queries), at_once)]

    # changes -------------------------------------------------------------------------------------------------------------

    def _change_items(
        self,
        change: Change,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        metadata: object,
        unknown_labels: UnknownMode,
        n_jobs: int | None,
    ) -> Self:
        resolve_jobs(n_jobs)
        mode = check_choice(unknown_labels, "unknown_labels", MODES)
        vectors = to_base64(read_vectors(X, "X", self._n_inputs))
        return self._change(
            change, ids, metadata, vectors=vectors, labels=plain_labels(y), unknown_labels=mode
        )

    def add_codes(self, codes: ArrayLike, ids: ArrayLike | None = None, *, metadata: object = None) -> Self:
        """Append rows that are already encoded, as `CodeIndex.add_codes` does."""
        return self._change("add", ids, metadata, codes=plain_codes(codes))

    def update_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Replace the codes of rows, as `CodeIndex.update_codes` does."""
        return self._change("update", ids, metadata, codes=plain_codes(codes))

    def upsert_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Update the codes of rows whose ids are in the index, and append the others, as `CodeIndex.upsert_codes` does."""
        return self._change("upsert", ids, metadata, codes=plain_codes(codes))

    def extend(self, ids: ArrayLike, y: ArrayLike) -> Self:
        """Add new classes to the model, from items of the index, as `CodeIndex.extend` does."""
        return self._change("extend", ids, labels=plain_labels(y))

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows, as `CodeIndex.remove` does."""
        return self._change("remove", ids)

    def compact(self) -> Self:
        """Copy all rows into one segment, without removed ones."""
        return self._change("compact")

    def _check_new(self, ids: ArrayLike | None = None) -> None:
        """Check that rows with these ids can be added, as `CodeIndex.check_new` does."""
        self._change("check_new", ids)

    def _change(self, operation: str, ids: Any = None, metadata: object = None, **rows: Any) -> Self:
        named = None if ids is None else plain_ids(ids, distinct=True)
        body = without_none(ids=named, metadata=plain_metadata(metadata), **rows)
        self._post(operation, body, key=uuid4().hex)
        return self

    def _post(self, operation: str, body: dict[str, Any], key: str | None = None) -> Any:
        return self._connection.ask("POST", f"{self._path}/{operation}", body, key=key)


def _refine_of(options: SearchOptions) -> int | None:
    """Return how many rows the service orders by their vectors; a source of vectors lies here, and cannot be given."""
    refine = options.refine
    if refine is None:
        return None
    if not isinstance(refine, int | np.integer):
        raise InputError("refine must be a number: a service orders rows by the vectors of its index")
    return check_integer(refine, "refine", 1)
