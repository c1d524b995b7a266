"""Queries to answers: what `refine` names, and vectors of items that are read from a source."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from supquant.arrays import Array, Codes, Float32
from supquant.errors import InputError
from supquant.index.ids import Ids, StringIds, name_some, read_ids
from supquant.inputs.parameters import check_integer
from supquant.model.codec import SupervisedCodec
from supquant.model.exact import ExactQueries, read_items
from supquant.sources import VectorSource, open_vectors

__all__ = ["Refine", "check_refinable", "read_refine"]

DEFAULT_ROWS = 100
"""The number of rows that are read from a source for each query."""


@dataclass(frozen=True, eq=False)
class Refine:
    """How many of the first rows are ordered by their vectors, and where these are: None stands for the index."""

    n_rows: int
    source: VectorSource | None = None

    def exact_scores(
        self, codec: SupervisedCodec, ids: Array, codes: Codes, queries: ExactQueries
    ) -> tuple[Float32, Float32]:
        """Return the exact scores and the cosines, both (q, n), of items with ids (q, n) and codes (q n, M), from the source."""
        assert self.source is not None
        distinct, which = np.unique(ids.ravel(), return_index=True)[:2]
        places = np.searchsorted(distinct, ids)  # (q, n)
        units, meanings = read_items(codec, self.source.take(self._rows(distinct)), codes=codes[which])
        scores, cosines = np.empty((2, *ids.shape), dtype=np.float32)
        for query, own in enumerate(places):
            meaning, unit = meanings[own], units[own]
            scores[query] = queries.scores(
                meaning @ queries.meaning[query],
                meaning @ queries.known,
                unit @ queries.weights[query],
                query,
            )
            cosines[query] = unit @ queries.units[query]
        return scores, cosines

    def _rows(self, ids: Array) -> Any:
        """Return the rows (n,) of ids in the source: those of its own ids, or the ids themselves."""
        source = self.source
        assert source is not None
        if source not in _ids:
            _ids[source] = None if source.ids is None else read_ids(source.ids)
        known = _ids[source]
        if known is None:
            if ids.dtype.kind != "i" or (len(ids) and not 0 <= ids.min() <= ids.max() < len(source)):
                raise InputError(
                    f"{source.name} has no ids and {len(source)} rows: ids of the index must be their numbers"
                )
            return ids
        asked = read_ids(ids)
        if isinstance(known, StringIds) != isinstance(asked, StringIds):
            raise InputError(f"the ids of {source.name} are of another kind than those of the index")
        rows = known.find(asked)
        if (missing := np.flatnonzero(rows < 0)).size:
            raise InputError(f"these ids are not in {source.name}: {name_some(ids[missing])}")
        return rows


_ids: weakref.WeakKeyDictionary[VectorSource, Ids | None] = weakref.WeakKeyDictionary()
"""The ids of sources, read once."""


def read_refine(value: Any) -> Refine:
    """Return what the argument `refine` of a search says."""
    if isinstance(value, int | np.integer):
        return Refine(check_integer(value, "refine", 1))
    source, n_rows = value if isinstance(value, tuple) and len(value) == 2 else (value, DEFAULT_ROWS)
    opened = source if isinstance(source, VectorSource) else open_vectors(source)
    return Refine(check_integer(n_rows, "the number of rows of refine", 1), opened)


def check_refinable(codec: object) -> SupervisedCodec:
    """Return a codec that has exact scores; raise an `InputError` for another."""
    if isinstance(codec, SupervisedCodec):
        return codec
    raise InputError(
        "vectors and refine need a model of SupervisedQuantizer (--method sq), and this codec is of type "
        f"{type(codec).__name__}"
    )
