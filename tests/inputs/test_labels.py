import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from texts import texts

from supquant.errors import InputError
from supquant.inputs.labels import find_unknown, read_labels


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class NotAvailable:
    """Like pandas.NA: comparisons with it have no truth value."""

    def __ne__(self, other):
        return self

    def __eq__(self, other):
        return self

    def __hash__(self):
        return 0

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


def labels_of_rows(labels):
    return [labels.classes[index] for index in labels.indices]


CLASS_LABELS = st.one_of(
    st.lists(st.integers(-3, 3)),
    st.lists(texts(max_size=2).filter(lambda text: "\0" not in text)),
    st.lists(st.booleans()),
    st.lists(st.integers(-3, 3).map(float)),
    st.lists(st.tuples(st.integers(0, 2), texts(max_size=1))).map(lambda values: objects(*values)),
    st.lists(st.one_of(st.integers(2, 5), texts(max_size=1), st.frozensets(st.integers(0, 2)))).map(
        lambda values: objects(*values)
    ),
)


@given(CLASS_LABELS.filter(lambda y: len(set(y)) >= 2))
def test_class_labels_of_any_hashable_kind_come_back_row_by_row(y):
    labels = read_labels(y, n_rows=len(y))
    assert labels_of_rows(labels) == list(y)
    assert labels.indices.dtype == np.int32
    assert len(labels) == len(y)
    assert labels.n_labels == len(set(y))
    assert not labels.multilabel


@given(CLASS_LABELS.filter(lambda y: len(set(y)) >= 2), st.randoms())
def test_classes_do_not_depend_on_the_order_of_rows(y, random):
    shuffled = list(y)
    random.shuffle(shuffled)
    if isinstance(y, np.ndarray):
        shuffled = objects(*shuffled)
    assert read_labels(y).classes.tolist() == read_labels(shuffled).classes.tolist()


def test_orderable_classes_are_sorted():
    assert read_labels([3, 1, 2, 1]).classes.tolist() == [1, 2, 3]
    assert read_labels(["b", "a"]).classes.tolist() == ["a", "b"]
    assert read_labels(objects("b", "a")).classes.tolist() == ["a", "b"]
    assert read_labels(objects((2, 1), (1, 9))).classes.tolist() == [(1, 9), (2, 1)]


def test_a_list_of_numbers_and_words_keeps_both():
    assert set(read_labels([1, "1"]).classes.tolist()) == {1, "1"}


def test_known_classes_fix_the_positions():
    labels = read_labels(["dog", "dog"], classes=np.array(["cat", "dog", "eel"]))
    assert labels.indices.tolist() == [1, 1]
    assert labels.n_labels == 3
    assert read_labels([2.0, 0.0], classes=np.array([0, 1, 2])).indices.tolist() == [2, 0]
    assert len(read_labels([], classes=np.array([0, 1]))) == 0


@pytest.mark.parametrize(
    ("y", "shown"),
    [
        ([0, 9], "1 unknown label: 9; the 2 known ones are 0, 1"),
        (["0", "1"], "2 unknown labels: '0', '1'"),
        (list(range(1, 12)), "10 unknown labels: 2, 3, 4, 5, 6, ...;"),
    ],
)
def test_unknown_labels_are_refused_by_name(y, shown):
    with pytest.raises(InputError, match=f"y holds {shown}"):
        read_labels(y, classes=np.array([0, 1]))


def test_a_column_is_accepted_with_the_warning_of_scikit_learn():
    column = np.array([[0], [1]])
    with pytest.warns(
        DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"
    ):
        assert read_labels(column).indices.tolist() == [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_labels(column.ravel())


FORMS = [
    np.array,
    scipy.sparse.csr_array,
    scipy.sparse.csc_matrix,
    scipy.sparse.coo_array,
    scipy.sparse.lil_array,
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float32])
def test_indicator_matrices_are_accepted_in_any_form_and_not_changed(form, dtype):
    Y = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=dtype)
    given_matrix = form(Y)
    labels = read_labels(given_matrix, n_rows=3)
    assert labels.multilabel
    assert labels.indices is None
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.indicator.dtype == np.bool_
    assert labels.indicator.nnz == 4
    assert np.array_equal(labels.dense(0, 3), Y)
    assert given_matrix.dtype == dtype


