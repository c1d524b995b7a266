"""Missing rows of indicator matrices, what is refused in addition to missing labels, and labels with unknown rows."""

import decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from supquant.codec.base import classes_from_plain, plain_classes
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.unlabelled import labelled_rows


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


INDICATORS = st.integers(2, 4).flatmap(
    lambda width: st.lists(
        st.tuples(st.lists(st.booleans(), min_size=width, max_size=width), st.booleans()),
        min_size=1,
        max_size=9,
    )
)


def check_indicator(form, Y, known, **options):
    """Check that `form` has the rows `known` of Y, and that the other rows are unknown."""
    labels = read_labels(form, n_rows=len(Y), classes=np.arange(Y.shape[1]), missing=True, **options)
    assert labels.multilabel
    assert labels.indices is None
    assert labels.classes.tolist() == list(range(Y.shape[1]))
    assert np.array_equal(labels.known, known)
    assert labels.n_unlabelled == np.count_nonzero(~known)
    assert labels.indicator.shape == Y.shape
    assert labels.indicator.dtype == np.bool_
    assert np.array_equal(labels.indicator.toarray(), Y & known[:, None])
    assert labels.indicator.nnz == np.count_nonzero(Y[known])
    assert labels.unknown is None if known.all() else np.array_equal(labels.unknown, ~known)


@given(INDICATORS, st.data())
def test_missing_rows_of_an_indicator_are_unknown_in_every_form(rows, data):
    Y, known = np.array([row for row, _ in rows]), np.array([is_known for _, is_known in rows])
    with_nan = np.where(known[:, None], Y, np.nan)
    with_none = np.where(known[:, None], Y.astype(object), None)
    frame = pd.DataFrame(with_none).astype("boolean")
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    hidden = np.where(known[:, None], Y, rng.integers(-9, 9, size=Y.shape))
    masked = np.ma.array(hidden, mask=np.repeat(~known[:, None], Y.shape[1], axis=1))
    forms = [with_nan, with_nan.tolist(), with_none, with_none.tolist(), masked, list(masked)]
    forms += [np.ma.array(hidden.astype(object), mask=masked.mask)]
    forms += [pd.DataFrame(with_nan), frame, frame.astype("Int8"), pd.DataFrame(with_none)]
    forms += [
        make(with_nan) for make in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array)
    ]
    if known.any():
        forms.append(
            [row.tolist() if is_known else None for row, is_known in zip(Y.astype(int), known, strict=True)]
        )
    for form in forms:
        check_indicator(form, Y, known)
    marked = np.where(known[:, None], Y, -1)
    for form in (marked, marked.astype(float), marked.tolist(), scipy.sparse.csr_array(marked)):
        check_indicator(form, Y, known, missing_label=-1)
    words = np.where(known[:, None], Y.astype(int).astype(object), "unknown")
    for form in (words, words.tolist(), pd.DataFrame(words)):
        check_indicator(form, Y, known, missing_label="unknown")


def test_a_row_of_zeros_is_known():
    labels = read_labels([[1, 0], [0, 0], [None, None], [0, 1]], missing=True)
    assert labels.known.tolist() == [True, True, False, True]
    assert labels.indicator.sum(axis=1).tolist() == [1, 0, 0, 1]


def test_a_row_may_be_missing_in_several_ways_at_once():
    masked = np.ma.array([[1.0, 0.0], [np.nan, 7.0], [0.0, 1.0]], mask=[[0, 0], [0, 1], [0, 0]])
    assert read_labels(masked, missing=True).known.tolist() == [True, False, True]
    assert read_labels([[1, 0], [None, np.nan], [0, 1]], missing=True).known.tolist() == [True, False, True]


NAN = np.nan


@pytest.mark.parametrize(
    "y",
    [
        np.array([[1, 0, 0], [NAN, NAN, NAN], [0, NAN, 1]]),
        [[1, 0, 0], [None, None, None], [0, None, 1]],
        [[1, 0, 0], None, [0, None, 1]],
        pd.DataFrame([[1, 0, 0], [None, None, None], [0, None, 1]]).astype("Int64"),
        np.ma.array(np.eye(3, dtype=int), mask=[[0, 0, 0], [1, 1, 1], [0, 1, 0]]),
        scipy.sparse.csr_array([[1, 0, 0], [NAN, NAN, NAN], [0, NAN, 1]]),
    ],
)
def test_a_partly_missing_row_is_refused_by_number(y):
    message = r"row 2 of y is partly missing \(1 of its 3 labels\); the labels of a row must be all known"
    with pytest.raises(InputError, match=message):
        read_labels(y, missing=True)


def test_a_partly_masked_row_is_refused_without_other_missing_rows():
    y = np.ma.array(np.eye(3, dtype=int), mask=[[0, 0, 0], [1, 1, 0], [0, 0, 0]])
    with pytest.raises(InputError, match=r"row 1 of y is partly missing \(2 of its 3 labels\)"):
        read_labels(y, missing=True)


