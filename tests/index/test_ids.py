import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from texts import texts as any_texts

from supquant.errors import InputError
from supquant.index.ids import ListedIntegers, NumberRange, StringIds, join_ids, read_ids

LOW, HIGH = -(2**63), 2**63 - 1

integers = st.integers(LOW, HIGH) | st.integers(-5, 20)
strings = any_texts(max_size=6)
lists = st.lists(integers, max_size=30) | st.lists(strings, max_size=30)
distinct_lists = st.lists(integers, max_size=30, unique=True) | st.lists(strings, max_size=30, unique=True)


def texts(ids):
    return ids.take(np.arange(len(ids))).tolist()


@pytest.mark.parametrize(
    ("given_ids", "expected"),
    [
        ([3, 1, 2], [3, 1, 2]),
        ((np.int8(3), 5, np.uint64(7)), [3, 5, 7]),
        (range(4, 10, 2), [4, 6, 8]),
        (np.array([5, 4], dtype=np.uint8), [5, 4]),
        (np.array([9, 8], dtype=">i4"), [9, 8]),
        (np.array([2**63 - 1], dtype=np.uint64), [2**63 - 1]),
        (np.array([1, "2"], dtype=object)[:1], [1]),
        (["b", "a", ""], ["b", "a", ""]),
        (np.array(["b", "ä"]), ["b", "ä"]),
        (["a\0", "a", "🙂"], ["a\0", "a", "🙂"]),
        ([np.str_("n")], ["n"]),
        ([], []),
        (np.array([]), []),
    ],
)
def test_integers_and_strings_of_any_kind_are_read(given_ids, expected):
    found = texts(read_ids(given_ids))
    assert found == expected
    assert all(type(value) in (int, str) for value in found)


def test_columns_of_tables_are_read():
    pandas = pytest.importorskip("pandas")
    assert texts(read_ids(pandas.Series([7, 6]))) == [7, 6]
    assert texts(read_ids(pandas.Series(["x", "y"], dtype="string"))) == ["x", "y"]


@pytest.mark.parametrize(
    ("given_ids", "message"),
    [
        ([True, False], "got bool"),
        (np.array([True]), "got bool"),
        ([1, True], "got bool and int"),
        ([1, "1"], "got int and str"),
        ([1.0], "got float"),
        (np.array([1.0]), "got float64"),
        ([b"a"], "got bytes"),
        (np.array([b"a"]), "got |S1"),
        ([None], "got NoneType"),
        (np.array(["2020-01-01"], dtype="datetime64[ns]"), "got datetime64"),
        (np.array(["x", None], dtype=object), "got NoneType and str"),
        ("abc", "got a str"),
        (b"abc", "got a bytes"),
        (5, "got a int"),
        ({1, 2}, "got a set"),
        (np.zeros((2, 2), dtype=int), "got an array of shape (2, 2)"),
        ([[1, 2]], "got list"),
        ([2**63], "must fit in 64 bits"),
        ([-(2**63) - 1], "must fit in 64 bits"),
        (np.array([2**63], dtype=np.uint64), "must fit in 64 bits"),
        ([np.uint64(2**63)], "must fit in 64 bits"),
        (["fine", "\ud800"], "UTF-8"),
    ],
)
def test_anything_else_is_refused(given_ids, message):
    with pytest.raises(InputError) as caught:
        read_ids(given_ids)
    assert message in str(caught.value)


@given(distinct_lists, lists)
def test_every_id_is_found_where_it_stands_and_no_other(kept, sought):
    sought = [each for each in sought if kept == [] or isinstance(each, type(kept[0]))] + kept
    if not kept or not sought:
        return
    found = read_ids(kept).find(read_ids(sought))
    assert found.dtype == np.int64
    assert found.tolist() == [kept.index(each) if each in kept else -1 for each in sought]


@given(lists)
def test_repeated_ids_are_told(values):
    repeated = {value for value in values if values.count(value) > 1}
    assert sorted(read_ids(values).repeated().tolist()) == sorted(repeated)
    if repeated:
        with pytest.raises(InputError, match="more than once"):
            read_ids(values, distinct=True)
    else:
        assert texts(read_ids(values, distinct=True)) == values