def test_explicit_zeros_of_a_sparse_indicator_are_ignored():
    Y = scipy.sparse.csr_array(([1, 0, 1], [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    assert read_labels(Y).indicator.nnz == 2
    assert Y.nnz == 3


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_dense_and_take_are_rows_of_the_label_matrix(y, data):
    Y = np.eye(4)[y]
    start = data.draw(st.integers(0, len(y)))
    stop = data.draw(st.integers(start, len(y)))
    rows = data.draw(st.lists(st.integers(0, len(y) - 1)))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(y), max_size=len(y))))
    for labels in (read_labels(y, classes=np.arange(4)), read_labels(Y, classes=np.arange(4))):
        block = labels.dense(start, stop)
        assert block.dtype == np.float64
        assert np.array_equal(block, Y[start:stop])
        for selection in (np.array(rows, dtype=int), mask):
            taken = labels.take(selection)
            assert len(taken) == len(Y[selection])
            assert np.array_equal(taken.dense(0, len(taken)), Y[selection])
            assert taken.classes is labels.classes


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([], r"0 sample\(s\)"),
        (5, r"y should be a 1d array, got an array of shape \(\)"),
        ("cat", r"y should be a 1d array, got an array of shape \(\)"),
        (np.zeros((2, 2, 2)), r"y should be a 1d array, got an array of shape \(2, 2, 2\)"),
        ([3, 3, 3], r"a single class \(1 class: 3\); at least 2 are required"),
        (["a"], r"a single class \(1 class: 'a'\)"),
        ([0.0, np.nan], "Input y contains NaN"),
        ([0.0, np.inf], "Input y contains infinity"),
        ([0.5, 1.0], "Unknown label type: continuous"),
        (objects(0.5, 1), "Unknown label type: continuous"),
        (objects(float("inf"), 1), "Unknown label type: continuous"),
        (objects("a", None), "Input y contains NaN or None"),
        (objects("a", float("nan")), "Input y contains NaN or None"),
        (objects("a", NotAvailable()), "Input y contains NaN or None"),
        (objects([1], {}), "class labels must be hashable"),
        ([1j, 2], "Complex data not supported"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "Unknown label type: datetime64"),
        ([[1], [1, [2]]], "not all of one kind"),
        ([[0, 2], [1, 0]], "indicator matrix of 0 and 1, got 2"),
        ([[0.0, 0.5], [1.0, 0.0]], "indicator matrix of 0 and 1, got 0.5"),
        ([[0.0, np.nan], [1.0, 0.0]], "Input y contains NaN"),
        ([["a", "b"], ["b", "a"]], r"y of shape \(2, 2\) must be a 0/1 indicator matrix"),
        ([[1, 0], [1, 0]], "y uses 1 of its 2 labels; at least 2 are required"),
        (np.zeros((2, 0)), "y uses 0 of its 0 labels"),
        (scipy.sparse.csr_array([[1], [0]]), "y uses 1 of its 1 labels"),
        (scipy.sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(2, 2)), "got 2"),
        (scipy.sparse.csr_array(([1, 1], [1, 1], [0, 2, 2]), shape=(2, 2)), "got 2"),
    ],
)
def test_invalid_labels_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        read_labels(y)


@pytest.mark.parametrize("y", [[0, 1, 2], np.eye(3), scipy.sparse.csr_array(np.eye(3))])
def test_labels_of_another_length_are_refused_with_both_numbers(y):
    with pytest.raises(InputError, match="a label for each of the 4 rows of X, got 3"):
        read_labels(y, n_rows=4)


def test_the_other_form_than_in_fit_is_refused():
    with pytest.raises(
        InputError, match="must be an indicator matrix as in fit, got a 1d array of class labels"
    ):
        read_labels([0, 1], multilabel=True)
    with pytest.raises(
        InputError, match="must be a 1d array of class labels as in fit, got an indicator matrix"
    ):
        read_labels(np.eye(2), multilabel=False)


def test_an_indicator_of_another_width_is_refused_with_both_numbers():
    with pytest.raises(InputError, match="y must have 4 columns, one per label, got 2"):
        read_labels(np.eye(2), classes=np.arange(4), multilabel=True)


def test_one_class_is_enough_once_classes_are_known():
    assert read_labels([[1, 0], [0, 0]], classes=np.arange(2)).indicator.nnz == 1
    assert read_labels(["a"], classes=np.array(["a", "b"])).indices.tolist() == [0]


def test_errors_call_the_labels_by_the_name_given():
    with pytest.raises(InputError, match="query_labels holds a single class"):
        read_labels([1, 1], name="query_labels")


# labels that are not known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "distinct", "rows"),
    [
        (["a", "b"], [], []),
        (["c", "a", "d", "c"], ["c", "d"], [True, False, True, True]),
        (np.array(["c", None, "a"], dtype=object), ["c"], [True, False, False]),
        (np.ma.array(["c", "d"], mask=[True, False]), ["d"], [False, True]),
        (pandas.Series(["a", "", "c"], dtype="string"), ["c"], [False, False, True]),
        (np.array([["c"], ["a"]]), ["c"], [True, False]),
        ([None, None], [], []),
        ([], [], []),
        (np.eye(3), [], []),
        ([["c"], []], [], []),
    ],
)
def test_unknown_labels_are_found_with_their_rows(y, distinct, rows):
    found = find_unknown(y, np.array(["a", "b"]), multilabel=False, missing_label="")
    if not distinct:
        assert found is None
        return
    assert found.distinct == distinct
    assert found.rows.tolist() == rows
    assert [label in distinct for label in found.labels] == rows


def test_a_row_that_lists_an_unknown_label_is_found():
    lists = [["b", "a"], None, ["a", "z", "y"], [], ["y"]]
    found = find_unknown(lists, np.array(["a", "b"], dtype=object), multilabel=True)
    assert found.distinct == ["z", "y"]
    assert found.rows.tolist() == [False, False, True, False, True]
    assert found.labels.tolist() == lists
    assert find_unknown(scipy.sparse.eye_array(3), np.arange(2), multilabel=True) is None
    assert find_unknown([[{}], ["a"], []], np.arange(2), multilabel=True) is None