def test_a_row_partly_equal_to_missing_label_is_refused_by_number():
    with pytest.raises(InputError, match=r"row 1 of labels is partly missing \(1 of its 2 labels\)"):
        read_labels([[1, 0], [-1, 0]], missing=True, missing_label=-1, name="labels")


@pytest.mark.parametrize("mark", [0, 1, 0.0, True])
def test_the_entries_of_an_indicator_cannot_mean_unknown(mark):
    with pytest.raises(InputError, match=f"must not be 0 or 1 if y is an indicator matrix, got {mark!r}"):
        read_labels(np.eye(2), missing=True, missing_label=mark)


@pytest.mark.parametrize(
    "y",
    [
        [None] * 12,
        np.full(12, np.nan),
        np.full(12, "NaT", dtype="datetime64[D]"),
        pd.Series([None] * 12, dtype="string"),
        pd.Categorical([None] * 12, categories=["a", "b"]),
        np.ma.masked_all(12, dtype=int),
        np.full((12, 2), np.nan),
        scipy.sparse.csr_array(np.full((12, 2), np.nan)),
        pd.DataFrame(np.full((12, 2), np.nan)),
    ],
)
def test_rows_without_any_label_can_be_encoded_but_not_learned_from(y):
    with pytest.raises(InputError, match="y has no labelled row: all 12 labels are missing"):
        read_labels(y, missing=True)
    labels = read_labels(y, n_rows=12, classes=np.arange(2), missing=True)
    assert labels.n_unlabelled == len(labels) == 12
    assert np.isnan(labels.dense(0, 12)).all()


def test_no_rows_at_all_can_be_encoded():
    for y in ([], np.empty(0), objects(), np.ma.array([])):
        labels = read_labels(y, n_rows=0, classes=np.array(["a", "b"]), missing=True)
        assert len(labels) == labels.n_unlabelled == 0
    labels = read_labels(np.empty((0, 2)), classes=np.arange(2), multilabel=True, missing=True)
    assert labels.known.shape == (0,)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([], r"0 sample\(s\)"),
        (5, r"y should be a 1d array, got an array of shape \(\)"),
        ("cat", r"y should be a 1d array, got an array of shape \(\)"),
        (np.nan, r"y should be a 1d array, got an array of shape \(\)"),
        (np.ma.masked, r"y should be a 1d array, got an array of shape \(\)"),
        (np.full((2, 2, 2), np.nan), r"y should be a 1d array, got an array of shape \(2, 2, 2\)"),
        ([3, None, 3, 3], r"a single class \(1 class: 3\); at least 2 are required; 1 row is unlabelled"),
        (
            ["a", None, None],
            r"a single class \(1 class: 'a'\); at least 2 are required; 2 rows are unlabelled",
        ),
        ([3, 3], r"a single class \(1 class: 3\); at least 2 are required$"),
        ([[1, 0], [NAN, NAN]], "y uses 1 of its 2 labels; .*not a single class; 1 row is unlabelled"),
        ([0.5, None, 1.0], "Unknown label type: continuous"),
        ([np.inf, None, 1.0], "Input y contains infinity"),
        (objects([1], None, ["a"]), "not all of one kind"),
        (objects(np.zeros(2), None, np.zeros(3)), "class labels must be hashable"),
        (objects(decimal.Decimal("sNaN"), None, 1), "class labels must be hashable"),
        ([1j, 2, None], "Complex data not supported"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "Unknown label type: datetime64"),
        ([[0, 2], [NAN, NAN]], "indicator matrix of 0 and 1, got 2"),
        ([["a", "b"], [None, None]], r"y of shape \(1, 2\) must be a 0/1 indicator matrix"),
        ([[], [], None], "lists no label in any of its 2 rows|y uses 0"),
        (np.zeros((2, 0)), "y uses 0 of its 0 labels"),
        (pd.DataFrame(index=range(2)), "y uses 0 of its 0 labels"),
    ],
)
def test_invalid_labels_are_refused_among_missing_ones(y, message):
    with pytest.raises(InputError, match=message):
        read_labels(y, missing=True)


def test_unlabelled_rows_count_as_rows():
    with pytest.raises(InputError, match="a label for each of the 4 rows of X, got 3"):
        read_labels([0, 1, None], n_rows=4, missing=True)


def test_unknown_classes_are_refused_among_missing_labels():
    with pytest.raises(InputError, match="y holds 1 unknown label: 9; the 2 known ones are 0, 1"):
        read_labels([0, None, 9], classes=np.array([0, 1]), missing=True)


def test_a_class_of_one_row_is_a_class():
    labels = read_labels([None, "a", None, "b", "b"], missing=True)
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.indices.tolist() == [-1, 0, -1, 1, 1]


