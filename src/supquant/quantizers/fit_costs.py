"""How long a fit by meaning will take: the expected time of each stage, known before the fit begins.

A cost is a number of multiplications and additions, counted from the sizes of the fit, times a factor where the work is slower
than a matrix product. One product, made at the start, tells the speed of the machine and turns costs into seconds. Errors are
corrected while the fit runs: `supquant.progress.Plan` scales the stages that are left by the speed of those that are done.
"""

from __future__ import annotations

import time

import numpy as np

from supquant.features.kernel_classifier import MOST_PASSES
from supquant.features.label_kernel import (
    ANCHORS_OF_MANY_LABELS,
    MANY_LABELS,
    MOST_ANCHORS,
    MOST_ROWS,
    held_count,
)
from supquant.features.leaving_out import N_FOLDS, STUDY_ANCHORS, STUDY_ROWS
from supquant.quantizers.item_codes import FIRST_SWEEPS, KMEANS_ITERATIONS, KMEANS_ROWS_PER_CODEWORD, RETRIES

CLASSIFIER, NOVELTY, FEATURES, CALIBRATION = "classifier", "new classes", "features", "calibration"
"""Names of the stages beside that of the codes."""

EXPECTED_PASSES = MOST_PASSES
"""Passes of logistic regression that a fit takes, both times together: they end early on most data."""

EXPECTED_ROUNDS = 6
"""Rounds of codes and codebooks that a fit takes; they end when one gains little."""

ITEM_COLUMNS = 48
"""Columns of a position, roughly; the vector of an item has one more for every label."""

SEARCH_FACTOR = 4.0
"""Time of one addition in a search for codes, in multiplications and additions of a matrix product."""

CALIBRATION_ROWS = 1 << 15
"""Rows that calibration encodes, at the most."""

TRIAL_SIDE = 384
"""Side of the matrices whose product tells the speed of the machine."""


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
    ['classifier', 'new classes', 'features', 'codes, 8 codebooks', 'calibration']
    """
    few = n_labels <= MANY_LABELS
    learned = min(n_rows, MOST_ROWS)
    anchors = min(MOST_ANCHORS if few else ANCHORS_OF_MANY_LABELS, max(1, n_rows - held_count(n_rows)))
    width = n_labels + ITEM_COLUMNS
    columns = min(n_labels, n_codebooks * n_codewords) + ITEM_COLUMNS
    coded = min(n_rows, 1 << 16) * 1.6
    kernel = 2 * anchors * n_inputs + 10 * anchors
    search = SEARCH_FACTOR * n_codebooks * n_codewords * n_codebooks * (1 + RETRIES)
    table = 2 * n_codebooks * n_codewords * columns
    start = KMEANS_ROWS_PER_CODEWORD * n_codewords * n_codewords * columns * 2 * KMEANS_ITERATIONS
    rounds = min(max_iter, EXPECTED_ROUNDS)
    costs = {
        CLASSIFIER: learned * (kernel + 2 * anchors**2 + 4 * EXPECTED_PASSES * anchors * n_labels)
        + 4 * anchors**3,
        NOVELTY: N_FOLDS
        * min(n_rows, STUDY_ROWS)
        * (2 * STUDY_ANCHORS**2 + 4 * EXPECTED_PASSES * STUDY_ANCHORS * min(n_labels, MANY_LABELS))
        + 2 * n_rows * n_inputs**2,
        FEATURES: n_rows * (kernel + 4 * anchors * width),
        codes_stage(n_codebooks): n_codebooks * start
        + coded * (table + FIRST_SWEEPS / 4 * search) * (1 + rounds / 3)
        + rounds * (n_codebooks * n_codewords) ** 3 / 3
        + n_rows * (table + FIRST_SWEEPS / 4 * search),
        CALIBRATION: min(n_rows, CALIBRATION_ROWS) * (table + FIRST_SWEEPS / 4 * search),
    }
    if from_shorter:
        costs = {name: cost for name, cost in costs.items() if name not in (CLASSIFIER, NOVELTY, CALIBRATION)}
    rate = operations_a_second() * n_jobs
    return {name: cost / rate for name, cost in costs.items()}


def operations_a_second() -> float:
    """Return the multiplications and additions of a float32 matrix product that one thread makes in a second, measured now.

    Examples
    --------
    >>> operations_a_second() > 0
    True
    """
    trial = np.full((TRIAL_SIDE, TRIAL_SIDE), 1 / TRIAL_SIDE, dtype=np.float32)
    trial = trial @ trial  # the first product also loads the library
    began = time.perf_counter()
    trial @ trial
    return 2 * TRIAL_SIDE**3 / max(time.perf_counter() - began, 1e-9)
