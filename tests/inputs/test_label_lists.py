import numpy as np
import pytest

from supquant import CodeIndex, InputError, SupervisedQuantizer, load_model
from supquant.inputs.labels import read_labels


def rows_of(lists):
    rows = np.empty(len(lists), dtype=object)
    rows[:] = lists
    return rows


def test_lists_of_labels_are_an_indicator_with_names():
    labels = read_labels(rows_of([["b", "a"], None, [], {"b"}]), missing=True)
    assert labels.multilabel
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.indicator.toarray().tolist() == [
        [True, True],
        [False, False],
        [False, False],
        [False, True],
    ]
    assert labels.known.tolist() == [True, False, True, True]


def test_lists_of_different_lengths_need_no_array():
    assert read_labels([[3, 1], [1], []]).classes.tolist() == [1, 3]


def test_equal_lists_of_numbers_are_still_an_indicator_matrix():
    assert read_labels([[0, 1], [1, 0]]).classes.tolist() == [0, 1]
    assert read_labels([[0, 1], [1, 0]]).indicator.toarray().tolist() == [[False, True], [True, False]]


def test_labels_that_a_model_does_not_know_are_refused():
    with pytest.raises(InputError, match="lists 1 unknown label, the first is 'c'; 2 labels are known"):
        read_labels([["a", "c"], ["b"]], classes=np.array(["a", "b"], dtype=object))
    with pytest.raises(InputError, match="lists no label in any of its 2 rows"):
        read_labels(rows_of([[], []]))
    with pytest.raises(InputError, match="not all of one kind"):
        read_labels([["a", 1], ["b"]])


def test_lists_give_the_same_model_as_an_indicator_matrix_with_names(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat", "dog"])
    Y = rng.random((300, 4)) < 0.4
    X = Y @ rng.normal(size=(4, 8)) + 0.1 * rng.normal(size=(300, 8))
    y = rows_of([list(names[row]) for row in Y])
    model = SupervisedQuantizer(2, n_jobs=1, random_state=0).fit(X, y)
    plain = SupervisedQuantizer(2, n_jobs=1, random_state=0).fit(X, Y.astype(int))
    np.testing.assert_array_equal(model.codec_.encode_items(X), plain.codec_.encode_items(X))
    model.save(tmp_path / "tags.model")
    loaded = load_model(tmp_path / "tags.model")
    assert loaded.codec_.classes.tolist() == names.tolist()
    some = rows_of([["dog"], ["bee", "ant"]])  # other lists than in fit: the names decide, not the order
    np.testing.assert_array_equal(
        CodeIndex(loaded).add(X[:2], some).codes([0, 1]),
        plain.codec_.encode_items(X[:2], np.array([[0, 0, 0, 1], [1, 1, 0, 0]])),
    )
