"""The rows of a fit: their features, the vectors of items, their codes, and calibration.

The words of a code are chosen in `word_choice`, the codebooks are learned in `item_codes`, and scores become probabilities in
`curves`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Flags, Float32
from supquant.assignment import SEARCH_ROWS
from supquant.codec.codebooks import as_halves
from supquant.codec.gaussian_map import map_rows
from supquant.estimators.training_codes import encode_training_rows
from supquant.model.codec import SupervisedCodec
from supquant.model.features import DEFAULT_SHARE, FittedMeaning, fit_meaning
from supquant.model.item_codes import ItemRows
from supquant.model.unseen_rows import imitate_held_out_rows, mix_rows
from supquant.model.word_choice import choose_spelling, word_purposes
from supquant.model.words import item_kinds
from supquant.parallel import ordered_map, row_blocks
from supquant.rows import Rows

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels
    from supquant.model.label_kernel import LabelKernel
    from supquant.progress import Reporter

CODEBOOK_ROWS = 1 << 15
"""Codebooks are learned from at most this number of rows."""

FEATURE_BYTES = 1 << 29
"""The features of all rows are kept if they take at most this number of bytes. Otherwise they are made when they are needed."""

ENCODED_ROWS = 1 << 16
"""Item vectors are made for this number of rows at a time."""

SORTED_COLUMNS = 64
"""Columns of the vectors of items that are sorted at a time."""

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
        Part of every codebook without label words that is kept for position, if labels have words.
    hidden : float
        Number of rows without their labels that are added to the rows to learn from, as a part of the labelled rows that exceed
        the unlabelled ones.
    mixed : float
        Number of rows as those of new classes may be that are added, as the same part.
    """

    labelled: tuple[float, float]
    familiar: tuple[float, float]
    new: tuple[float, float]
    position_words: float
    hidden: float
    mixed: float


WITH_NEW_CLASSES = Balance((10, 0.5), (1, 0.02), (0.5, 0.3), 0.8, 0.3, 0.3)
"""The balance if new classes are expected."""

WITHOUT_NEW_CLASSES = Balance((10, 0.005), (1, 0.0005), (1, 0.0005), 1 / 32, 1.0, 0.0)
"""The balance if no new classes are expected."""


def learn_features(
    X: Rows,
    labels: Labels,
    kernel: LabelKernel,
    code_size: tuple[int, int],
    *,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
    reporter: Reporter,
) -> FittedMeaning:
    """Fit the map from vectors to features, for codes of `code_size` (M, K)."""
    return fit_meaning(
        X,
        labels,
        kernel,
        choose_spelling(labels, *code_size, rng),
        new_classes=new_classes,
        rng=rng,
        n_jobs=n_jobs,
        reporter=reporter,
    )


def inherited_features(shorter: SupervisedCodec) -> FittedMeaning:
    """Return the map from vectors to features of a shorter code, with no held-out rows."""
    no_features = np.zeros((0, 0), dtype=np.float32)
    new = float(np.isfinite(shorter.map.novelty[-1])) * DEFAULT_SHARE
    return FittedMeaning(
        shorter.map, np.zeros(0, dtype=np.int64), no_features, new, no_features[:0].ravel(), 0.0
    )


