"""Models inside scikit-learn's pipelines, searches and cross-validation, and a classifier over codes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import ProductQuantizer, PublishedQuantizer, SupervisedQuantizer
from supquant.integrations.sklearn import CodeNeighborsClassifier

small = {"n_codewords": 16, "max_iter": 1, "random_state": 0}


def test_pipeline_scales_encodes_and_predicts(digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), SupervisedQuantizer(2, **small)).fit(X[:900], y[:900])
    assert pipeline.score(X[900:], y[900:]) == np.mean(pipeline.predict(X[900:]) == y[900:]) > 0.9
    again = clone(pipeline).fit(X[:900], y[:900])
    np.testing.assert_array_equal(again.transform(X[900:]), pipeline.transform(X[900:]))


def test_grid_search_chooses_a_parameter_with_unlabelled_rows(digits):
    X, y = digits
    partly = np.where(np.arange(900) % 3 == 0, None, y[:900])
    search = GridSearchCV(
        SupervisedQuantizer(2, **small), {"new_classes": [0.0, 0.9]}, cv=2, error_score="raise"
    )
    search.fit(X[:900], partly)
    right = search.best_estimator_.predict(X[900:]) == y[900:]
    assert search.best_estimator_.score(X[900:], y[900:]) == right.mean() > 0.9
    assert search.best_estimator_.score(X[900:], np.where(right, y[900:], None)) == 1


def test_vectors_behind_codes_feed_another_estimator(digits):
    X, y = digits
    model = make_pipeline(SupervisedQuantizer(2, **small), LogisticRegression(max_iter=500))
    assert cross_val_score(model, X[:900], y[:900], cv=2).mean() > 0.9


@pytest.mark.parametrize(
    "model", [SupervisedQuantizer(2, **small), PublishedQuantizer(2, **small), ProductQuantizer(2, **small)]
)
def test_output_is_a_table_with_names(model, digits):
    X, y = digits
    model = clone(model).fit(X[:300], y[:300])
    plain = model.transform(X[300:310])
    table = model.set_output(transform="pandas").transform(X[300:310])
    prefix = type(model).__name__.lower()
    assert table.columns.tolist() == [f"{prefix}{column}" for column in range(plain.shape[1])]
    np.testing.assert_array_equal(table.to_numpy(), plain)


def test_neighbours_by_codes_classify_as_their_quantizer_does(digits):
    X, y = digits
    classifier = CodeNeighborsClassifier(SupervisedQuantizer(4, **small)).fit(X[:900], y[:900])
    probabilities = classifier.predict_proba(X[900:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert classifier.score(X[900:], y[900:]) > 0.93
    assert classifier.index_.info()["bytes"]["codes"] < 4 * 1000
    searched = GridSearchCV(classifier, {"n_neighbors": [5], "quantizer__n_codebooks": [1, 2]}, cv=2)
    assert searched.fit(X[:600], y[:600]).best_score_ > 0.85


def test_neighbours_vote_by_the_scores_of_the_index(digits):
    X, y = digits
    classifier = CodeNeighborsClassifier(SupervisedQuantizer(2, **small), n_neighbors=7).fit(X[:600], y[:600])
    scores, ids = classifier.index_.search(X[600:601], 7)
    votes = np.bincount(y[ids[0]], weights=scores[0], minlength=10)
    np.testing.assert_allclose(classifier.predict_proba(X[600:601])[0], votes / votes.sum())


@parametrize_with_checks(
    [
        CodeNeighborsClassifier(
            SupervisedQuantizer(2, n_codewords=4, max_iter=2, random_state=0), n_neighbors=3
        )
    ]
)
def test_classifier_follows_the_conventions(estimator, check):
    check(estimator)
