"""The vectors of items that codebooks are learned from, and the codes of all rows.

`item_codes` learns codebooks from these vectors. How meaning and position share a code depends on whether new classes are
expected.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from supquant.arrays import Codes, Flags, Float32
from supquant.assignment import SEARCH_ROWS
from supquant.estimators.training_codes import encode_training_rows
from supquant.kernels.fitting import gpu_for
from supquant.model.codec import SupervisedCodec
from supquant.model.features import FittedRows
from supquant.model.item_codes import ItemRows
from supquant.model.words import LABELLED, UNLABELLED, word_purposes
from supquant.parallel import ordered_map, row_blocks

CODEBOOK_ROWS = 1 << 15
"""Codebooks are learned from at most this number of rows."""

ENCODED_ROWS = 1 << 16
"""Number of rows whose item vectors are made at a time."""

GPU_ROWS = 1 << 13
"""Number of rows whose codes are searched at a time, if a GPU does it."""

FULL_POSITION_CODEBOOKS = 8
"""With at least this number of codebooks, position has its full weight. In a shorter code it has less."""

FOUND, NEW_POSSIBLE, ALL_KNOWN = (
    ((10, 0.5), (1, 0.005)),
    ((10, 0.5), (1, 0.025)),
    ((10, 0.005), (1, 0.0005)),
)
"""Weights of a squared error in meaning and of one in position, for items with labels and for items without: if classes were
found, if none were but new ones may come, and if none can be new. If none were found, position is what new items mean, and its
last weight is multiplied by the fraction of words that are for position."""

MIN_POSITION_WORDS, MAX_POSITION_WORDS = 0.25, 0.8
"""If new classes are expected, a codebook without label words has one free word for each class that it may have to tell apart.
The others are for position: at least and at most these fractions of all words."""

FEW_POSITION_WORDS = 1 / 32
"""The fraction of words that are for position if no new classes are expected."""

IMITATED_ROWS = 0.3
"""If no row shows what new classes look like, this number of rows imitate them, as a fraction of the excess of labelled over
unlabelled rows."""


def blank_codec(
    rows: FittedRows,
    n_codebooks: int,
    n_codewords: int,
    shorter: SupervisedCodec | None,
    missing_label: Any,
) -> SupervisedCodec:
    """Return the codec of a fit before its codebooks (M, K, D) are learned: they are zeros.

    If the fit starts from a `shorter` code, the weights and the first words are those of the shorter code.
    """
    map_, multilabel = rows.map, rows.labels.multilabel
    share = _position_share(rows, n_codewords)
    words = word_purposes(map_.spelling, n_codebooks, n_codewords, share, multilabel=multilabel)
    if shorter is None:
        weights = _error_weights(rows, share)
        weights[:, 1] *= min(1.0, max(0.25, n_codebooks - 1) / (FULL_POSITION_CODEBOOKS - 1)) ** 2
    else:
        weights = shorter.weights
        words[: shorter.n_codebooks] = shorter.words
    width = map_.spelling.n_columns + map_.n_likeness + map_.n_position
    return SupervisedCodec(
        np.zeros((n_codebooks, n_codewords, width), dtype=np.float32),
        rows.labels.classes,
        multilabel,
        weights,
        words,
        map_,
        missing_label=missing_label,
    )


def _error_weights(rows: FittedRows, position_share: float) -> Float32:
    """Return the weights of errors in meaning and in position (N_KINDS, 2), given the fraction of words for position."""
    if rows.map.clusters is not None:
        return np.array(FOUND, dtype=np.float32)
    if not len(rows.novelty_of_new):
        return np.array(ALL_KNOWN, dtype=np.float32)
    weights = np.array(NEW_POSSIBLE, dtype=np.float32)
    weights[UNLABELLED, 1] *= position_share
    return weights


def _position_share(rows: FittedRows, n_codewords: int) -> float:
    """Return the fraction of a codebook without label words that is reserved for position."""
    clusters = rows.map.clusters
    if clusters is None and not len(rows.novelty_of_new):
        return FEW_POSITION_WORDS
    n_classes = rows.map.n_labels if clusters is None else len(clusters.ratios) / len(clusters.ends)
    return min(max(1 - n_classes / n_codewords, MIN_POSITION_WORDS), MAX_POSITION_WORDS)


def sample_items(rows: FittedRows, codec: SupervisedCodec, rng: np.random.Generator) -> ItemRows:
    """Sample the rows from which codebooks are learned; if few rows have no label, add others that stand in for them."""
    labels = rows.labels
    known = rng.permutation(np.flatnonzero(labels.known))
    unknown = rng.permutation(np.flatnonzero(~labels.known))
    hidden = known[: max(0, len(known) - len(unknown))]
    n_new = round(IMITATED_ROWS * len(hidden)) if len(rows.novelty_of_new) else 0
    share = min(1.0, CODEBOOK_ROWS / (len(known) + len(unknown) + len(hidden) + n_new))
    known, unknown, hidden = (each[: round(share * len(each))] for each in (known, unknown, hidden))
    n_new = round(share * n_new)
    spelled = rows.map.spelling.of_labels(labels.take(known), 0, len(known))
    ends = np.cumsum([len(known), len(unknown), len(hidden), n_new])
    vectors = np.empty((ends[-1], codec.n_components), dtype=np.float32)
    of_known, of_unknown, of_hidden, of_new = np.split(vectors, ends[:-1])
    # The features of one part are in memory at a time.
    _fill_item_vectors(of_known, codec, rows.features(known, labelled=True), spelled, rows.n_jobs)
    _fill_item_vectors(of_unknown, codec, rows.features(unknown), None, rows.n_jobs)
    _fill_item_vectors(of_hidden, codec, rows.as_held_out(hidden), None, rows.n_jobs)
    if n_new:
        _fill_item_vectors(of_new, codec, _as_new(rows, n_new, rng), None, rows.n_jobs)
    kinds = np.repeat([LABELLED, UNLABELLED], [len(known), len(vectors) - len(known)])
    n_columns = rows.map.n_columns
    return ItemRows(vectors, kinds, codec.weights, n_columns, n_columns + rows.map.n_likeness)


def _as_new(rows: FittedRows, n: int, rng: np.random.Generator) -> Float32:
    """Return features (n, F) of random rows that look as new as rows of left-out classes do."""
    features = rows.features(rng.integers(len(rows.X), size=n))
    features[:, rows.map.n_columns] = rng.choice(rows.novelty_of_new, size=n)
    return features


def _fill_item_vectors(
    vectors: Float32, codec: SupervisedCodec, features: Float32, labels: Float32 | None, n_jobs: int
) -> None:
    """Fill `vectors` (n, D) with those of items with features (n, F) and spelled labels, on `n_jobs` threads."""

    def fill(block: tuple[int, int]) -> None:
        rows = slice(*block)
        vectors[rows] = codec.item_vectors(features[rows], None if labels is None else labels[rows])

    for _ in ordered_map(fill, row_blocks(len(features)), n_jobs):
        pass


def encode_rows(rows: FittedRows, codec: SupervisedCodec) -> Codes:
    """Return the codes (n, M) of all rows, which hold their labels if known."""
    if rows.features_of_all is None:
        return encode_training_rows(codec, rows.X, rows.labels, rows.n_jobs)
    codes = np.empty((len(rows.X), codec.n_codebooks), dtype=np.uint8)
    for start, stop in row_blocks(len(codes), ENCODED_ROWS):
        spelled = rows.map.spelling.of_labels(rows.labels, start, stop)
        items = codec.item_vectors(rows.features_of_all[start:stop], spelled)
        codes[start:stop] = encode_items(codec, items, rows.labels.known[start:stop], rows.n_jobs)
    return codes


def encode_items(codec: SupervisedCodec, items: Float32, known: Flags, n_jobs: int) -> Codes:
    """Return the codes (n, M) of item vectors (n, D), whose labels are `known` (n,) or not."""
    on_gpu = gpu_for(len(items) * codec.codebooks.size) is not None
    blocks = row_blocks(len(items), GPU_ROWS if on_gpu else SEARCH_ROWS)
    codec.encode_vectors(items[:0], known[:0], on_gpu=on_gpu)  # makes the searches, before threads share them
    codes = ordered_map(
        lambda block: codec.encode_vectors(items[slice(*block)], known[slice(*block)], on_gpu=on_gpu),
        blocks,
        n_jobs,
    )
    return np.concatenate([np.empty((0, codec.n_codebooks), dtype=np.uint8), *codes])
