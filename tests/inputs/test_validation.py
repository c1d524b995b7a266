import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from supquant.errors import InputError, InputTypeError
from supquant.inputs.validation import as_float32, check_columns, check_vectors


class TensorLike:
    """An object that NumPy can convert, such as a torch tensor or a DataFrame."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16, np.uint8, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=2, max_dims=2),
        elements=st.integers(0, 1),
    )
)
def test_numbers_keep_their_dtype_and_their_memory(X):
    checked = check_vectors(X)
    assert checked.dtype == X.dtype
    assert np.shares_memory(checked, X)


def test_a_memory_map_stays_mapped_and_no_full_size_temporary_is_made(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (50_000, 64))  # 12.8 MB
    tracemalloc.start()
    checked = check_vectors(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(checked, rows)
    assert peak < 1_000_000


@pytest.mark.parametrize("container", [list, TensorLike, lambda X: X.astype(object)])
def test_anything_numpy_can_read_is_accepted(container):
    X = np.array([[1.0, 2.0], [3.0, 4.5]])
    checked = check_vectors(container(X))
    assert checked.dtype == np.float64
    assert np.array_equal(checked, X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1j]]), "Complex data not supported"),
        ([["a", "b"]], "got text"),
        (np.array([["a"]], dtype=object), "could not convert string to float"),
        (np.array([[10**400]], dtype=object), "too large"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "real numbers, got dtype datetime64"),
        ([1.0, 2.0], "Reshape your data"),
        (3.0, "Reshape your data"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.zeros((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required."),
        ([[1, 2], [3]], "inhomogeneous"),
    ],
)
def test_anything_else_is_refused(X, message):
    with pytest.raises(InputError, match=message):
        check_vectors(X)


def test_sparse_matrices_and_objects_are_refused_as_type_errors():
    with pytest.raises(InputTypeError, match=r"[Ss]parse"):
        check_vectors(scipy.sparse.csr_array(np.eye(3)))
    with pytest.raises(InputTypeError, match=r"argument must be .* string.* number"):
        check_vectors(np.array([[{}]], dtype=object))


def test_an_error_of_the_container_itself_becomes_an_input_error():
    class Refusing:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("Can't call numpy() on a tensor that requires grad")

    with pytest.raises(InputError, match="requires grad"):
        check_vectors(Refusing())


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.longdouble])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("row", [0, 4095, 4096, 4999])
def test_one_bad_value_anywhere_is_found_and_its_row_named(dtype, value, what, row):
    X = np.zeros((5000, 2), dtype=dtype)
    X[row, 1] = value
    with pytest.raises(InputError, match=rf"Input Q contains {what}.* \(first in row {row}\)"):
        check_vectors(X, name="Q")


def test_nan_is_reported_before_infinity_and_in_any_memory_order():
    X = np.asfortranarray([[np.inf, 0.0], [0.0, np.nan]])
    with pytest.raises(InputError, match=r"contains NaN \(first in row 1\)"):
        check_vectors(X)


def test_values_beyond_float32_are_refused_as_infinity():
    largest = float(np.finfo(np.float32).max)
    check_vectors([[largest, -largest]])
    with pytest.raises(InputError, match=r"infinity or a value too large for dtype\('float32'\)"):
        check_vectors([[0.0, -1e39]])


def test_another_width_is_refused_with_both_numbers():
    X = np.zeros((2, 3))
    check_vectors(X, n_features=3)
    with pytest.raises(InputError, match="X has 3 features, but supquant is expecting 2 features as input"):
        check_vectors(X, n_features=2)
    with pytest.raises(InputError, match="Q has 3 features, but PQ is expecting 2 features as input"):
        check_vectors(X, n_features=2, name="Q", estimator="PQ")


def test_fewer_rows_than_required_are_refused_with_both_numbers():
    X = np.zeros((3, 2))
    check_vectors(X, min_rows=3)
    check_vectors(X[:0], min_rows=0)
    with pytest.raises(InputError, match=r"3 sample\(s\).*minimum of 4"):
        check_vectors(X, min_rows=4)


def test_float32_rows_are_viewed_and_others_converted():
    rows = np.ones((4, 3), dtype=np.float32)
    assert as_float32(rows[1:3]).base is rows
    for block in (rows.T, rows.astype(np.float16), rows.astype(np.uint8)):
        converted = as_float32(block)
        assert converted.dtype == np.float32
        assert converted.flags.c_contiguous
        assert np.array_equal(converted, block)


def test_masked_vectors_are_refused():
    with pytest.raises(InputError, match="X must not be a masked array"):
        check_vectors(np.ma.array([[0.0, 1.0], [2.0, np.nan]], mask=[[0, 0], [0, 1]]))


@pytest.mark.parametrize(
    "X",
    [
        "red shoes",
        b"red",
        ["red", "blue"],
        [["red"]],
        np.array("red"),
        np.array([["red"]]),
    ],
)
def test_texts_are_no_vectors(X):
    with pytest.raises(InputTypeError, match="Q must be vectors of numbers, got text: encode it"):
        check_vectors(X, name="Q")


def test_more_columns_than_the_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.get)
    check_columns(357)
    with pytest.raises(
        InputError, match=r"X has 100,000 columns, .* 320 GB, of which this machine has 0; make fewer"
    ):
        check_columns(100_000)
