"""The rows that codebooks are learned from: rows with labels, rows without, and rows that imitate what the fit did not see."""

import numpy as np
import pytest

from supquant import SupervisedQuantizer
from supquant.model import quantizer
from supquant.model.item_rows import IMITATED_ROWS, sample_items
from supquant.model.vectors import item_novelty
from supquant.model.words import LABELLED, UNLABELLED


@pytest.fixture(scope="module")
def fits(digits):
    """For fits to labelled rows and to rows of which some have no label: the rows, and the codec."""
    X, y = digits
    told = []

    def listen(rows, codec, rng):
        told.append((rows, codec))
        return sample_items(rows, codec, rng)

    half = [label if row % 2 else None for row, label in enumerate(y[:1000].tolist())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantizer, "sample_items", listen)
        for labels in (y[:1000], half):
            SupervisedQuantizer(2, n_codewords=32, max_iter=1, random_state=0).fit(X[:1000], labels)
    return dict(zip(("labelled", "half"), told, strict=True))


def sampled(fit):
    rows, codec = fit
    return rows, codec, sample_items(rows, codec, np.random.default_rng(0))


def test_rows_with_labels_stand_for_rows_without_and_some_for_new_ones(fits):
    rows, codec, items = sampled(fits["labelled"])
    n = len(rows.X)
    n_new = round(IMITATED_ROWS * n)
    assert (items.kinds == LABELLED).sum() == n
    assert (items.kinds == UNLABELLED).sum() == n + n_new
    u = item_novelty(items.vectors[:, : codec.map.n_columns], codec.map)[:, 0]
    assert u[:n].max() < 1e-6
    assert np.mean(u[-n_new:]) == pytest.approx(rows.novelty_of_new.mean(), abs=0.05)
    assert np.mean(u[n : 2 * n]) < np.mean(u[-n_new:])


def test_as_many_rows_without_labels_need_no_others_to_stand_in(fits):
    rows, _, items = sampled(fits["half"])
    assert (items.kinds == LABELLED).sum() == rows.labels.known.sum()
    assert (items.kinds == UNLABELLED).sum() == (~rows.labels.known).sum()


def test_vectors_of_labelled_rows_hold_their_labels_and_positions_as_they_are(fits):
    rows, codec, items = sampled(fits["labelled"])
    of_labels = items.vectors[: len(rows.X), : codec.map.n_columns]
    assert sorted(of_labels.argmax(axis=1)) == sorted(rows.labels.indices)
    np.testing.assert_array_equal(of_labels.sum(axis=1), 1)
    lengths = np.linalg.norm(items.vectors[: len(rows.X), items.n_meaning :], axis=1)
    own = np.linalg.norm(codec.map.positions(rows.X[:]), axis=1)
    np.testing.assert_allclose(np.sort(lengths), np.sort(own), rtol=1e-6)


def test_vectors_of_imitated_new_rows_have_longer_positions(fits):
    rows, codec, items = sampled(fits["labelled"])
    n_new = round(IMITATED_ROWS * len(rows.X))
    lengths = np.linalg.norm(items.vectors[:, items.n_meaning :], axis=1)
    assert lengths[-n_new:].mean() > (1 + codec.map.stretch / 10) * lengths[: len(rows.X)].mean()
