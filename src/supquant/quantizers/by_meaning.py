"""A supervised fit by meaning and position, the default: features, then the vectors of items, then their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.codec import SemanticCodec
from supquant.codec.semantic import KNOWN_WORD, LABEL_WORD, NOVELTY_BINS, POSITION_WORD, as_curves, item_kinds
from supquant.codec.spelling import MOST_COLUMNS, Spelling, spell_labels
from supquant.features import FittedMeaning, fit_meaning, map_rows
from supquant.features.meaning import DEFAULT_SHARE
from supquant.features.meaning_map import unit_rows
from supquant.fitting import FitStage
from supquant.parallel import ordered_map, row_blocks
from supquant.quantizers.calibration import CALIBRATION_QUERIES, first_answers, fit_curve, spread_rows
from supquant.quantizers.item_codes import CodebookStep, ItemRows, codebook_steps
from supquant.quantizers.unseen_rows import as_held_out, as_left_out, between_classes
from supquant.validation import as_float32

if TYPE_CHECKING:
    from supquant.features import LabelKernel
    from supquant.features.meaning_map import MeaningMap
    from supquant.labels import Labels


SAMPLE_ROWS = 1 << 16
"""Rows that codebooks are learned from, at the most."""


@dataclass(frozen=True)
class Balance:
    """How meaning and position share a code.

    Attributes
    ----------
    labelled, familiar, new : (float, float)
        What a squared error in meaning and one in position counts: for items with labels, without, and for those that look new.
    position_words : float
        Part of every codebook but the first that is kept for words that mean nothing, where labels have words of their own.
    hidden, made_up : float
        Rows to learn from beside those that came, as parts of the labelled rows that have no unlabelled one beside them: rows
        without their labels, and rows as those of new classes may be.
    """

    labelled: tuple[float, float]
    familiar: tuple[float, float]
    new: tuple[float, float]
    position_words: float
    hidden: float
    made_up: float


WITH_NEW_CLASSES = Balance((10, 0.5), (1, 0.02), (0.5, 0.3), 0.8, 0.3, 0.3)
WITHOUT_NEW_CLASSES = Balance((10, 0.005), (1, 0.0005), (1, 0.0005), 1 / 32, 1.0, 0.0)

ENCODED_ROWS = 1 << 16
"""Rows whose vectors are made at a time."""

CALIBRATION_ROWS = 1 << 15
"""Rows that play items without labels, at the most, where scores are turned into probabilities."""

FEWEST_QUERIES = 40
"""Fewer queries do not make a curve of their own."""

ROOM_FOR_POSITION = 8
"""Codebooks from which on position has its weight; in a shorter code it yields to meaning."""

ROOM_FOR_LABELS = 7 / 8
"""Part of the first codebook that label words may take; with more labels they have no words of their own."""

MOST_WORDS = 3
"""Of a label."""

MOST_SHARING = 16
"""Labels that may have the same words, on average, where codes are too short for all."""

ROOM_FOR_KNOWN = 1 / 2
"""Part of the first codebook that is then kept for items with known labels."""


KEPT_BYTES = 1 << 29
"""Of features of all rows; where they would take more, those of rows are made when they are asked for."""


@dataclass(frozen=True)
class MeaningFit:
    """A fit under way: rows X (n, p), of which some or all have labels, and what was learned to make features of them."""

    X: NDArray[Any]
    labels: Labels
    kept: Float32 | None  # (n, F), the features of all rows where they are kept
    fitted: FittedMeaning
    missing_label: Any
    n_codebooks: int
    n_jobs: int

    @classmethod
    def prepare(
        cls,
        X: NDArray[Any],
        labels: Labels,
        kernel: LabelKernel,
        shorter: SemanticCodec | None,
        *,
        new_classes: float | None,
        missing_label: Any,
        n_codebooks: int,
        n_codewords: int,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> MeaningFit:
        """Fit the features, or take those of a shorter code."""
        if shorter is None:
            spelling = _spelling(labels, n_codebooks, n_codewords, rng)
            fitted = fit_meaning(X, labels, kernel, spelling, new_classes=new_classes, rng=rng, n_jobs=n_jobs)
        else:
            none = np.zeros(0, dtype=np.int64)
            no_features = np.zeros((0, 0), dtype=np.float32)
            map_ = cast("MeaningMap", shorter.feature_map)
            new = float(np.isfinite(map_.novelty[-1])) * DEFAULT_SHARE
            fitted = FittedMeaning(map_, none, no_features, new, no_features[:0].ravel(), 0.0)
        width = fitted.map.n_features
        kept = map_rows(fitted.map, X, width, n_jobs) if len(X) * width * 4 <= KEPT_BYTES else None
        return cls(X, labels, kept, fitted, missing_label, n_codebooks, n_jobs)

    def features(self, rows: NDArray[np.intp], *, labelled: bool = False) -> Float32:
        """Return the features (r, F) of some rows (r,), or of `labelled` rows all that their items are made of."""
        if self.kept is not None:
            return self.kept[rows]
        map_ = self.fitted.map
        mapped = map_.of_labelled if labelled else map_
        return map_rows(mapped, self.X[rows], map_.n_features, self.n_jobs, map_.block_rows)

    @property
    def balance(self) -> Balance:
        """How meaning and position share a code."""
        return WITH_NEW_CLASSES if self.fitted.new_classes else WITHOUT_NEW_CLASSES

    def words(
        self, n_codebooks: int, n_codewords: int, shorter: SemanticCodec | None = None
    ) -> NDArray[np.uint8]:
        """Say what the words (M, K) of codebooks are for, and what those of a shorter code are for."""
        words = np.zeros((n_codebooks, n_codewords), dtype=np.uint8)
        spelling = self.fitted.map.spelling
        at_each = np.bincount(_places(spelling), minlength=spelling.length)
        if (
            not self.labels.multilabel
            and spelling.length <= n_codebooks
            and at_each.max() <= (n_codewords if spelling.length > 1 else n_codewords * ROOM_FOR_LABELS)
        ):
            for place, n_words in enumerate(at_each):
                words[place, :n_words] = LABEL_WORD
            for_position = max(1, round(n_codewords * self.balance.position_words))
            words[spelling.length :, :for_position] = POSITION_WORD
        else:
            words[0, : round(n_codewords * ROOM_FOR_KNOWN)] = KNOWN_WORD
        if shorter is not None and n_codebooks >= shorter.n_codebooks:
            words[: shorter.n_codebooks] = shorter.words
        return words

    def codec(self, codebooks: Float32 | None, shorter: SemanticCodec | None = None) -> SemanticCodec:
        """Return the codec with codebooks (M, K, D); without any, one that can make the vectors of items."""
        map_ = self.fitted.map
        weights = self.weights() if shorter is None else shorter.weights
        if codebooks is None:
            codebooks = np.zeros((1, 1, map_.spelling.n_columns + 1 + map_.n_position), dtype=np.float32)
        n_codebooks, n_codewords, _ = codebooks.shape
        words = self.words(n_codebooks, n_codewords, shorter if n_codewords > 1 else None)
        return SemanticCodec(
            codebooks,
            self.labels.classes,
            self.labels.multilabel,
            weights,
            words,
            map_,
            missing_label=self.missing_label,
        )

    def weights(self) -> Float32:
        """Return what errors in meaning and position count (3, 2), for items with labels, familiar ones, and new ones."""
        room = min(1.0, max(0.25, self.n_codebooks - 1) / (ROOM_FOR_POSITION - 1)) ** 2
        balance = self.balance
        weights = np.array([balance.labelled, balance.familiar, balance.new], dtype=np.float32)
        weights[:, 1] *= room
        return weights

    def item_rows(self, codec: SemanticCodec, rng: np.random.Generator) -> ItemRows:
        """Sample rows to learn codebooks from: as they come, and more where too few come without labels."""
        known = rng.permutation(np.flatnonzero(self.labels.known))
        unknown = rng.permutation(np.flatnonzero(~self.labels.known))
        lonely = max(0, len(known) - len(unknown))
        hidden = known[: round(self.balance.hidden * lonely)]
        made_up = round(self.balance.made_up * lonely) if len(self.fitted.novelty_of_new) else 0
        share = min(1.0, SAMPLE_ROWS / (len(known) + len(unknown) + len(hidden) + made_up))
        known, unknown, hidden = (each[: round(share * len(each))] for each in (known, unknown, hidden))
        L = self.fitted.map.n_columns
        labels = self.fitted.map.spelling.of_labels(self.labels.take(known), 0, len(known))
        vectors = np.concatenate(
            [
                codec.item_vectors(self.features(known, labelled=True), labels),
                codec.item_vectors(self.features(unknown)),
                codec.item_vectors(self._as_held_out(hidden)),
                codec.item_vectors(self._made_up(round(share * made_up), rng)),
            ]
        )
        kinds = item_kinds(vectors[:, L], np.arange(len(vectors)) < len(known))
        order = np.argsort(kinds, kind="stable")
        return ItemRows(vectors[order], kinds[order], codec.weights, L + 1)

    def _made_up(self, n: int, rng: np.random.Generator) -> Float32:
        """Return features (n, F) as rows of new classes may have them."""
        features = self.features(rng.integers(len(self.X), size=2 * n))
        return between_classes(
            features[:n], features[n:], self.fitted.novelty_of_new, self.fitted.map.n_columns, rng
        )

    def _as_held_out(self, rows: NDArray[np.intp]) -> Float32:
        """Return the features (r, F) of labelled rows (r,) as if the model had not seen them."""
        held = np.flatnonzero(self.labels.known)[self.fitted.held_rows]
        spelled = self.fitted.map.spelling.of_labels
        changed = as_held_out(
            self.features(rows),
            spelled(self.labels.take(rows), 0, len(rows)) > 0,
            self.fitted.held_features,
            spelled(self.labels.take(held), 0, len(held)) > 0,
            multilabel=self.labels.multilabel,
            n_jobs=self.n_jobs,
        )
        return self.fitted.map.with_opinions(changed)

    def stages(
        self,
        shorter: SemanticCodec | None,
        n_codewords: int,
        *,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
    ) -> Iterator[FitStage[CodebookStep]]:
        """Learn the codebooks."""
        rows = self.item_rows(self.codec(None, shorter), rng)
        steps = codebook_steps(
            rows,
            None if shorter is None else shorter.codebooks,
            self.words(self.n_codebooks, n_codewords, shorter),
            max_iter=max_iter,
            tol=tol,
            rng=rng,
            n_jobs=self.n_jobs,
        )
        yield FitStage(f"codes, {self.n_codebooks} codebooks", max_iter + 1, steps)

    def encoded(self, codec: SemanticCodec) -> Codes:
        """Return the codes (n, M) of all rows, with their labels where they are known."""
        if self.kept is None:
            return codec.encode(self.X, self.labels, n_jobs=self.n_jobs)
        codes = np.empty((len(self.X), codec.n_codebooks), dtype=np.uint8)
        for block in row_blocks(len(codes), ENCODED_ROWS):
            rows = slice(*block)
            items = codec.item_vectors(
                self.kept[rows], self.fitted.map.spelling.of_labels(self.labels, *block)
            )
            codes[rows] = self._encoded(codec, items, self.labels.known[rows])
        return codes

    def _encoded(self, codec: SemanticCodec, items: Float32, known: NDArray[np.bool_]) -> Codes:
        """Return the codes (n, M) of item vectors (n, D), on all threads."""
        codes = np.empty((len(items), codec.n_codebooks), dtype=np.uint8)

        def encode(block: tuple[int, int]) -> None:
            rows = slice(*block)
            codes[rows] = codec.encode_vectors(items[rows], known[rows])

        for _ in ordered_map(encode, row_blocks(len(codes)), self.n_jobs):
            pass
        return codes

    def calibrated(self, codec: SemanticCodec, codes: Codes, rng: np.random.Generator) -> SemanticCodec:
        """Return the codec with the curves from scores to probabilities that held-out rows ask for."""
        held = self.fitted.held_features
        if not len(held):
            return codec
        known = np.flatnonzero(self.labels.known)
        labels = self.labels.take(known)
        asking = labels.take(self.fitted.held_rows)
        settled = held.copy()
        settled[:, self.fitted.map.n_columns] = 0  # among items that all have labels nothing is new
        tables = codec.tables_of(codec.prepare(settled, all_labelled=True))
        curve = fit_curve(*first_answers(tables, asking, codes[known], labels, self.n_jobs))
        return replace(
            codec, curves=as_curves([curve, *self._curves_of_unlabelled(codec, labels, asking, rng)])
        )

    def _curves_of_unlabelled(
        self, codec: SemanticCodec, labels: Labels, asking: Labels, rng: np.random.Generator
    ) -> list[Float32]:
        """Return the curves for items without labels, from rows that play them; some classes play new ones."""
        known = np.flatnonzero(self.labels.known)
        chosen = np.sort(rng.permutation(len(known))[:CALIBRATION_ROWS])
        L, held, items = labels.n_labels, self.fitted.held_features, labels.take(chosen)
        if len(self.fitted.novelty_of_new) and labels.indices is not None:
            new = self._neighbouring_classes(min(max(1, round(self.fitted.new_classes * L)), L - 1), rng)
            placed = self.fitted.placed_without(self.X, self.labels, new, rng)
            rows = self._playing_new(self._as_held_out(known[chosen]), known[chosen], new, placed, rng)
            held = self._playing_new(held, known[self.fitted.held_rows], new, placed, rng)
        elif len(held) > 1:  # held-out rows answer each other, as honest as they ask
            answering = np.arange(1, len(held), 2)
            rows, items = held[answering], asking.take(answering)
            held, asking = held[::2], asking.take(np.arange(0, len(held), 2))
        else:
            rows = self._as_held_out(known[chosen])
        codes = self._encoded(codec, codec.item_vectors(rows), np.zeros(len(rows), dtype=bool))
        tables = codec.tables_of(codec.prepare(held))
        products, relevant = first_answers(tables, asking, codes, items, self.n_jobs)
        which = codec.curves_of(held[spread_rows(len(held), CALIBRATION_QUERIES)]) - 1
        of_all = fit_curve(products, relevant)
        curves = []
        for each in range(len(NOVELTY_BINS) + 1):
            mine = which == each
            enough = mine.sum() >= FEWEST_QUERIES
            curves.append(fit_curve(products[mine], relevant[mine]) if enough else of_all)
        return curves

    def _neighbouring_classes(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the numbers (n,) of a class and those nearest to it: what is new is often of one kind."""
        means = unit_rows(self.fitted.map.means)
        return np.argsort(-(means @ means[rng.integers(len(means))]), kind="stable")[:n]

    def _playing_new(
        self,
        features: Float32,
        numbers: NDArray[np.intp],
        new: NDArray[np.intp],
        placed: Callable[[Float32], Float32] | None,
        rng: np.random.Generator,
    ) -> Float32:
        """Return features (n, F) of rows with these numbers (n,), in which those of some classes look as if these were new.

        `placed` gives their positions, if these are others then.
        """
        assert self.labels.indices is not None
        own = self.labels.indices[numbers].astype(np.intp)
        rows = np.flatnonzero(np.isin(own, new))
        map_ = self.fitted.map
        left_out = as_left_out(
            features[rows],
            own[rows],
            self.fitted.novelty_of_new,
            self.fitted.sureness_of_new,
            map_.spelling,
            rng,
        )
        if placed is not None:
            first, k = map_.n_columns + 1, map_.metric.shape[1]
            left_out[:, first : first + k] = placed(as_float32(self.X[numbers[rows]]))
        changed = features.copy()
        changed[rows] = map_.with_opinions(left_out)
        return changed


