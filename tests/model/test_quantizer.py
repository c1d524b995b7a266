"""The default estimator: what it learns, what an interrupt leaves, and what it refuses."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, LabelKernel, ProductQuantizer, SupervisedQuantizer, kernels
from supquant.errors import InputError
from supquant.estimators import calibration
from supquant.inputs.labels import read_labels
from supquant.model import calibration as model_calibration
from supquant.model import label_kernel

SMALL = {"n_codewords": 8, "max_iter": 3, "random_state": 0}


@parametrize_with_checks([SupervisedQuantizer(2, n_codewords=4, max_iter=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_auto_features_have_a_kernel_for_narrow_vectors_and_none_for_wide_ones(clusters, monkeypatch):
    quantizer = SupervisedQuantizer(1, **SMALL | {"max_iter": 1})
    assert quantizer.fit(*clusters).codec_.feature_map.kernel.anchors.shape == (200, 8)  # a third is held out
    monkeypatch.setattr(label_kernel, "WIDE", 8)
    assert quantizer.fit(*clusters).codec_.feature_map.kernel is not None
    monkeypatch.setattr(label_kernel, "WIDE", 7)
    assert quantizer.fit(*clusters).codec_.feature_map.kernel is None


def test_learned_codes_find_more_rows_of_the_same_class_than_unsupervised_ones(digits):
    X, y = digits[0][:500], digits[1][:500]
    Q, labels = digits[0][500:700], digits[1][500:700]
    ours = SupervisedQuantizer(2, n_codewords=16, max_iter=5, random_state=0).fit(X, y)
    theirs = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)

    def precision(quantizer):
        nearest = quantizer.rank(Q, quantizer.training_codes_)[:, :20]
        return (y[nearest] == labels[:, None]).mean()

    assert precision(ours) > precision(theirs) + 0.1
    assert precision(ours) > 0.85


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_after_a_round_leaves_the_model_of_that_round(clusters, error):
    def interrupt(progress):
        if progress.stage.startswith("codes"):
            raise error

    quantizer = SupervisedQuantizer(2, **SMALL, callback=interrupt)
    with pytest.raises(error):
        quantizer.fit(*clusters)
    assert len(quantizer.objective_) > 0
    assert quantizer.encode(clusters[0]).shape == (300, 2)
    assert (quantizer.predict(clusters[0]) == clusters[1]).mean() > 0.9


def test_the_curve_is_fitted_to_the_first_answers_of_held_out_queries(digits, monkeypatch):
    X, y = digits[0][:400], digits[1][:400]
    seen = []
    monkeypatch.setattr(
        model_calibration, "fit_curve", lambda *pairs: seen.append(pairs) or np.float32([[0, 1], [0, 1]])
    )
    kernel = LabelKernel(50, random_state=0)
    quantizer = SupervisedQuantizer(2, n_codewords=16, features=kernel, max_iter=1, random_state=0).fit(X, y)
    held, _ = kernel.learn(X, read_labels(y))
    products, relevant = seen[0]  # among items with labels; the others are for items without
    codec = quantizer.codec_
    features = codec.map.from_logits(held.held_logits, X[held.held_rows].astype(np.float32))
    features[:, codec.map.n_columns] = 0  # items all have labels: nothing is new
    tables = codec.tables_of(codec.prepare(features, all_labelled=True))
    sums = -kernels.active().table_sums(quantizer.training_codes_, tables)
    first = np.sort(sums, axis=1)[:, -calibration.ANSWERS :]
    np.testing.assert_allclose(np.sort(products[:, : calibration.ANSWERS], axis=1), first, atol=1e-5)
    # labels are those of the answers: rows that look like the query, and rows from everywhere
    assert relevant[:, : calibration.ANSWERS].mean() > 2 * relevant[:, calibration.ANSWERS :].mean()
    base = (y[held.held_rows][:, None] == y).mean()
    assert relevant[:, calibration.ANSWERS :].mean() == pytest.approx(base, abs=0.03)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_a_share_of_new_classes_outside_its_range_is_refused(digits, share):
    with pytest.raises(ValueError, match="new_classes must be"):
        SupervisedQuantizer(2, new_classes=share).fit(*digits)


@pytest.mark.parametrize("features", ["kernel", None, AnchorKernel(10)], ids=str)
def test_features_of_another_kind_are_refused(clusters, features):
    with pytest.raises(InputError, match="features must be 'auto' or a LabelKernel, got"):
        SupervisedQuantizer(2, **SMALL, features=features).fit(*clusters)
