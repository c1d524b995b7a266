"""How long a fit by meaning will take: the expected time of each stage, known before the fit begins.

A cost is a number of multiplications and additions, counted from the sizes of the fit, times a factor where the work is slower
than a matrix product. One product, made at the start, tells the speed of the machine and turns costs into seconds. Errors are
corrected while the fit runs: `supquant.progress.Plan` scales the stages that are left by the speed of those that are done.
"""

from __future__ import annotations

import time

import numpy as np

from supquant.features.kernel_rows import FEWEST_GRAM_ROWS, ROWS_A_FEATURE
from supquant.features.label_kernel import (
    ANCHORS_OF_MANY_LABELS,
    MANY_LABELS,
    MOST_ANCHORS,
    MOST_ROWS,
    held_count,
)
from supquant.features.leaving_out import N_FOLDS, STUDY_ANCHORS, STUDY_ROWS
from supquant.quantizers.item_codes import KMEANS_ITERATIONS, KMEANS_ROWS_PER_CODEWORD
from supquant.quantizers.meaning_curves import UNLABELLED_ROWS

CLASSIFIER, NOVELTY, FEATURES, CALIBRATION = "classifier", "new classes", "features", "calibration"
"""The stages of a fit have these names, beside those of the codes."""

ENCODING = "codes of all rows"
"""The work after the last round. It is planned and reports nothing: a callback that raises there would lose the model."""

EXPECTED_PASSES = 6
"""Logistic regression makes about this number of passes. The later solution for all rows counts as one of them."""

FACTORS = 3
"""The classifier needs this number of Cholesky factors: one for each ridge that is tried, then that of all rows."""

EXPECTED_ROUNDS = 5
"""A fit takes about this number of rounds of codes and codebooks. They end when a round gains little."""

FIRST_VISITS, LATER_VISITS = 5, 3
"""A search visits every codebook about so often until nothing changes: without codes to start from, and with them."""

POSITION_COLUMNS = 48
"""A position has about this number of columns. The vector of an item has one more for every word of a label."""

SLOWER = 2.0
"""An operation of a factor, a solution or a pass takes as long as this number of operations of a float32 product of large
matrices. It was measured on Banking77 with AVX-512."""

CLASSIFIER_FACTOR = 0.75
"""An operation of a classifier, whose matrices are large, takes this time in the same unit, measured on Banking77 and MNIST."""

SEARCH = 17.0
"""An addition in a search for codes takes this time in the same unit, measured on Banking77."""

STUDY_OPERATIONS, STUDY_OPERATIONS_A_ROW = 8e9, 3e6
"""Beside its classifier, one fold of the study of new classes takes this number of operations to judge rankings."""

CURVE_OPERATIONS = 6e10
"""The curves and the forecast at the end judge rankings, too, in this number of operations."""

CODEBOOK_ROWS = 1 << 15
"""Codebooks are learned from at most this number of rows."""

TRIAL_SIDE, TRIALS = 384, 3
"""Side of the matrices whose product tells the speed of the machine, and how often it is made."""

USUAL_SPEED = 0.5
"""Speed of the matrix products of a fit, as a part of that of the best trial."""


def codes_stage(n_codebooks: int) -> str:
    """Return the name of the stage of the codes.

    Examples
    --------
    >>> codes_stage(8)
    'codes, 8 codebooks'
    """
    return f"codes, {n_codebooks} codebooks"