MASKED_ROWS = np.ma.array([[1, 0], [0, 1], [5, 5]], mask=[[0, 0], [0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.array([0, 1, 2], mask=[0, 0, 1]), "Input y contains masked entries"),
        (["a", "b", np.ma.masked], "Input y contains masked entries"),
        ([0, 1, np.ma.masked], "Input y contains masked entries"),
        (MASKED_ROWS, "Input y contains masked entries"),
        (list(MASKED_ROWS), "Input y contains masked entries"),
        ([0, 1, None], "Input y contains NaN"),
        ([0, 1, pd.NA], "Input y contains NaN"),
        (pd.Series([0, 1, None], dtype="Int64"), "Input y contains NaN"),
        (pd.Series(["a", "b", None], dtype="string"), "Input y contains NaN"),
        (pd.Categorical(["a", "b", None]), "Input y contains NaN"),
        (pd.Categorical([0, 1, None]), "Input y contains NaN"),
        (pd.DataFrame([[1, 0], [0, 1], [None, None]]).astype("Int64"), "Input y contains NaN"),
        (pd.DataFrame([[1, 0], [0, 1], [None, None]]).astype("boolean"), "Input y contains NaN"),
        (scipy.sparse.csr_array([[1, 0], [0, 1], [NAN, NAN]]), "Input y contains NaN"),
    ],
)
def test_missing_labels_are_refused_unless_allowed(y, message):
    with pytest.raises(InputError, match=message):
        read_labels(y)
    assert read_labels(y, missing=True).known.tolist() == [True, True, False]


def test_a_masked_array_without_a_masked_entry_is_an_array():
    assert read_labels(np.ma.array([3, 5, 3])).indices.tolist() == [0, 1, 0]
    assert read_labels(list(np.ma.array(np.eye(2, dtype=int)))).indicator.nnz == 2


def test_missing_label_is_a_label_unless_labels_may_be_missing():
    assert read_labels([0, 1, -1], missing_label=-1).classes.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "y", [["b", "a"], objects("b", "a"), objects(2, 1), np.array([2, 1], np.int8), pd.Series(["b", "a"])]
)
def test_labels_without_missing_ones_are_read_the_same_either_way(y):
    allowed, plain = read_labels(y, missing=True), read_labels(y)
    assert allowed.classes.dtype == plain.classes.dtype
    assert allowed.classes.tolist() == plain.classes.tolist()
    assert np.array_equal(allowed.indices, plain.indices)
    assert allowed.unknown is None
    assert allowed.known.all()


def test_the_given_labels_are_not_changed():
    hidden = np.ma.array([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]], mask=[[0, 0], [1, 1], [0, 0]])
    stored = scipy.sparse.csr_array([[1, 0], [NAN, NAN], [0, 1]])
    entries = [0, None, 1]
    for y in (hidden, stored, entries):
        read_labels(y, missing=True)
    assert hidden.data.tolist() == [[1, 0], [3, 4], [0, 1]]
    assert hidden.mask.tolist() == [[False, False], [True, True], [False, False]]
    assert stored.nnz == 4
    assert entries == [0, None, 1]


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 2)), min_size=1, max_size=9),
    st.booleans(),
    st.data(),
)
def test_dense_and_take_keep_unknown_rows_apart(y, several, data):
    Y = np.array([np.full(3, np.nan) if label is None else np.eye(3)[label] for label in y])
    start = data.draw(st.integers(0, len(y)))
    stop = data.draw(st.integers(start, len(y)))
    rows = np.array(data.draw(st.lists(st.integers(0, len(y) - 1))), dtype=int)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(y), max_size=len(y))))
    labels = read_labels(Y if several else y, classes=np.arange(3), missing=True)
    known = np.array([label is not None for label in y])
    assert np.array_equal(labels.dense(start, stop), Y[start:stop], equal_nan=True)
    for selection in (rows, mask):
        taken = labels.take(selection)
        assert np.array_equal(taken.dense(0, len(taken)), Y[selection], equal_nan=True)
        assert np.array_equal(taken.known, known[selection])
        assert taken.n_unlabelled == np.count_nonzero(~known[selection])
        assert taken.classes is labels.classes


def test_labels_made_by_hand_are_known():
    single = Labels(np.arange(2), False, np.array([0, 1], dtype=np.int32), None)
    several = Labels(np.arange(2), True, None, scipy.sparse.csr_array(np.eye(2, dtype=bool)))
    for labels in (single, several):
        assert labels.known.tolist() == [True, True]
        assert labels.n_unlabelled == 0


@pytest.mark.parametrize("y", [[0, 1, None], ["a", None, "b"], [0.0, np.nan, 1.0], [True, None, False]])
def test_classes_of_partly_labelled_rows_can_be_saved(y):
    classes = read_labels(objects(*y), missing=True).classes
    assert classes.dtype.kind in "iUfb"
    loaded = classes_from_plain(plain_classes(classes))
    assert loaded.dtype == classes.dtype
    assert np.array_equal(loaded, classes)


def test_known_rows_come_as_an_array_with_a_mask():
    labels, known = labelled_rows(
        np.array(["a", "a long text", "b"]), missing=True, missing_label="a long text"
    )
    assert labels.dtype == np.dtype("<U1")
    assert labels.tolist() == ["a", "b"]
    assert known.tolist() == [True, False, True]