@given(st.data(), distinct_lists)
def test_runs_are_joined_as_lists_are(data, values):
    if not values:
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    runs = [values[a:b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True) if a < b]
    kept = [
        data.draw(st.none() | st.lists(st.booleans(), min_size=len(run), max_size=len(run))) for run in runs
    ]
    joined = join_ids(
        [
            (read_ids(run), None if mask is None else np.array(mask))
            for run, mask in zip(runs, kept, strict=True)
        ]
    )
    expected = [
        value
        for run, mask in zip(runs, kept, strict=True)
        for value, keep in zip(run, mask or [True] * len(run), strict=True)
        if mask is None or keep
    ]
    assert texts(joined) == expected
    if expected:
        assert joined.find(read_ids(expected)).tolist() == list(range(len(expected)))


def test_strings_of_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr("xxhash.xxh3_64_intdigest", lambda text: len(text) % 2 << 32)
    kept = ["a", "b", "cc", "d", "ee", ""]
    ids = read_ids(kept)
    assert ids.find(read_ids(["d", "x", "", "ee", "f", "a"])).tolist() == [3, -1, 5, 4, -1, 0]
    assert ids.repeated().tolist() == []
    assert read_ids(["a", "b", "a", "cc", "b", "dd"]).repeated().tolist() == ["a", "b"]


def test_consecutive_numbers_take_no_memory():
    ids = read_ids(np.arange(5, 1005))
    assert isinstance(ids, NumberRange)
    assert (ids.nbytes, len(ids)) == (0, 1000)
    joined = join_ids([(ids, None), (NumberRange(1005, 3), None)])
    assert isinstance(joined, NumberRange)
    assert (joined.first, len(joined)) == (5, 1003)
    assert isinstance(join_ids([(ids, np.arange(1000) >= 10)]), NumberRange)


def test_a_gap_or_a_step_back_between_runs_is_kept():
    one = NumberRange(0, 3)
    assert texts(join_ids([(one, None), (NumberRange(4, 2), None)])) == [0, 1, 2, 4, 5]
    assert texts(join_ids([(NumberRange(3, 2), None), (one, None)])) == [3, 4, 0, 1, 2]


def test_integers_that_ascend_take_eight_bytes_and_others_twelve():
    assert read_ids(np.arange(0, 2000, 2)).nbytes == 8 * 1000
    assert read_ids(np.arange(1000)[::-1]).nbytes == 12 * 1000


@pytest.mark.parametrize("values", [[LOW, LOW + 1], [HIGH - 1, HIGH], [LOW, HIGH], [HIGH, 0, LOW], [0]])
def test_the_largest_and_smallest_integers_are_ids_like_others(values):
    ids = read_ids(values)
    assert ids.find(read_ids([LOW, HIGH, 0])).tolist() == [
        values.index(each) if each in values else -1 for each in (LOW, HIGH, 0)
    ]
    assert texts(ids) == values


def test_what_is_kept_does_not_change_with_what_was_given():
    given_ids = np.array([5, 3, 9])
    ids = read_ids(given_ids)
    given_ids[:] = 0
    assert texts(ids) == [5, 3, 9]


def test_ids_come_in_the_shape_that_is_asked_for():
    for ids in (
        NumberRange(4, 6),
        ListedIntegers(np.array([9, 7, 8, 1, 2, 3]), None),
        read_ids(list("abcdef")),
    ):
        taken = ids.take(np.array([[5, 0], [1, 1], [2, 3]]))
        assert taken.shape == (3, 2)
        assert taken[1, 0] == taken[1, 1] == texts(ids)[1]
    assert isinstance(ids, StringIds)
    assert taken.dtype == object


def test_strings_of_a_file_are_cut_between_characters():
    whole = read_ids(["ä", "b"])
    arrays = whole._arrays()
    assert whole._find_flaw() is None
    for name, values, flaw in [
        ("offsets", [0, 1, 3], "between the bytes of a character"),
        ("offsets", [0, 2, 4], "from 0 to 3"),
        ("offsets", [0, 4, 3], "from 0 to 3"),
        ("blob", [0xC3, 0xC3, 0x62], "not UTF-8"),
        ("order", [0, 2], "below 2"),
    ]:
        altered = {**arrays, name: np.array(values, dtype=arrays[name].dtype)}
        assert flaw in StringIds(**altered)._find_flaw()
