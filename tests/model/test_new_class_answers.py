"""Answers to queries of new classes: their scores as probabilities, and the forecast of their quality."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from planted_classes import plant_classes
from sklearn.base import clone

from supquant import CodeIndex, SupervisedQuantizer, kernels
from supquant.metrics import average_precision
from supquant.model import quantizer
from supquant.model.calibration import Trial, _draw_new, try_unlabelled
from supquant.model.codec import NOVELTY_BINS
from supquant.model.summary import _map_of_new

N_CLASSES, N_KNOWN = 30, 24
N_LABELLED, N_ROWS = 1800, 3800  # rows of a fit; those after the labelled ones have no label


@pytest.fixture(scope="module")
def planted():
    """Vectors of thirty classes in sixteen dimensions: rows to fit, and queries."""
    return plant_classes(N_CLASSES, N_KNOWN, N_LABELLED, N_ROWS)


@pytest.fixture(scope="module")
def fit(planted):
    """A model that found classes, and its rows."""
    told = []

    def listen(rows, *others):
        told.append(rows)
        return try_unlabelled(rows, *others)

    settings = {"n_codewords": 64, "missing_label": -1, "new_classes": 0.2, "random_state": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantizer, "try_unlabelled", listen)
        model = SupervisedQuantizer(4, **settings).fit(planted.X[:N_ROWS], planted.labels)
    assert model.codec_.map.clusters is not None
    return model, told[0]


@pytest.fixture(scope="module")
def fitted(fit):
    return fit[0]


@pytest.fixture(scope="module")
def index(fitted, planted):
    """An index of the rows without labels."""
    return CodeIndex(fitted).add(planted.X[planted.items])


@pytest.fixture(scope="module")
def several(fitted, index, planted):
    """Models of five seeds and their indexes.

    Probabilities of new answers come from a few classes that are left out, and vary with them: of eleven fits, errors were
    between .02 and .10.
    """
    models = [clone(fitted).set_params(random_state=seed) for seed in range(1, 5)]
    models = [model.fit(planted.X[:N_ROWS], planted.labels) for model in models]
    return [(fitted, index), *((model, CodeIndex(model).add(planted.X[planted.items])) for model in models)]


def answers(index, planted, queries, k):
    """Return the scores (q, k) of answers to queries, and whether the answers have the class of the query."""
    scores, ids = index.search(planted.X[queries], k)
    return scores, planted.y[planted.items][ids] == planted.y[queries, None]


def mean_error(probabilities, relevant, bins=15):
    """Return the mean difference between what scores say and what happens, over bins of equal mass."""
    order = np.argsort(probabilities, axis=None, kind="stable")
    said, happened = probabilities.ravel()[order], relevant.ravel()[order]
    parts = np.array_split(np.arange(len(order)), bins)
    return sum(abs(said[part].mean() - happened[part].mean()) * len(part) for part in parts) / len(order)


# scores are probabilities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["known", "new"])
def test_scores_of_answers_without_labels_are_probabilities(several, planted, which):
    found = [answers(index, planted, getattr(planted, which), 100) for _, index in several]
    assert all(0.3 < relevant.mean() < 0.7 for _, relevant in found)  # otherwise the test would prove little
    assert np.mean([mean_error(scores, relevant) for scores, relevant in found]) < 0.06


def test_a_judge_says_how_probably_an_item_shares_the_class_of_a_query(fit, planted):
    model, rows = fit
    trial = try_unlabelled(rows, model.codec_, model.training_codes_, np.random.default_rng(0))
    assert len(trial.codes) == len(planted.items) - len(rows.fresh)
    # The judge of all rows without labels, in their order.
    draws = SimpleNamespace(permutation=lambda rows: rows, uniform=lambda: 0.5)
    ordered = try_unlabelled(rows, model.codec_, model.training_codes_, draws)
    items = np.setdiff1d(planted.items, rows.fresh)
    np.testing.assert_array_equal(ordered.codes, model.training_codes_[items])
    every = np.broadcast_to(np.arange(len(items)), (len(ordered.queries), len(items)))
    judged = ordered.judge(np.arange(len(every)), every)
    assert ((judged >= 0) & (judged <= 1)).all()
    n_known, is_new = ordered.n_known, planted.y[items] >= N_KNOWN
    relevant = planted.y[rows.held_rows][:, None] == planted.y[items]
    assert mean_error(judged[:n_known], relevant) < 0.01
    assert judged[:n_known, is_new].mean() < 0.01  # 0.04 if every item were of some known class
    assert judged[n_known:, ~is_new].mean() < 0.01
    assert judged[n_known:, is_new].mean() == pytest.approx(1 / (N_CLASSES - N_KNOWN), abs=0.05)


def test_new_queries_took_part_in_no_clustering_and_few_are_of_known_classes(fit, planted):
    model, rows = fit
    assert len(rows.fresh) == len(planted.items) // 8
    assert not rows.labels.known[rows.fresh].any()
    drawn = _draw_new(rows, 10_000, np.random.default_rng(0))
    assert len(np.unique(drawn)) == len(drawn)
    assert np.isin(drawn, rows.fresh).all()
    assert (planted.y[drawn] >= N_KNOWN).mean() > 0.8
    assert len(drawn) == pytest.approx(model.novelty(planted.X[rows.fresh]).sum(), rel=0.15)
    few = _draw_new(rows, 40, np.random.default_rng(0))  # as many as come on forty rows of known classes
    assert len(few) == pytest.approx(40 / 4, abs=3)


def test_known_and_new_queries_have_curves_of_their_own(fitted):
    curves = fitted.codec_.curves
    first, last = curves[1], curves[-1]
    assert len(curves) == len(NOVELTY_BINS) + 2
    assert (np.diff(curves[:, 1]) >= 0).all()
    assert not np.array_equal(first, last)


# the forecast --------------------------------------------------------------------------------------------------------


def precision(index, planted, queries):
    _, relevant = answers(index, planted, queries, len(planted.items))
    return float(average_precision(relevant).mean())


def test_the_expected_precision_of_known_classes_is_the_true_one_and_that_of_new_ones_careful(
    several, fitted, index, planted
):
    # A judge who is not sure of single items cannot know that most queries are answered all right, and few all wrong.
    errors = [model.summary_.map_new - precision(own, planted, planted.new) for model, own in several]
    assert -0.2 < np.mean(errors) < 0.03
    assert fitted.summary_.map_unlabelled == pytest.approx(precision(index, planted, planted.known), abs=0.06)
    assert f"{fitted.summary_.map_new:.3f} new classes" in str(fitted.summary_)


@pytest.fixture(scope="module")
def trial(fitted, planted):
    """Queries and items without labels, and a judge who knows their classes."""
    chosen = np.concatenate([planted.known[:20], planted.new[:20]])
    relevant = planted.y[chosen][:, None] == planted.y[planted.items]

    def judge(queries, items):
        return relevant[queries[:, None], items].astype(np.float64)

    codec = fitted.codec_
    queries, codes = codec.features(planted.X[chosen]), fitted.training_codes_[planted.items]
    return Trial(queries, codes, judge, n_known=20), relevant


def test_the_forecast_of_a_judge_who_is_sure_is_the_precision_of_new_queries(fitted, trial):
    asked, relevant = trial
    codec = fitted.codec_
    sums = kernels.active().table_sums(asked.codes, codec.tables_of(codec.prepare(asked.queries)))
    order = np.argsort(sums, axis=1, kind="stable")
    precisions = average_precision(np.take_along_axis(relevant, order, axis=1))
    assert _map_of_new(codec, asked) == pytest.approx(precisions[20:].mean(), abs=1e-5)


def test_there_is_no_forecast_of_new_classes_without_new_queries(fitted, trial):
    assert _map_of_new(fitted.codec_, replace(trial[0], n_known=40)) is None


def test_the_forecast_of_a_judge_who_knows_nothing_is_what_happens_by_chance(fitted, trial):
    chance, codes = 0.1, trial[0].codes[:60]
    blind = replace(trial[0], codes=codes, judge=lambda queries, items: np.full(items.shape, chance))
    relevant = np.random.default_rng(0).uniform(size=(20_000, len(codes))) < chance
    precisions = (relevant.cumsum(axis=1) / np.arange(1, len(codes) + 1))[relevant]  # at relevant items
    assert _map_of_new(fitted.codec_, blind) == pytest.approx(precisions.mean(), abs=0.005)


# items with labels ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def misled(fitted):
    """The codec of the fit with other likenesses, according to which everything is new."""
    map_ = fitted.codec_.map
    changed = replace(map_, likeness=map_.likeness[::-1].copy(), novelty=np.float32([0, 0, 9]))
    return replace(fitted.codec_, feature_map=changed)


def test_codes_of_items_with_labels_do_not_depend_on_found_classes(fitted, misled, planted):
    X, y = planted.X[planted.labelled], planted.y[planted.labelled]
    np.testing.assert_array_equal(misled.encode_items(X, y), fitted.encode(X, y))
    np.testing.assert_array_equal(fitted.encode(X, y), fitted.training_codes_[planted.labelled])
    X = planted.X[planted.items]
    assert (misled.encode_items(X) != fitted.encode(X)).any(axis=1).mean() > 0.9


def test_answers_among_items_with_labels_do_not_depend_on_found_classes(fitted, misled, planted):
    X, y = planted.X[planted.labelled], planted.y[planted.labelled]
    mine, theirs = (
        CodeIndex(codec).add(X, y).search(planted.X[planted.new], 50) for codec in (fitted.codec_, misled)
    )
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
