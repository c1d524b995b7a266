"""The vectors of items that codebooks are learned from, and the codes of all rows.

`item_codes` learns codebooks from these vectors. How meaning and position share a code depends on whether new classes are
expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supquant.arrays import Codes, Flags, Float32
from supquant.assignment import SEARCH_ROWS
from supquant.estimators.training_codes import encode_training_rows
from supquant.model.codec import SupervisedCodec
from supquant.model.features import FittedRows
from supquant.model.item_codes import ItemRows
from supquant.model.unseen_rows import mix_rows
from supquant.model.vectors import item_novelty
from supquant.model.words import item_kinds, word_purposes
from supquant.parallel import ordered_map, row_blocks

CODEBOOK_ROWS = 1 << 15
"""Codebooks are learned from at most this number of rows."""

ENCODED_ROWS = 1 << 16
"""Number of rows whose item vectors are made at a time."""

SORTED_COLUMNS = 64
"""Number of columns of item vectors that are sorted at a time."""

FULL_POSITION_CODEBOOKS = 8
"""With at least this number of codebooks, position has its full weight. In a shorter code it has less."""


@dataclass(frozen=True)
class Balance:
    """How meaning and position share a code.

    Attributes
    ----------
    labelled, familiar, new : (float, float)
        Weights of a squared error in meaning and of one in position, for items with labels, for items without labels, and for
        items that look new.
    position_words : float
        Fraction of every codebook without label words that is reserved for position, if labels have words.
    hidden : float
        Number of labelled rows that are added to the rows to learn from as if they had no labels, as a fraction of the excess of
        labelled over unlabelled rows.
    mixed : float
        Number of imaginary rows of new classes that are added, as a fraction of the same excess.
    """

    labelled: tuple[float, float]
    familiar: tuple[float, float]
    new: tuple[float, float]
    position_words: float
    hidden: float
    mixed: float


WITH_NEW_CLASSES = Balance((10, 0.5), (1, 0.005), (1, 0.005), 0.0, 1.0, 0.0)
"""The balance if new classes are expected."""

MIN_POS, MAX_POS = 0.25, 0.8
SETMODE = 0
WITHOUT_NEW_CLASSES = Balance((10, 0.005), (1, 0.0005), (1, 0.0005), 1 / 32, 1.0, 0.0)
"""The balance if no new classes are expected."""


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
    map_, multilabel, balance = rows.map, rows.labels.multilabel, _balance(rows)
    share = balance.position_words
    if rows.new_classes and not share:
        columns = (
            map_.n_labels if map_.clusters is None else len(map_.clusters.ratios) / len(map_.clusters.ends)
        )
        share = min(max(1 - columns / n_codewords, MIN_POS), MAX_POS)
    words = word_purposes(map_.spelling, n_codebooks, n_codewords, share, multilabel=multilabel)
    if shorter is None:
        weights = np.array([balance.labelled, balance.familiar, balance.new], dtype=np.float32)
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


def _balance(rows: FittedRows) -> Balance:
    return WITH_NEW_CLASSES if rows.new_classes else WITHOUT_NEW_CLASSES


def sample_items(rows: FittedRows, codec: SupervisedCodec, rng: np.random.Generator) -> ItemRows:
    """Sample the rows from which codebooks are learned; if few rows have no label, add others that stand in for them."""
    labels, balance = rows.labels, _balance(rows)
    known = rng.permutation(np.flatnonzero(labels.known))
    unknown = rng.permutation(np.flatnonzero(~labels.known))
    excess = max(0, len(known) - len(unknown))
    hidden = known[: round(balance.hidden * excess)]
    n_mixed = round(balance.mixed * excess) if len(rows.novelty_of_new) and rows.map.clusters is None else 0
    share = min(1.0, CODEBOOK_ROWS / (len(known) + len(unknown) + len(hidden) + n_mixed))
    known, unknown, hidden = (each[: round(share * len(each))] for each in (known, unknown, hidden))
    n_mixed = round(share * n_mixed)
    spelled = rows.map.spelling.of_labels(labels.take(known), 0, len(known))
    ends = np.cumsum([len(known), len(unknown), len(hidden), n_mixed])
    vectors = np.empty((ends[-1], codec.n_components), dtype=np.float32)
    of_known, of_unknown, of_hidden, of_mixed = np.split(vectors, ends[:-1])
    # The features of one part are in memory at a time.
    _fill_item_vectors(of_known, codec, rows.features(known, labelled=True), spelled, rows.n_jobs)
    _fill_item_vectors(of_unknown, codec, rows.features(unknown), None, rows.n_jobs)
    _fill_item_vectors(of_hidden, codec, rows.as_held_out(hidden), None, rows.n_jobs)
    _fill_item_vectors(of_mixed, codec, _mixed_rows(rows, n_mixed, rng), None, rows.n_jobs)
    n_columns = rows.map.n_columns
    kinds = item_kinds(
        item_novelty(vectors[:, :n_columns], rows.map)[:, 0], np.arange(len(vectors)) < len(known)
    )
    order = np.argsort(kinds, kind="stable")
    # A copy of all columns would take twice the memory.
    for start, stop in row_blocks(vectors.shape[1], SORTED_COLUMNS):
        vectors[:, start:stop] = vectors[order, start:stop]
    return ItemRows(vectors, kinds[order], codec.weights, n_columns, n_columns + rows.map.n_likeness)


def _fill_item_vectors(
    vectors: Float32, codec: SupervisedCodec, features: Float32, labels: Float32 | None, n_jobs: int
) -> None:
    """Fill `vectors` (n, D) with those of items with features (n, F) and spelled labels, on `n_jobs` threads."""

    def fill(block: tuple[int, int]) -> None:
        rows = slice(*block)
        vectors[rows] = codec.item_vectors(features[rows], None if labels is None else labels[rows])

    for _ in ordered_map(fill, row_blocks(len(features)), n_jobs):
        pass


def _mixed_rows(rows: FittedRows, n: int, rng: np.random.Generator) -> Float32:
    """Return features (n, F) as rows of new classes may have them."""
    if SETMODE:
        features = rows.features(rng.integers(len(rows.X), size=n))
        if n:
            features[:, rows.map.n_columns] = rng.choice(rows.novelty_of_new, size=n)
        return features
    features = rows.features(rng.integers(len(rows.X), size=2 * n))
    return mix_rows(features[:n], features[n:], rows.novelty_of_new, rows.map.n_columns, rng)


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
    blocks = row_blocks(len(items), SEARCH_ROWS)
    codes = ordered_map(
        lambda block: codec.encode_vectors(items[slice(*block)], known[slice(*block)]), blocks, n_jobs
    )
    return np.concatenate([np.empty((0, codec.n_codebooks), dtype=np.uint8), *codes])
