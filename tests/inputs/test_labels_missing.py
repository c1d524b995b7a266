"""Class labels of which some are missing are read as the known ones alone."""

import decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from texts import texts

from supquant.inputs.labels import read_labels


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def same_classes(found, expected):
    return (
        found.classes.dtype == expected.classes.dtype and found.classes.tolist() == expected.classes.tolist()
    )


def check_single(form, known, *, alone, **options):
    """Check that `form` is read as its known rows `alone`, with -1 at the other rows."""
    labels = read_labels(form, n_rows=len(known), missing=True, **options)
    expected = read_labels(alone)
    assert same_classes(labels, expected)
    assert labels.indices.dtype == np.int32
    assert np.array_equal(labels.known, known)
    assert labels.n_unlabelled == np.count_nonzero(~known)
    assert np.array_equal(labels.indices[known], expected.indices)
    assert (labels.indices[~known] == -1).all()
    encoded = read_labels(form, classes=labels.classes, multilabel=False, missing=True, **options)
    assert np.array_equal(encoded.indices, labels.indices)


def rows_of(values):
    """Draw labels and a mask of the known ones, which have two classes or more and do not include all rows."""
    row = st.tuples(values, st.booleans())
    return (
        st.lists(row, min_size=2, max_size=12)
        .map(lambda rows: ([label for label, _ in rows], np.array([is_known for _, is_known in rows])))
        .filter(lambda drawn: not drawn[1].all())
        .filter(lambda drawn: len({label for label, is_known in zip(*drawn, strict=True) if is_known}) >= 2)
    )


def only(y, known):
    return [label for label, is_known in zip(y, known, strict=True) if is_known]


def replaced(y, known, mark):
    return [label if is_known else mark for label, is_known in zip(y, known, strict=True)]


INTEGERS = st.integers(-3, 3)
TEXTS = texts(max_size=3).filter(lambda text: "\0" not in text)
NOTHING = st.sampled_from(
    [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NaT, pd.NA, np.ma.masked]
)


@given(
    st.one_of(rows_of(INTEGERS), rows_of(TEXTS), rows_of(st.booleans()), rows_of(INTEGERS.map(float))),
    NOTHING,
)
def test_a_list_with_missing_entries_is_read_as_its_known_ones(drawn, nothing):
    y, known = drawn
    check_single(replaced(y, known, nothing), known, alone=only(y, known))
    check_single(tuple(replaced(y, known, nothing)), known, alone=only(y, known))


@given(
    st.one_of(rows_of(INTEGERS), rows_of(TEXTS), rows_of(st.booleans()), rows_of(INTEGERS.map(float))),
    NOTHING,
)
def test_an_object_array_with_missing_entries_gets_the_dtype_of_its_labels(drawn, nothing):
    y, known = drawn
    check_single(objects(*replaced(y, known, nothing)), known, alone=only(y, known))


@given(rows_of(st.tuples(st.integers(0, 2), texts(max_size=1))))
def test_tuples_stay_labels_among_missing_ones(drawn):
    y, known = drawn
    check_single(objects(*replaced(y, known, None)), known, alone=objects(*only(y, known)))


def test_labels_of_several_kinds_stay_apart_among_missing_ones():
    check_single([1, "1", None], np.array([True, True, False]), alone=[1, "1"])
    check_single(objects(1, None, "1"), np.array([True, False, True]), alone=objects(1, "1"))
    check_single(objects("a\0", None, "a"), np.array([True, False, True]), alone=objects("a\0", "a"))
    check_single([True, False, np.nan], np.array([True, True, False]), alone=[True, False])


def test_missing_labels_do_not_round_large_integers():
    y, known = [2**53, 2**53 + 1, None], np.array([True, True, False])
    for form in (y, [2**53, 2**53 + 1, np.nan], pd.Series(y, dtype="Int64"), objects(*y)):
        check_single(form, known, alone=y[:2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(rows_of(INTEGERS.map(float)))
def test_floats_with_nan_keep_their_dtype(dtype, drawn):
    y, known = drawn
    check_single(
        np.array(replaced(y, known, np.nan), dtype=dtype), known, alone=np.array(only(y, known), dtype)
    )


@given(st.one_of(rows_of(INTEGERS), rows_of(TEXTS), rows_of(st.booleans())))
def test_pandas_categories_are_read_as_their_known_entries(drawn):
    y, known = drawn
    categories = pd.Categorical(replaced(y, known, None), categories=[*set(y)])
    alone = np.asarray(categories[known])
    check_single(categories, known, alone=alone)
    check_single(pd.Series(categories, index=np.arange(len(y))[::-1]), known, alone=alone)


def test_unused_categories_are_not_classes():
    y = pd.Categorical(["b", None, "c"], categories=["a", "b", "c", "d"])
    assert read_labels(y, missing=True).classes.tolist() == ["b", "c"]


@pytest.mark.parametrize("dtype", [None, "string", object])
@given(rows_of(TEXTS))
def test_pandas_texts_with_missing_ones_are_read_as_the_known_ones(dtype, drawn):
    y, known = drawn
    series = pd.Series(replaced(y, known, None), dtype=dtype)
    alone = only(y, known) if series.dtype == object else np.asarray(series[known])
    check_single(series, known, alone=alone)
    check_single(pd.Index(series), known, alone=alone)


@pytest.mark.parametrize("dtype", ["Int64", "Int8", "Float64"])
@given(rows_of(INTEGERS))
def test_nullable_numbers_of_pandas_are_read_in_their_own_dtype(dtype, drawn):
    y, known = drawn
    series = pd.Series(replaced(y, known, None), dtype=dtype)
    assert read_labels(series, missing=True).classes.dtype == np.dtype(dtype.lower())
    check_single(series, known, alone=np.array(only(y, known), dtype=dtype.lower()))


def test_nullable_booleans_of_pandas_are_read():
    labels = read_labels(pd.Series([True, None, False], dtype="boolean"), missing=True)
    assert labels.classes.tolist() == [False, True]
    assert labels.indices.tolist() == [1, -1, 0]


def test_an_index_of_tuples_is_read_as_without_missing_labels():
    index = pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])
    assert read_labels(index, missing=True).classes.tolist() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("values", [INTEGERS, TEXTS, INTEGERS.map(float)])