@dataclass(frozen=True)
class Fit:
    """Rows X (n, p), of which some or all have labels, the learned map to their features, and what is made of both."""

    X: Rows
    labels: Labels
    kept: Float32 | None  # (n, F)  the features of all rows, or None if they are made when needed
    fitted: FittedMeaning
    shorter: SupervisedCodec | None  # the code from which this one starts
    missing_label: Any
    n_codebooks: int
    n_codewords: int
    n_jobs: int

    @classmethod
    def of(
        cls,
        X: Rows,
        labels: Labels,
        fitted: FittedMeaning,
        shorter: SupervisedCodec | None,
        missing_label: Any,
        n_codebooks: int,
        n_codewords: int,
        n_jobs: int,
        reporter: Reporter,
    ) -> Self:
        """Make the features of all rows, if there is room for them."""
        kept = None
        if len(X) * fitted.map.n_features * 4 <= FEATURE_BYTES:
            with reporter.task("features"):
                kept = fitted.item_features(X, labels.known, n_jobs)
        fitted = replace(fitted, outputs=None)
        return cls(X, labels, kept, fitted, shorter, missing_label, n_codebooks, n_codewords, n_jobs)

    # features of rows -------------------------------------------------------------------------------------------------

    def features(self, rows: NDArray[np.intp], *, labelled: bool = False) -> Float32:
        """Return the features (r, F) of some rows (r,); if all are `labelled`, only what their item vectors need."""
        if self.kept is not None:
            return self.kept[rows]
        map_ = self.fitted.map
        mapped = map_.of_labelled if labelled else map_
        return map_rows(mapped, self.X[rows], map_.n_features, self.n_jobs, map_.block_rows)

    def as_held_out(self, rows: NDArray[np.intp]) -> Float32:
        """Return the features (r, F) of labelled rows (r,) as a model would make them that has not seen the rows."""
        held = np.flatnonzero(self.labels.known)[self.fitted.held_rows]
        spelled = self.fitted.map.spelling.of_labels
        changed = imitate_held_out_rows(
            self.features(rows),
            spelled(self.labels.take(rows), 0, len(rows)) > 0,
            self.fitted.held_features,
            spelled(self.labels.take(held), 0, len(held)) > 0,
            multilabel=self.labels.multilabel,
            n_jobs=self.n_jobs,
        )
        return self.fitted.map.with_opinions(changed)

    def encode_items(self, codec: SupervisedCodec, items: Float32, known: Flags) -> Codes:
        """Return the codes (n, M) of item vectors (n, D), whose labels are `known` (n,) or not."""
        codes = np.empty((len(items), codec.n_codebooks), dtype=np.uint8)

        def encode(block: tuple[int, int]) -> None:
            rows = slice(*block)
            codes[rows] = codec.encode_vectors(items[rows], known[rows])

        for _ in ordered_map(encode, row_blocks(len(codes), SEARCH_ROWS), self.n_jobs):
            pass
        return codes

    # codes of rows ----------------------------------------------------------------------------------------------------

    def coded(self, codebooks: Float32) -> tuple[SupervisedCodec, Codes]:
        """Return the codec with codebooks (M, K, D), and the codes (n, M) of all rows, which hold their labels if known."""
        codec = self._codec(as_halves(codebooks))
        if self.kept is None:
            return codec, encode_training_rows(codec, self.X, self.labels, self.n_jobs)
        codes = np.empty((len(self.X), codec.n_codebooks), dtype=np.uint8)
        for block in row_blocks(len(codes), ENCODED_ROWS):
            rows = slice(*block)
            items = codec.item_vectors(
                self.kept[rows], self.fitted.map.spelling.of_labels(self.labels, *block)
            )
            codes[rows] = self.encode_items(codec, items, self.labels.known[rows])
        return codec, codes

    # vectors of items -------------------------------------------------------------------------------------------------

    def item_rows(self, rng: np.random.Generator) -> ItemRows:
        """Sample the rows from which codebooks are learned; if few rows have no label, add others that stand in for them."""
        codec = self._codec(None)
        known = rng.permutation(np.flatnonzero(self.labels.known))
        unknown = rng.permutation(np.flatnonzero(~self.labels.known))
        excess = max(0, len(known) - len(unknown))
        hidden = known[: round(self._balance.hidden * excess)]
        n_mixed = round(self._balance.mixed * excess) if len(self.fitted.novelty_of_new) else 0
        share = min(1.0, CODEBOOK_ROWS / (len(known) + len(unknown) + len(hidden) + n_mixed))
        known, unknown, hidden = (each[: round(share * len(each))] for each in (known, unknown, hidden))
        L = self.fitted.map.n_columns
        labels = self.fitted.map.spelling.of_labels(self.labels.take(known), 0, len(known))
        n_mixed = round(share * n_mixed)
        vectors = np.empty(
            (len(known) + len(unknown) + len(hidden) + n_mixed, codec.n_components), dtype=np.float32
        )
        of_known, of_unknown, of_hidden, of_mixed = np.split(
            vectors, np.cumsum([len(known), len(unknown), len(hidden)])
        )
        # The features of one part are in memory at a time.
        self._fill_item_vectors(of_known, codec, self.features(known, labelled=True), labels)
        self._fill_item_vectors(of_unknown, codec, self.features(unknown))
        self._fill_item_vectors(of_hidden, codec, self.as_held_out(hidden))
        self._fill_item_vectors(of_mixed, codec, self._mixed_rows(n_mixed, rng))
        kinds = item_kinds(vectors[:, L], np.arange(len(vectors)) < len(known))
        order = np.argsort(kinds, kind="stable")
        for start, stop in row_blocks(
            vectors.shape[1], SORTED_COLUMNS
        ):  # a copy of all would take twice the memory
            vectors[:, start:stop] = vectors[order, start:stop]
        return ItemRows(vectors, kinds[order], codec.weights, L + 1)

    def _fill_item_vectors(
        self, vectors: Float32, codec: SupervisedCodec, features: Float32, labels: Float32 | None = None
    ) -> None:
        """Fill `vectors` (n, D) with those of items with features (n, F) and spelled labels, on `n_jobs` threads."""

        def fill(block: tuple[int, int]) -> None:
            rows = slice(*block)
            vectors[rows] = codec.item_vectors(features[rows], None if labels is None else labels[rows])

        for _ in ordered_map(fill, row_blocks(len(features)), self.n_jobs):
            pass

    def _mixed_rows(self, n: int, rng: np.random.Generator) -> Float32:
        """Return features (n, F) as rows of new classes may have them."""
        features = self.features(rng.integers(len(self.X), size=2 * n))
        return mix_rows(
            features[:n], features[n:], self.fitted.novelty_of_new, self.fitted.map.n_columns, rng
        )

    # the codec --------------------------------------------------------------------------------------------------------

    def _codec(self, codebooks: Float32 | None) -> SupervisedCodec:
        """Return the codec with codebooks (M, K, D); with None, one that makes only the vectors of items."""
        map_ = self.fitted.map
        if codebooks is None:
            codebooks = np.zeros((1, 1, map_.spelling.n_columns + 1 + map_.n_position), dtype=np.float32)
        n_codebooks, n_codewords, _ = codebooks.shape
        return SupervisedCodec(
            codebooks,
            self.labels.classes,
            self.labels.multilabel,
            self._weights() if self.shorter is None else self.shorter.weights,
            self.words(n_codebooks, n_codewords),
            map_,
            missing_label=self.missing_label,
        )

    def words(self, n_codebooks: int, n_codewords: int) -> NDArray[np.uint8]:
        """Return the kinds (M, K) of codewords, which begin with those of the shorter code."""
        words = word_purposes(
            self.fitted.map.spelling,
            n_codebooks,
            n_codewords,
            self._balance.position_words,
            multilabel=self.labels.multilabel,
        )
        shorter = self.shorter
        if shorter is not None and n_codebooks >= shorter.n_codebooks and n_codewords > 1:
            words[: shorter.n_codebooks] = shorter.words
        return words

    def _weights(self) -> Float32:
        """Return the weights (3, 2) of errors in meaning and in position, for labelled, familiar and new items."""
        part = max(0.25, self.n_codebooks - 1) / (FULL_POSITION_CODEBOOKS - 1)
        balance = self._balance
        weights = np.array([balance.labelled, balance.familiar, balance.new], dtype=np.float32)
        weights[:, 1] *= min(1.0, part) ** 2
        return weights

    @property
    def _balance(self) -> Balance:
        return WITH_NEW_CLASSES if self.fitted.new_classes else WITHOUT_NEW_CLASSES
