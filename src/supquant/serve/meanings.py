"""Requests to answers: what the codes of items and queries say: classes, and why an answer is near."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.inputs.labels import Labels
from supquant.model.codec import SupervisedCodec
from supquant.model.vectors import item_novelty

__all__ = ["class_shares", "explain"]

MAX_CLASSES = 4096
"""The maximum number of labels of a model whose answers are explained by classes."""

MIN_KNOWN = 0.05
"""The lower bound of the probability that an item belongs to a known class, where it is a divisor."""

SHOWN = 3
"""The maximum number of classes that are named for a query or an answer."""


def class_shares(codec: Any, decoded: Float32) -> Float32 | None:
    """Return the probabilities of the classes for decoded items (n, D), (n, L) from 0 to 1; None if codes hold no classes.

    A code holds them multiplied by the probability that the item belongs to a known class. Divided by it, they are the same
    quantity as the probabilities of a vector, and as what a search by the item uses.
    """
    if not isinstance(codec, SupervisedCodec) or codec.map.n_trained > MAX_CLASSES:
        return None
    spelling = codec.map.spelling
    L, r = codec.map.n_trained, spelling.n_columns
    meaning = decoded[:, :r] / np.maximum(1 - item_novelty(decoded[:, :r], codec.map), MIN_KNOWN)
    if codec.multilabel:
        return np.clip(meaning[:, :L], 0, 1).astype(np.float32)
    every = Labels(codec.classes[:L], False, np.arange(L, dtype=np.int32), None)
    words = spelling.of_labels(every, 0, L)[:, :r]  # (L, r)
    shares = np.clip(meaning @ words.T, 0, 1)
    return (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)).astype(np.float32)


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
        that it shares with the query and how ``near`` it is: the cosine of the two positions.
    """
    items = codec.decode(codes)
    if not isinstance(codec, SupervisedCodec):
        return {"classes": [], "novelty": None, "answers": [{"classes": [], "near": None} for _ in items]}
    r = codec.map.spelling.n_columns
    first = r + codec.map.n_likeness
    novelty = None
    if query is not None:
        t = codec.transform(query)
        shares = codec.predict_proba(query)[:, : codec.map.n_trained]
        novelty = float(codec.novelty(query)[0])
    else:
        t = codec.decode(own)
        novelty = float(item_novelty(t[:, :r], codec.map)[0, 0])
        found = class_shares(codec, t)
        shares = np.zeros((1, 0), np.float32) if found is None else found
    of_items = class_shares(codec, items)
    if of_items is None:
        of_items = np.zeros((len(items), shares.shape[1]), np.float32)
    place, places = t[0, first:], items[:, first:]
    lengths = np.linalg.norm(place) * np.linalg.norm(places, axis=1)
    near = places @ place / np.where(lengths > 0, lengths, 1)
    together = shares * of_items
    return {
        "classes": _named(codec.classes, shares[0]),
        "novelty": novelty,
        "answers": [
            {"classes": _named(codec.classes, both), "near": float(cosine)}
            for both, cosine in zip(together, near, strict=True)
        ],
    }


def _named(classes: NDArray[Any], shares: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the labels with the greatest shares (L,), of at least 1% each."""
    order = np.argsort(-shares, kind="stable")[:SHOWN]
    return [
        {
            "label": classes[each].item() if hasattr(classes[each], "item") else classes[each],
            "share": float(shares[each]),
        }
        for each in order
        if shares[each] >= 0.01
    ]