@given(st.data())
def test_values_behind_a_mask_change_nothing(values, data):
    y, known = data.draw(rows_of(values))
    plain = np.array(y)
    alone = np.array(only(y, known), dtype=None if plain.dtype.kind == "U" else plain.dtype)
    check_single(np.ma.array(plain, mask=~known), known, alone=alone)


@given(rows_of(TEXTS), st.data())
def test_objects_behind_a_mask_may_be_anything(drawn, data):
    y, known = drawn
    anything = st.one_of(
        st.none(), st.floats(), st.integers(), texts(), st.just([1]), st.just(np.zeros(2)), st.just(1j)
    )
    hidden = objects(
        *(label if is_known else data.draw(anything) for label, is_known in zip(y, known, strict=True))
    )
    check_single(np.ma.array(hidden, mask=~known), known, alone=only(y, known))


def test_a_masked_column_is_read_as_a_masked_array():
    column = np.ma.array([[3], [9], [4]], mask=[[0], [1], [0]])
    with pytest.warns(DataConversionWarning):
        labels = read_labels(column, missing=True)
    assert labels.classes.tolist() == [3, 4]
    assert labels.classes.dtype == np.int64
    assert labels.indices.tolist() == [0, -1, 1]


@given(rows_of(st.integers(0, 3)))
def test_minus_one_can_mean_unknown_in_every_form(drawn):
    y, known = drawn
    marked, alone = replaced(y, known, -1), only(y, known)
    for form in (marked, np.array(marked), objects(*marked), pd.Series(marked)):
        check_single(form, known, alone=alone, missing_label=-1)
    check_single(replaced(y, known, -1.0), known, alone=alone, missing_label=-1)
    check_single(np.array(marked, dtype=np.int8), known, alone=np.array(alone, np.int8), missing_label=-1)
    check_single(np.array(marked, float), known, alone=np.array(alone, float), missing_label=-1)
    check_single(pd.Series(marked, dtype="Int64"), known, alone=alone, missing_label=np.int64(-1))
    check_single(np.ma.array(marked), known, alone=alone, missing_label=-1.0)


@pytest.mark.parametrize("mark", ["", "unknown"])
@given(rows_of(TEXTS.filter(bool)))
def test_a_text_can_mean_unknown(mark, drawn):
    y, known = drawn
    marked, alone = replaced(y, known, mark), only(y, known)
    for form in (marked, np.array(marked), objects(*marked)):
        check_single(form, known, alone=alone, missing_label=mark)
    series = pd.Series(marked, dtype="string")
    check_single(series, known, alone=np.asarray(series[known]), missing_label=mark)


def test_missing_label_adds_to_none_and_nan():
    known = np.array([True, False, True, False])
    check_single([5, None, 6, -1], known, alone=[5, 6], missing_label=-1)
    check_single(pd.Series([5, None, 6, -1], dtype="Int64"), known, alone=[5, 6], missing_label=-1)
    masked = np.ma.array([5, 0, 6, -1], mask=[0, 1, 0, 0])
    check_single(masked, known, alone=[5, 6], missing_label=-1)
    check_single(np.array([5, np.nan, 6, -1]), known, alone=[5.0, 6.0], missing_label=-1)


@pytest.mark.parametrize("mark", [None, np.nan, float("nan"), pd.NA])
def test_a_missing_label_of_none_or_nan_adds_nothing(mark):
    labels = read_labels([0, 1, -1, None], missing=True, missing_label=mark)
    assert labels.classes.tolist() == [-1, 0, 1]
    assert labels.indices.tolist() == [1, 2, 0, -1]


@pytest.mark.parametrize("mark", ["unknown", (0, 1), [0, 1], object(), decimal.Decimal(7)])
def test_a_missing_label_of_another_kind_is_never_found(mark):
    for y in ([0, 1], np.array([0, 1]), ["a", "b"], np.array(["a", "b"]), objects((0, 2), (2, 1))):
        labels = read_labels(y, missing=True, missing_label=mark)
        assert labels.indices.tolist() == [0, 1]
        assert labels.known.all()


def test_a_tuple_can_mean_unknown():
    y = objects((0, 0), (1, 1), (9, 9))
    labels = read_labels(y, missing=True, missing_label=(9, 9))
    assert labels.classes.tolist() == [(0, 0), (1, 1)]
    assert labels.indices.tolist() == [0, 1, -1]
