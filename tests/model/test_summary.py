"""What `summary_` says about a model, and its warnings."""

from dataclasses import replace

import numpy as np
import pytest

from supquant import SupervisedQuantizer
from supquant.model.summary import ModelSummary


@pytest.fixture(scope="module")
def blobs():
    """Rows (600, 12) around the corners of a cube, and their class (600,)."""
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=600)
    X = rng.normal(size=(600, 12)).astype(np.float32) + 4 * np.eye(12, dtype=np.float32)[y]
    return X, y


def fitted(X, y, **parameters):
    return SupervisedQuantizer(2, n_codewords=32, random_state=0, n_jobs=1, **parameters).fit(X, y)


def test_summary_of_well_separated_classes(blobs):
    X, y = blobs
    quantizer = fitted(X, y)
    summary = quantizer.summary_
    assert (summary.n_rows, summary.n_labels, summary.n_unlabelled) == (600, 6, 0)
    assert summary.n_codes == len(np.unique(quantizer.training_codes_, axis=0))
    assert summary.accuracy > 0.9
    assert summary.map_labelled > 0.9
    assert summary.map_unlabelled > 0.8
    assert summary.map_new is None  # no row shows what a new class is like
    assert summary.warnings == ()
    lines = str(summary).splitlines()
    assert len(lines) == 4
    assert "600" in lines[0]
    assert f"{summary.map_labelled:.3f} items with labels" in lines[3]


def test_shuffled_labels_give_a_warning(blobs):
    X, y = blobs
    summary = fitted(X, np.random.default_rng(1).permutation(y)).summary_
    assert summary.accuracy < 0.35
    assert len(summary.warnings) == 1
    assert "labels seem random" in summary.warnings[0]
    assert "Warning: The labels seem random" in str(summary)


def test_collapsed_codes_give_a_warning(blobs):
    _, y = blobs
    codes = np.zeros((len(y), 2), dtype=np.uint8)
    summary = replace(ModelSummary.of(codes), n_labels=6)
    assert summary.codes_collapse
    assert "only 1 different codes" in str(summary)
    assert not replace(summary, n_codes=7).codes_collapse
    assert not replace(summary, n_codebooks=1).codes_collapse


def test_rows_without_labels_are_counted(blobs):
    X, y = blobs
    some = [None if row % 3 == 0 else int(label) for row, label in enumerate(y)]
    summary = fitted(X, some).summary_
    assert summary.n_unlabelled == 200
    assert "200 of them without a label" in str(summary)


def test_several_labels_per_row_give_a_forecast_but_no_accuracy(blobs):
    X, y = blobs
    summary = fitted(X, np.stack([y % 2 == 0, y > 2, y >= 0], axis=1).astype(int)).summary_
    assert summary.accuracy is None
    assert summary.map_labelled > 0.5
    assert summary.map_new is None


def test_a_summary_does_not_change_the_codes(blobs, monkeypatch):
    X, y = blobs
    with_summary = fitted(X, y)
    monkeypatch.setattr(
        "supquant.model.quantizer.summarize", lambda fit, codec, codes, trial: ModelSummary.of(codes)
    )
    without = fitted(X, y)
    np.testing.assert_array_equal(with_summary.training_codes_, without.training_codes_)
    np.testing.assert_array_equal(with_summary.codec_.curves, without.codec_.curves)


def test_a_codec_is_shown_in_three_lines(blobs):
    lines = repr(fitted(*blobs).codec_).splitlines()
    assert lines == [
        "SupervisedCodec: 2 codebooks of 32 codewords",
        "  vectors of 12 dimensions, 6 labels",
        "  rankings: label, position",
    ]
