"""The audit of labelled items: checks its input, calls the parts, and lists what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Array, ArrayLike, Codes, Float64
from supquant.auditing.classes import NORMAL_GAP, class_rows, classes_like_two, confused_pairs, gaps_inside
from supquant.auditing.duplicates import equal_links, near_links
from supquant.auditing.findings import CLASS_COLUMNS, COLUMNS, KINDS, Audit, AuditTable
from supquant.auditing.judgement import (
    MIN_JUDGED_ROWS,
    Entries,
    Judgement,
    judge_labels,
    learn_out_of_fold,
)
from supquant.auditing.logistic import learn_logistic
from supquant.auditing.neighbours import Neighbours, find_neighbours
from supquant.auditing.usualness import N_NEAREST
from supquant.errors import InputError
from supquant.estimators.base import CodeEstimator
from supquant.index import CodeIndex
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_integer, random_generator, resolve_jobs
from supquant.inputs.validation import check_training_vectors
from supquant.interrupts import defers_interrupts
from supquant.model.codec import SupervisedCodec
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.sources import VectorSource

MIN_BELONGING = 0.2
"""A row looks like no class if it belongs to the best one less than this: its belief, over the square of its loneliness."""

DOUBT_RATIO = 0.5
"""With several labels per row, a label is doubted if the belief in it is below this fraction of the mean over rows with it."""


@defers_interrupts
def audit(
    items: Any,
    y: Any = None,
    *,
    ids: ArrayLike | None = None,
    texts: Sequence[str | None] | None = None,
    n_neighbours: int = 10,
    missing_label: object = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Audit:
    """Find labels that look wrong, rows that occur twice, and classes that are confused or look like two.

    Every label is judged by a classifier that did not see it, by the labels of the nearest rows, and by what rows that look alike
    are called. As many labels are listed as seem to be wrong.

    Parameters
    ----------
    items : array-like of shape (n, p), VectorSource, fitted model or CodeIndex
        Vectors. Of a model the codes of its training rows are taken, and of an index the codes of its items. Codes of rows that a
        model was trained on know something of their labels, so wrong labels are found less well by codes than by vectors.
    y : labels as in `SupervisedQuantizer.fit`, or None, default=None
        Some may be unknown: for these rows labels are suggested. A row may have several labels. None takes the labels of a
        `VectorSource`.
    ids : array-like of shape (n,) or None, default=None
        Names of the rows. None takes those of the source or of the index, or row numbers.
    texts : sequence of n str or None, default=None
        Texts of the rows. Near-duplicates then need nearly the same words.
    n_neighbours : int, default=10
        Number of nearest rows for `agreement`, and to look for near-duplicates among.
    missing_label : object, default=None
        A label that means "unknown", in addition to None, NaN and masked entries.
    random_state : int, Generator or None, default=0
        Seed of anchors and samples.
    n_jobs : int or None, default=None
        Number of threads; None takes all cores. The findings do not depend on it.
    callback : callable or None, default=None
        Called with a `supquant.progress.Progress` after every stage.

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        If there are fewer than two rows or two labels, or if labels do not fit the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import supquant
    >>> X, y = load_digits(return_X_y=True)
    >>> y[7] = 1  # it was a seven
    >>> found = supquant.audit(X[:600], y[:600])
    >>> first = found.suspicious[0]
    >>> int(first.row), first.label, first.suggested
    (7, 1, 7)
    """
    X, y, names, codes = _read_items(items, y, ids)
    k = check_integer(n_neighbours, "n_neighbours", 1)
    jobs = resolve_jobs(n_jobs)
    X = check_training_vectors(X)
    if len(X) < 2:
        raise InputError(f"an audit compares rows, so it needs at least 2 of them; got {len(X)}")
    labels = read_labels(y, n_rows=len(X), missing=True, missing_label=missing_label)
    names = _read_names(names, len(X), "ids")
    texts = None if texts is None else _read_names(texts, len(X), "texts")
    rng = random_generator(random_state)
    reporter = Reporter(callback)
    with reporter.task("neighbours"):
        neighbours = find_neighbours(X, k, rng, jobs, 0 if labels.multilabel else N_NEAREST)
    with reporter.task("out of fold"), single_blas():
        judge = learn_out_of_fold(X, labels, rng, jobs)
        regression = None
        if labels.indices is not None:
            regression = learn_logistic(X, labels.indices.astype(np.int64), labels.n_labels, rng, jobs)
    with reporter.task("labels"), single_blas():
        judgement = judge_labels(labels, judge, regression, neighbours, jobs)
    with reporter.task("classes"), single_blas():
        inside = gaps_inside(scipy.sparse.csc_array(labels.sparse()), neighbours.positions, 0)
    links = near_links(neighbours) if codes is None else equal_links(codes, texts)
    duplicates = (links if texts is None else links.with_texts(texts)).groups(len(X))
    return _listed(labels, names, judgement, neighbours, duplicates, inside)


def _read_items(items: Any, y: Any, ids: Any) -> tuple[Any, Any, Any, Codes | None]:
    """Return vectors (n, p), labels and names of what an audit was given, and codes (n, M) if it was given these."""
    if isinstance(items, VectorSource):
        return items.X, items.labels if y is None else y, items.ids if ids is None else ids, None
    if isinstance(items, CodeIndex):
        names = items.ids
        of_items = items.codes(names)
        return _positions(items.codec, of_items), y, names if ids is None else ids, of_items
    if isinstance(items, CodeEstimator):
        codes = getattr(items, "training_codes_", None)
        if codes is None:
            raise InputError(
                "a model that was loaded from a file has no training rows: give vectors, or an index"
            )
        return _positions(items.codec_, codes), y, ids, codes
    return items, y, ids, None


def _positions(codec: Any, codes: NDArray[np.uint8]) -> Array:
    """Return what codes (n, M) say about where items lie, without what they say about labels."""
    decoded = codec.decode(codes)
    return decoded[:, codec.map.spelling.n_columns + 1 :] if isinstance(codec, SupervisedCodec) else decoded


def _read_names(given: Any, n: int, parameter: str) -> list[Any]:
    """Return the names or texts of n rows, row numbers if there are none."""
    if given is None:
        return list(range(n))
    names = given.to_pylist() if hasattr(given, "to_pylist") else np.asarray(given, dtype=object).tolist()
    if len(names) != n:
        raise InputError(f"{parameter} must name each of the {n} rows, got {len(names)}")
    return names


def _listed(
    labels: Labels,
    names: list[Any],
    judgement: Judgement,
    neighbours: Neighbours,
    duplicates: tuple[NDArray[np.int64], Float64],
    inside: tuple[Float64, NDArray[np.bool_]],
) -> Audit:
    """Return all findings as tables."""
    given, best = judgement.given, judgement.best
    sizes = np.bincount(given.label, minlength=labels.n_labels)
    judged = sizes[given.label] >= MIN_JUDGED_ROWS
    if judgement.wrong is None:
        usual = np.bincount(given.label, given.belief, minlength=labels.n_labels) / np.maximum(sizes, 1)
        taken = given.belief >= DOUBT_RATIO * usual[given.label]
        doubtful, doubt = judged & ~taken, 1 - given.belief
    else:
        doubt = judgement.wrong
        taken = best.label[given.row] == given.label
        doubtful = np.zeros(len(doubt), dtype=bool)
        doubtful[np.argsort(-doubt, kind="stable")[: round(np.nansum(doubt))]] = True
        doubtful &= judged & ~taken
    given = Entries(given.row, given.label, np.where(judged, given.probability, np.nan), given.agreement)
    write = _Lines(labels, names)
    lines: list[tuple[Any, ...]] = [
        *write.doubted(given.take(doubtful), doubt[doubtful], None if labels.multilabel else best),
        *write.forgotten(judgement.forgotten, "missing"),
        *write.forgotten(best.take(~labels.known), "unlabelled"),
        *write.duplicates(*duplicates),
        *write.strange(best, neighbours.loneliness()),
    ]
    if not labels.multilabel:
        own, other = given.label[judged], best.label[given.row][judged]
        for a, b, count, share in confused_pairs(own, other, labels.n_labels):
            lines.append(write.line("confused", label=a, suggested=b, score=share, rows=count))
    gaps = inside[0]
    lines += [
        write.line("two", label=label, score=1 - NORMAL_GAP / gaps[label], rows=sizes[label])
        for label in classes_like_two(*inside)
    ]
    alone = labels.classes[sizes == 1].tolist()
    notes = []
    if alone:
        shown = ", ".join(map(str, alone[:5])) + (", ..." if len(alone) > 5 else "")
        notes.append(f"{len(alone)} labels have one row each and cannot be judged: {shown}")
    table = class_rows(labels.classes, judgement, taken, doubtful, gaps)
    wrong = np.full(len(labels), np.nan)
    if judgement.wrong is not None:
        wrong[given.row] = judgement.wrong
    return Audit(
        AuditTable.of(COLUMNS, lines),
        AuditTable.of(CLASS_COLUMNS, table),
        tuple(notes),
        len(labels),
        labels.n_unlabelled,
        wrong,
    )


class _Lines:
    """Writes the lines of the table of findings."""

    def __init__(self, labels: Labels, names: list[Any]) -> None:
        self._labels = labels
        self._classes = labels.classes.tolist()
        self._names = names

    def line(
        self, kind: str, row: int = -1, label: Any = None, suggested: Any = None, **values: Any
    ) -> tuple[Any, ...]:
        """Return one line; labels are given by their numbers."""
        assert kind in KINDS
        nothing = {
            "score": np.nan,
            "probability": np.nan,
            "suggested_probability": np.nan,
            "agreement": np.nan,
        }
        found = nothing | {"group": -1, "conflict": False, "rows": 1} | values
        found |= {
            "kind": kind,
            "row": row,
            "id": None if row < 0 else self._names[row],
            "label": None if label is None else self._classes[label],
            "suggested": None if suggested is None else self._classes[suggested],
        }
        return tuple(found[name] for name in COLUMNS)

    def doubted(self, given: Entries, doubt: Float64, best: Entries | None) -> Iterator[tuple[Any, ...]]:
        """Yield lines for given labels that look wrong, with what looks right if a row has one label."""
        for at in np.argsort(-doubt, kind="stable"):
            row = given.row[at]
            yield self.line(
                "label",
                row,
                given.label[at],
                None if best is None else best.label[row],
                score=doubt[at],
                probability=given.probability[at],
                suggested_probability=np.nan if best is None else best.probability[row],
                agreement=given.agreement[at],
            )

    def forgotten(self, entries: Entries, kind: str) -> Iterator[tuple[Any, ...]]:
        """Yield lines for labels that rows do not have, and that much speaks for."""
        belief = entries.belief
        for at in np.argsort(-belief, kind="stable"):
            yield self.line(
                kind,
                entries.row[at],
                suggested=entries.label[at],
                score=belief[at],
                suggested_probability=entries.probability[at],
                agreement=entries.agreement[at],
            )

    def duplicates(self, groups: NDArray[np.int64], distances: Float64) -> Iterator[tuple[Any, ...]]:
        """Yield lines for rows of groups of near-duplicates; groups whose labels differ come first."""
        members = np.flatnonzero(groups >= 0)
        members = members[np.argsort(groups[members], kind="stable")]
        Y = self._labels.sparse()
        found = np.split(members, np.flatnonzero(np.diff(groups[members])) + 1) if len(members) else []
        differing = [_differ(Y[rows[self._labels.known[rows]]]) for rows in found]
        for number, at in enumerate(np.argsort(np.logical_not(differing), kind="stable")):
            for row in found[at]:
                yield self.line(
                    "duplicate",
                    row,
                    self._first_label(row),
                    score=1 - min(distances[row], 1.0),
                    group=number,
                    conflict=differing[at],
                    rows=len(found[at]),
                )

    def strange(self, best: Entries, loneliness: Float64) -> Iterator[tuple[Any, ...]]:
        """Yield lines for rows that look like no class."""
        belonging = best.belief / np.maximum(loneliness, 1) ** 2
        rows = np.flatnonzero(belonging < MIN_BELONGING)
        for row in rows[np.argsort(belonging[rows], kind="stable")]:
            yield self.line(
                "strange",
                row,
                self._first_label(row),
                best.label[row],
                score=1 - belonging[row],
                suggested_probability=best.probability[row],
            )

    def _first_label(self, row: int) -> int | None:
        """Return the number of the label of a row, the first one if it has several; None if it has none."""
        if self._labels.indices is not None:
            return int(self._labels.indices[row]) if self._labels.indices[row] >= 0 else None
        assert self._labels.indicator is not None
        carried: Iterable[int] = self._labels.indicator[[row]].indices.tolist()
        return next(iter(carried), None)


def _differ(Y: Any) -> bool:
    """Return whether rows (b, L) have different labels."""
    return Y.shape[0] > 1 and bool(abs(Y - Y[[0] * Y.shape[0]]).sum() > 0)