def _spelling(labels: Labels, n_codebooks: int, n_codewords: int, rng: np.random.Generator) -> Spelling:
    """Choose how labels are spelled: with codewords of their own where there are enough of these, each other than all others.

    Where codes are too short for that, a few labels have the same words: no code that is learned keeps more of them (of 100
    labels in 49 codes MAP .50, with learned words .13). Labels that come several a row have a column each, and from
    `MOST_COLUMNS` labels on a few words, for which codewords are learned.
    """
    n_labels, most = labels.n_labels, min(n_codebooks, MOST_WORDS)
    own = int(n_codewords * ROOM_FOR_LABELS)
    if not labels.multilabel:
        for n_words in (own, n_codewords):
            if n_words**most >= n_labels:
                return spell_labels(n_labels, n_words, rng)
        if min(own, most) > 1 and n_labels <= MOST_SHARING * own**most:
            return spell_labels(n_labels, own, rng, most)
    enough = int(np.ceil(n_labels ** (1 / MOST_WORDS)))
    return spell_labels(n_labels, MOST_COLUMNS if n_labels <= MOST_COLUMNS else max(n_codewords, enough), rng)


def _places(spelling: Spelling) -> NDArray[np.intp]:
    """Return the place (r,) in a label that every column is a word for."""
    first = np.concatenate([spelling.words[:, 1:].min(axis=0), [spelling.n_columns]])
    return np.searchsorted(first, np.arange(spelling.n_columns), side="right")
