"""The default model: the estimator, and its fit from top to bottom.

It begins with "Supervised Quantization for Similarity Search" (CVPR 2016) and goes beyond it: codes hold meaning and position.
`supquant.published` has the paper's own method.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike
from supquant.codec.codebooks import as_halves
from supquant.errors import InputError
from supquant.estimators.base import LabelEstimator, check_enough_rows
from supquant.estimators.course import Course, Record
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_integer, check_nonnegative, random_generator, resolve_jobs
from supquant.inputs.validation import check_columns, check_training_rows, distant_centre
from supquant.interrupts import defers_interrupts
from supquant.model.calibration import fit_curves, try_unlabelled
from supquant.model.codec import SupervisedCodec
from supquant.model.discovery import FoundClasses, find_groups, group_positions
from supquant.model.features import inherited_features, learn_features
from supquant.model.item_codes import CodebookStep, codebook_steps
from supquant.model.item_rows import blank_codec, encode_rows, sample_items
from supquant.model.label_kernel import LabelKernel, make_label_kernel
from supquant.model.summary import ModelSummary, summarize
from supquant.model.words import choose_spelling
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.rows import CentredRows

_logger = logging.getLogger("supquant")


class SupervisedQuantizer(LabelEstimator):
    """Short codes that keep what vectors mean, learned from labelled vectors.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, from 1 to 64.
    n_codewords : int, default=256
        K, the number of codewords in each codebook, from 2 to 256.
    features : "auto" or LabelKernel, default="auto"
        The classifier of labels, from which codes learn what vectors mean. ``"auto"`` is a `LabelKernel`; for vectors of more
        than 2000 dimensions it has no anchors.
    new_classes : float or None, default=None
        Expected fraction of vectors from unknown classes, in [0, 1). With 0, no vector looks new. None estimates it from the rows
        without labels, and takes .05 if there are too few of them. With `init` it is that of `init`. It has no effect if rows
        have several labels.
    missing_label : str, number or None, default=None
        A label that means "unknown", in addition to None, NaN, pandas' NA and masked entries.
    init : SupervisedQuantizer or None, default=None
        A fitted quantizer with fewer codebooks and the same rows, from which the fit starts.
    max_iter : int, default=30
        Maximum number of rounds in which codebooks are learned.
    tol : float, default=1e-3
        Learning stops when the relative improvement of a round falls below `tol`, or below 0.2.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The codes do not depend on it.
    random_state : int, Generator or None, default=None
        Seed. The same seed gives the same codes.
    callback : callable or None, default=None
        Called with a `supquant.progress.Progress` after every iteration.
    verbose : int, default=0
        If above 0, iterations are logged.

    Attributes
    ----------
    codec_ : SupervisedCodec
        The learned model; it encodes, decodes and makes tables.
    classes_ : (L,) array
        The labels found in `fit`, then those of `extend`.
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        For every step: its name, the error ``quantization``, and the ``total``.
    n_iter_ : int
        Number of iterations.
    n_unlabelled_ : int
        Number of training rows without a label.
    summary_ : ModelSummary
        Counts of rows, labels and different codes, and warnings. It also predicts MAP for items with labels, without labels,
        and of new classes. ``print(sq.summary_)`` shows it.
    found_ : FoundClasses or None
        The classes that nobody has labelled: the groups of rows without labels that look new. None if nothing is new, or if fewer
        than 200 rows have no label. A model file keeps it.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> sq = SupervisedQuantizer(2, random_state=0).fit(X[:1500], y[:1500])
    >>> codes = sq.encode(X[1500:])
    >>> codes.shape, codes.dtype
    ((297, 2), dtype('uint8'))
    """

    codec_: SupervisedCodec
    summary_: ModelSummary | None
    objective_: list[Record]
    n_iter_: int
    _file_kind: ClassVar[str] = "supervised-quantizer"
    _codec_type: ClassVar[type[Any]] = SupervisedCodec
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        features: LabelKernel | Literal["auto"] = "auto",
        new_classes: float | None = None,
        missing_label: str | float | None = None,
        init: SupervisedQuantizer | None = None,
        max_iter: int = 30,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.n_codewords = n_codewords
        self.features = features
        self.new_classes = new_classes
        self.missing_label = missing_label
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn features, codebooks and calibration.

        Parameters
        ----------
        X : (n, p) array
            Vectors of any real dtype. A memory map is read in blocks.
        y : (n,) array of class labels, or (n, L) indicator matrix
            Labels are of any hashable type. An indicator matrix is dense or sparse. None, NaN, pandas' NA, a masked entry and
            `missing_label` mean that the label is unknown; in an indicator matrix, a whole row of them. Rows without labels
            help to learn the codebooks and the fraction of new classes.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step the estimator has the best model so far.
        """
        self._check_parameters()
        vectors = check_training_rows(X)
        check_columns(vectors.shape[1])
        labels = self._read_labels(y, len(vectors))
        check_enough_rows(len(vectors), self.n_codewords)
        n_jobs, rng = resolve_jobs(self.n_jobs), random_generator(self.random_state)
        kernel = make_label_kernel(self.features, vectors.shape[1], self.n_jobs, rng)
        shorter = self._shorter(vectors.shape[1])
        centre = distant_centre(vectors) if shorter is None else shorter.centre
        if centre is not None:
            vectors = CentredRows(vectors, centre)
        reporter = Reporter(self.callback, self.verbose)
        with single_blas():
            if shorter is None:
                rows = learn_features(
                    vectors,
                    labels,
                    kernel,
                    choose_spelling(labels, self.n_codebooks, self.n_codewords, rng),
                    new_classes=None if self.new_classes is None else float(self.new_classes),
                    rng=rng,
                    n_jobs=n_jobs,
                    reporter=reporter,
                )
            else:
                rows = inherited_features(vectors, labels, shorter.map, n_jobs, reporter)
            codec = blank_codec(rows, self.n_codebooks, self.n_codewords, shorter, self.missing_label)
            steps = codebook_steps(
                sample_items(rows, codec, rng),
                None if shorter is None else shorter.codebooks,
                codec.words,
                max_iter=self.max_iter,
                tol=self.tol,
                rng=rng,
                n_jobs=n_jobs,
            )
            course: Course[CodebookStep] = Course(reporter)
            try:
                course.take(f"codes, {self.n_codebooks} codebooks", self.max_iter + 1, steps)  # + the start
            finally:  # also after an interrupt: the last finished round is the best one
                if course.last is not None:
                    codec = replace(codec, codebooks=as_halves(course.last.codebooks))
                    self._store(replace(codec, centre=centre), encode_rows(rows, codec))
                    self.objective_, self.n_iter_ = course.record, course.n_iter
                    self.n_unlabelled_ = labels.n_unlabelled
                    self.summary_ = ModelSummary.of(self.training_codes_, labels)
            with reporter.task("calibration"):
                codes = self.training_codes_
                trial = try_unlabelled(rows, codec, codes, rng)
                self.summary_ = summarize(rows, codec, codes, trial)
                curves = fit_curves(rows, codec, codes, trial) if shorter is None else shorter.curves
            found, map_ = None if shorter is None else shorter.found, codec.map
            if shorter is None and rows.map.clusters is not None:
                with reporter.task("found classes"):
                    found = find_groups(rows, rng)
                    if found is not None:
                        map_ = replace(map_, unnamed=group_positions(rows, found))
            self.codec_ = replace(codec, feature_map=map_, curves=curves, found=found, centre=centre)
        return self

    @property
    def found_(self) -> FoundClasses | None:
        """The classes that nobody has labelled, found among the rows without labels; None if nothing is new."""
        return self._codec().found

    def novelty(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the probability that vectors belong to no known class.

        It was learned by leaving classes out. With several labels per row, it is the probability of none of them.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n,) float32
        """
        codec: SupervisedCodec = self._codec()
        return codec.novelty(X, n_jobs=self.n_jobs)

    def discover(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return which of the found classes vectors belong to.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n,) int64
            Numbers of found classes, as in `found_`. It is -1 for vectors that are probably of a known class, and for new ones
            that are not like any found class.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> labels = [label if label < 9 and row % 2 else None for row, label in enumerate(y)]
        >>> sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, labels)
        >>> nines = sq.found_.typical[0][:5]
        >>> y[nines]
        array([9, 9, 9, 9, 9])
        >>> sq.discover(X[nines])
        array([0, 0, 0, 0, 0])
        """
        codec: SupervisedCodec = self._codec()
        return codec.discover(X, n_jobs=self.n_jobs).groups

    @defers_interrupts
    def extend(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add new classes from a few labelled rows of each.

        This needs neither the rows of `fit` nor new codes. An index with the new codec (`CodeIndex.with_codec`) also finds the
        items that it already has by the new labels.

        Parameters
        ----------
        X : (n, p) array
        y : (n,) labels of any kind that `fit` takes
            One label per row. The model must not know them yet. Rows without a label are left out.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import CodeIndex, SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> known, new = np.flatnonzero(y < 9), np.flatnonzero(y == 9)
        >>> sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[known], y[known])
        >>> index = CodeIndex(sq).add(X[new[5:]])
        >>> index = index.with_codec(sq.extend(X[new[:5]], y[new[:5]]))
        >>> sq.classes_
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        self.codec_ = self._codec().extended(X, y)
        return self

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return the vectors t of items, which codes approximate.

        Their products with those of `transform_queries` are the scores of the label ranking before calibration. A vector database
        that ranks by inner product finds what this model finds, without codes.

        Parameters
        ----------
        X : (n, p) array
        y : array-like or None, default=None
            The labels of the items, as for `encode`. The labels of items without are predicted.

        Returns
        -------
        (n, D) float32
        """
        codec: SupervisedCodec = self._codec()
        return codec.transform(X, y, n_jobs=self.n_jobs)

    def transform_queries(
        self,
        Q: ArrayLike,
        *,
        ranking: Literal["label", "position"] | None = None,
        novelty: ArrayLike | None = None,
        all_labelled: bool = False,
    ) -> NDArray[np.float32]:
        """Return the vectors v of queries, whose products with those of `transform` are scores.

        Parameters
        ----------
        Q : (q, p) array
        ranking : {"label", "position"} or None, default=None
            None takes ``"label"``. With ``"position"``, products order items by cosine.
        novelty : float, (q,) array or None, default=None
            The probability that a query is of no known class; None takes the model's prediction.
        all_labelled : bool, default=False
            Whether the labels of all items are known. Then no query is new, unless `novelty` says so.

        Returns
        -------
        (q, D) float32

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> sq = SupervisedQuantizer(2, n_codewords=32, random_state=0).fit(X[:1500], y[:1500])
        >>> scores = sq.transform_queries(X[1500:1510]) @ sq.transform(X[:1500]).T
        >>> y[scores.argmax(axis=1)]
        array([1, 7, 4, 6, 3, 1, 3, 9, 1, 7])
        """
        codec: SupervisedCodec = self._codec()
        return codec.query_vectors(Q, ranking, novelty=novelty, all_labelled=all_labelled, n_jobs=self.n_jobs)

    # checks -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        M = check_integer(self.n_codebooks, "n_codebooks", 1, 64)
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        check_integer(self.max_iter, "max_iter", 1)
        check_nonnegative(self.tol, "tol")
        if self.new_classes is not None and not 0 <= check_nonnegative(self.new_classes, "new_classes") < 1:
            raise InputError(f"new_classes must be at least 0 and below 1, got {self.new_classes!r}")
        if self.features != "auto" and not isinstance(self.features, LabelKernel):
            raise InputError(f"features must be 'auto' or a LabelKernel, got {self.features!r}")
        if self.init is None:
            return
        if not isinstance(self.init, SupervisedQuantizer):
            raise InputError(f"init must be a fitted SupervisedQuantizer or None, got {self.init!r}")
        shorter = self.init._codec()
        if shorter.n_codebooks > M or shorter.n_codewords != K:
            raise InputError(
                f"init must have at most n_codebooks={M} codebooks of n_codewords={K} codewords, "
                f"got {shorter.n_codebooks} of {shorter.n_codewords}"
            )

    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        labels = read_labels(y, n_rows=n_rows, missing=True, missing_label=self.missing_label)
        if self.init is not None and not np.array_equal(self.init.classes_, labels.classes):
            raise InputError(
                f"init was fitted to other labels: {self.init.classes_} there, {labels.classes} here"
            )
        if labels.n_unlabelled:
            _logger.info("%d of %d rows have no label", labels.n_unlabelled, n_rows)
        return labels

    def _shorter(self, width: int) -> SupervisedCodec | None:
        """Return the codec of `init`, which must have been fitted to vectors of this width."""
        if self.init is None:
            return None
        if self.init.codec_.n_inputs != width:
            raise InputError(f"init was fitted on {self.init.codec_.n_inputs} features, X has {width}")
        return self.init.codec_