def expected_seconds(
    n_rows: int,
    n_inputs: int,
    n_labels: int,
    n_codebooks: int,
    n_codewords: int,
    *,
    max_iter: int,
    from_shorter: bool,
    n_jobs: int,
) -> dict[str, float]:
    """Return the expected seconds of every stage of a fit.

    Parameters
    ----------
    n_rows, n_inputs : int
        Size of the vectors.
    n_labels : int
    n_codebooks, n_codewords : int
    max_iter : int
        Rounds at the most.
    from_shorter : bool
        Whether the fit starts from a shorter code, whose features it takes.
    n_jobs : int
        Number of threads.

    Examples
    --------
    >>> seconds = expected_seconds(60_000, 64, 10, 8, 256, max_iter=10, from_shorter=False, n_jobs=1)
    >>> list(seconds)
    ['classifier', 'new classes', 'features', 'codes, 8 codebooks', 'codes of all rows', 'calibration']
    """
    few = n_labels <= MANY_LABELS
    learned = min(n_rows, MOST_ROWS)
    anchors = min(MOST_ANCHORS if few else ANCHORS_OF_MANY_LABELS, max(1, n_rows - held_count(n_rows)))
    kernel = 2 * anchors * n_inputs  # of one row
    kept = few and n_rows <= MOST_ROWS  # then the classifier leaves the kernel features of all rows
    M, K, D = n_codebooks, n_codewords, min(n_labels, n_codewords) + POSITION_COLUMNS
    coded = min(1.6 * n_rows, CODEBOOK_ROWS)
    rounds = min(max_iter, EXPECTED_ROUNDS)
    visit = SEARCH * M * M * K  # of one row and all codebooks
    encoding = 2 * M * K * D + FIRST_VISITS * visit  # of one row
    start = M * min(coded, KMEANS_ROWS_PER_CODEWORD * K) * 2 * K * D * (KMEANS_ITERATIONS + 1)
    a_round = coded * (2 * M * K * D + LATER_VISITS * visit) + 2 * SLOWER * (M * K) ** 3 / 3
    study_rows, study_labels = min(n_rows, STUDY_ROWS), min(n_labels, MANY_LABELS)
    study = STUDY_OPERATIONS + STUDY_OPERATIONS_A_ROW * study_rows
    study += _classifier(study_rows, min(STUDY_ANCHORS, study_rows), n_inputs, study_labels)
    judged = min(n_rows, UNLABELLED_ROWS)  # by the curves and by the forecast
    costs = {
        CLASSIFIER: _classifier(learned, anchors, n_inputs, n_labels),
        NOVELTY: N_FOLDS * study + 2 * n_rows * n_inputs**2,
        FEATURES: n_rows * (4 * anchors * n_labels + (12 * POSITION_COLUMNS * n_inputs if kept else kernel)),
        codes_stage(M): start + coded * encoding + rounds * a_round,
        ENCODING: n_rows * encoding,
        CALIBRATION: CURVE_OPERATIONS + 1.5 * judged * encoding,
    }
    if from_shorter:
        costs = {name: cost for name, cost in costs.items() if name not in (CLASSIFIER, NOVELTY, CALIBRATION)}
    rate = USUAL_SPEED * operations_a_second() * n_jobs
    return {name: cost / rate for name, cost in costs.items()}


def _classifier(n_rows: int, anchors: int, n_inputs: int, n_labels: int) -> float:
    """Return the operations of a kernel classifier: sums over rows, factors, and passes with a solution after each."""
    summed = min(n_rows, max(ROWS_A_FEATURE * anchors, FEWEST_GRAM_ROWS))
    sums = 2 * n_rows * anchors * n_inputs + 2 * summed * anchors**2
    factors = SLOWER * FACTORS * anchors**3 / 3
    one_pass = SLOWER * 4 * n_labels * (n_rows * anchors + anchors**2)
    return CLASSIFIER_FACTOR * (sums + factors + EXPECTED_PASSES * one_pass)


def operations_a_second() -> float:
    """Return the operations of a float32 matrix product that one thread makes in a second, the best of some trials made now.

    Examples
    --------
    >>> operations_a_second() > 0
    True
    """
    trial = np.full((TRIAL_SIDE, TRIAL_SIDE), 1 / TRIAL_SIDE, dtype=np.float32)
    trial = trial @ trial  # the first product also loads the library
    best = np.inf
    for _ in range(TRIALS):
        began = time.perf_counter()
        trial @ trial
        best = min(best, time.perf_counter() - began)
    return 2 * TRIAL_SIDE**3 / max(best, 1e-9)
