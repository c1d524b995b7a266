"""Requests to answers: what the codes of items and queries say: classes, and why an answer is near."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.inputs.labels import Labels
from supquant.model.codec import SupervisedCodec
from supquant.model.vectors import item_novelty, item_positions
from supquant.parallel import row_blocks

__all__ = ["Shares", "class_shares", "explain", "look_like"]

MAX_CLASSES = 4096
"""The maximum number of labels of a model whose answers are explained by classes."""

MIN_KNOWN = 0.05
"""The lower bound of the probability that an item belongs to a known class, where it is a divisor."""

SHOWN = 3
"""The maximum number of classes that are named for a query or an answer."""

PROBABLE = 0.5
"""The lower bound of the probability of a class that an item without a label is said to look like."""

ROWS_AT_ONCE = 4096
"""The number of items whose classes are computed at once, so that little memory is needed."""


class Shares(NamedTuple):
    """What some items or queries say of classes."""

    shares: Float32  # (n, L) probabilities of the classes, given that it is a known one
    novelty: Float32  # (n,) probability of no known class

    def best(self) -> NDArray[np.int64]:
        """Return the number (n,) of the class that each probably belongs to, or -1."""
        numbers = self.shares.argmax(axis=1)
        likely = (1 - self.novelty) * self.shares[np.arange(len(numbers)), numbers] >= PROBABLE
        return np.asarray(np.where(likely, numbers, -1), dtype=np.int64)


def class_shares(codec: Any, decoded: Float32) -> Shares | None:
    """Return what decoded items (n, D) say of classes, also of those that were added; None if codes hold no classes.

    A code holds probabilities multiplied by the probability that the item belongs to a known class. Divided by it, they are the
    same quantity as the probabilities of a vector, and as what a search by the item uses.
    """
    if not isinstance(codec, SupervisedCodec) or codec.map.n_trained > MAX_CLASSES:
        return None
    spelling = codec.map.spelling
    L, r = codec.map.n_trained, spelling.n_columns
    u = item_novelty(decoded[:, :r], codec.map)
    meaning = decoded[:, :r] / np.maximum(1 - u, MIN_KNOWN)
    if codec.multilabel:
        return Shares(np.clip(meaning[:, :L], 0, 1).astype(np.float32), u[:, 0])
    every = Labels(codec.classes[:L], False, np.arange(L, dtype=np.int32), None)
    words = spelling.of_labels(every, 0, L)[:, :r]  # (L, r)
    shares = np.clip(meaning @ words.T, 0, 1)
    shares = (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)).astype(np.float32)
    return Shares(*codec.map.divided(shares, u[:, 0], item_positions(decoded, codec.map)))


def look_like(codec: Any, codes: Codes) -> NDArray[np.int64] | None:
    """Return the number (n,) of the class that items of codes (n, M) probably belong to; -1 where none is probable.

    It is None if codes hold no classes.

    Parameters
    ----------
    codec : SupervisedCodec or another codec
    codes : ndarray of shape (n, M), uint8
    """
    found = np.full(len(codes), -1)
    for rows in row_blocks(len(codes), ROWS_AT_ONCE):
        block = class_shares(codec, codec.decode(codes[slice(*rows)]))
        if block is None:
            return None
        found[slice(*rows)] = block.best()
    return found


def explain(codec: Any, query: NDArray[Any] | None, own: Codes | None, codes: Codes) -> dict[str, Any]:
    """Say what a query looks like, and why items are near to it.

    Parameters
    ----------
    codec : SupervisedCodec or another codec
    query : ndarray of shape (1, p), or None
        The vector of the query; None if it is an item.
    own : ndarray of shape (1, M), uint8, or None
        The code of the item that is the query.
    codes : ndarray of shape (n, M), uint8
        Codes of the answers.

    Returns
    -------
    dict
        The ``classes`` of the query with their probabilities, its ``novelty``, and for each of the ``answers`` the ``classes``
        that it shares with the query, the class that it ``looks`` like if one is probable, and how ``near`` it is: the cosine of
        the two positions.
    """
    items = codec.decode(codes)
    if not isinstance(codec, SupervisedCodec):
        nothing: dict[str, Any] = {"classes": [], "looks": None, "near": None}
        return {"classes": [], "novelty": None, "answers": [nothing for _ in items]}
    first = codec.map.spelling.n_columns + codec.map.n_likeness
    t = codec.decode(own) if query is None else codec.transform(query)
    asked = (
        class_shares(codec, t) if query is None else Shares(codec.predict_proba(query), codec.novelty(query))
    )
    answers = class_shares(codec, items)
    classes = codec.classes.tolist()
    place, places = t[0, first:], items[:, first:]
    lengths = np.linalg.norm(place) * np.linalg.norm(places, axis=1)
    near = places @ place / np.where(lengths > 0, lengths, 1)
    found: list[dict[str, Any]] = [{"classes": [], "looks": None, "near": float(cosine)} for cosine in near]
    if asked is None or answers is None:  # too many classes to name those of items
        u = (
            item_novelty(t[:, : codec.map.spelling.n_columns], codec.map)[0, 0]
            if asked is None
            else asked.novelty[0]
        )
        return {
            "classes": [] if asked is None else _named(classes, asked.shares[0]),
            "novelty": float(u),
            "answers": found,
        }
    for each, both, best in zip(found, asked.shares * answers.shares, answers.best(), strict=True):
        each |= {"classes": _named(classes, both), "looks": None if best < 0 else classes[best]}
    return {"classes": _named(classes, asked.shares[0]), "novelty": float(asked.novelty[0]), "answers": found}


def _named(classes: list[Any], shares: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the labels with the greatest shares (L,), of at least 1% each."""
    order = np.argsort(-shares, kind="stable")[:SHOWN]
    return [{"label": classes[each], "share": float(shares[each])} for each in order if shares[each] >= 0.01]
