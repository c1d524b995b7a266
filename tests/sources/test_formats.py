"""The same rows come back from every format, whole and in any range of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import duckdb
import h5py
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from products import MATRIX_FILES, TABLE_FILES, Products, make_products

from supquant import InputError, VectorSource, open_vectors
from supquant.sources import tables

TABLES = {
    "pandas": lambda products: products.frame(),
    "pandas with an index": lambda products: products.frame().set_index(np.array(products.price) + 5),
    "pyarrow": lambda products: products.table(),
    "pyarrow stream": lambda products: products.table().to_reader(max_chunksize=7),
    "pyarrow batch": lambda products: products.table().to_batches()[0],
    "pyarrow dataset": lambda products: pa.dataset.dataset(products.table()),
    "Polars": lambda products: pl.from_arrow(products.table()),
    "lazy Polars": lambda products: pl.from_arrow(products.table()).lazy(),
    "DuckDB": lambda products: duckdb.from_arrow(products.table()),
    "Hugging Face": lambda products: datasets.Dataset.from_pandas(products.frame()),
}


def check_table(source: VectorSource, products: Products) -> None:
    np.testing.assert_array_equal(source.X, products.X)
    assert source.shape == products.X.shape
    assert source.labels.tolist() == products.labels
    assert source.ids is not None
    assert source.ids.tolist() == products.ids
    assert [int(price) for price in source.metadata["price"].to_pylist()] == products.price
    for start, stop in ((0, None), (3, 41), (-5, None), (20, 20)):
        check_range(source, products, slice(start, stop), 8)


def check_range(source: VectorSource, products: Products, rows: slice, size: int) -> None:
    blocks = list(source.blocks(rows.start, rows.stop, rows=size))
    first = rows.indices(len(source))[0]
    assert [block.start for block in blocks] == [
        first + sum(map(len, blocks[:number])) for number in range(len(blocks))
    ]
    assert all(0 < len(block) <= size for block in blocks)
    np.testing.assert_array_equal(
        np.concatenate([block.X for block in blocks] or [products.X[:0]]), products.X[rows]
    )
    assert [label for block in blocks for label in block.labels] == products.labels[rows]
    assert [name for block in blocks if block.ids is not None for name in block.ids] == products.ids[rows]
    prices = [int(price) for block in blocks for price in block.metadata["price"].to_pylist()]
    assert prices == products.price[rows]


@pytest.mark.parametrize("name", TABLE_FILES)
def test_every_table_file_gives_the_same_rows(name: str, products: Products, tmp_path: Path) -> None:
    TABLE_FILES[name](tmp_path / name, products)
    source = open_vectors(tmp_path / name, labels="category", ids="sku", metadata=["price"])
    check_table(source, products)
    assert any("vectors" in note for note in source.notes)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_in_memory_gives_the_same_rows(name: str, products: Products) -> None:
    table: Any = TABLES[name](products)
    check_table(
        open_vectors(table, vectors="embedding", labels=True, ids="sku", metadata=["price"]), products
    )


@pytest.mark.parametrize("name", MATRIX_FILES)
def test_every_array_file_gives_the_same_rows(name: str, products: Products, tmp_path: Path) -> None:
    MATRIX_FILES[name](tmp_path / name, products)
    source = open_vectors(
        str(tmp_path / name), labels=products.labels, ids=products.ids, metadata=products.table()
    )
    check_table(source, products)


def test_a_long_stream_is_kept_in_a_file(products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MEMORY_BYTES", 100)
    before = pa.total_allocated_bytes()
    source = open_vectors(
        products.table().to_reader(max_chunksize=7), labels="category", ids="sku", metadata=["price"]
    )
    assert pa.total_allocated_bytes() - before < 100  # the rest is mapped
    check_table(source, products)


def test_an_array_of_a_group_is_named_by_its_path(products: Products, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["train/vectors"], file["test/vectors"] = products.X, products.X[:3]
        file["train/kinds"] = products.price
    source = open_vectors(tmp_path / "a.h5", vectors="train/vectors", labels="train/kinds")
    assert source.labels.tolist() == products.price


def test_a_partition_is_a_column(products: Products, tmp_path: Path) -> None:
    TABLE_FILES["partitions"](tmp_path / "shops", products)
    assert open_vectors(tmp_path / "shops", labels="shop").labels.tolist() == ["north side"] * len(products.X)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64"])
@pytest.mark.parametrize("make", ["list", "large list", "fixed list", "array", "tensor"])
def test_numbers_keep_their_type(dtype: str, make: str) -> None:
    X = np.arange(12).reshape(4, 3).astype(dtype)
    if make == "array":
        source = open_vectors(X)
    else:
        flat = pa.array(X.ravel())
        column: Any = pa.FixedSizeListArray.from_arrays(flat, 3)
        if make == "tensor":
            column = pa.FixedShapeTensorArray.from_numpy_ndarray(X)
        elif make != "fixed list":
            column = column.cast(pa.list_(flat.type) if make == "list" else pa.large_list(flat.type))
        source = open_vectors(pa.table({"v": column}))
    assert source.dtype == dtype
    np.testing.assert_array_equal(source.X, X)


def test_an_open_source_is_returned_unchanged(products: Products) -> None:
    source = open_vectors(products.X)
    assert open_vectors(source) is source
    assert source.X is products.X  # no copy


def test_an_npy_file_is_mapped(products: Products, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", products.X)
    assert isinstance(open_vectors(tmp_path / "a.npy").X, np.memmap)


def test_lists_give_several_labels_per_row() -> None:
    table = pa.table({"v": [[1.0], [2.0], [3.0]], "tags": [["a", "b"], None, []]})
    assert open_vectors(table, labels="tags").labels.tolist() == [["a", "b"], None, []]


def test_integers_in_a_text_file_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x0,x1,label,id,code\n1,2,5,7,007\n3,4,,8,008\n")
    source = open_vectors(tmp_path / "a.csv", labels=True, ids=True)
    assert source.labels.tolist() == [5, None]
    assert source.ids is not None
    assert source.ids.tolist() == [7, 8]
    padded = open_vectors(tmp_path / "a.csv", vectors="x*", ids="code")
    assert padded.ids is not None
    assert padded.ids.tolist() == ["007", "008"]


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 70),
    p=st.integers(2, 9),
    start=st.integers(0, 70),
    length=st.integers(0, 70),
    rows=st.integers(1, 30),
    name=st.sampled_from([*TABLE_FILES]),
    seed=st.integers(0, 3),
)
def test_any_range_of_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    p: int,
    start: int,
    length: int,
    rows: int,
    name: str,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("rows") / name
    products = make_products(max(n, 3) if name == "folder" else n, p, seed)
    TABLE_FILES[name](path, products)
    source = open_vectors(path, labels="category", ids="sku", metadata=["price"])
    check_range(source, products, slice(start, start + length), rows)


def test_labels_and_ids_may_be_separate_files(products: Products, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", products.X)
    (tmp_path / "y.txt").write_text("\n".join(label or "" for label in products.labels).replace(",", ";"))
    np.save(tmp_path / "ids.npy", np.array(products.ids))
    pq.write_table(products.table(), tmp_path / "all.parquet")
    wanted = [label and label.replace(",", ";").replace('"', "") for label in products.labels]
    read = open_vectors(tmp_path / "X.npy", labels=tmp_path / "y.txt", ids=str(tmp_path / "ids.npy"))
    assert [label and label.replace('"', "") for label in read.labels] == wanted
    assert read.ids is not None
    assert read.ids.tolist() == products.ids
    assert open_vectors(products.X, labels=str(tmp_path / "all.parquet")).labels.tolist() == products.labels


def test_a_wrong_number_of_labels_is_refused(products: Products) -> None:
    with pytest.raises(InputError, match="array has 60 rows, but there are 59 labels"):
        open_vectors(products.X, labels=products.labels[1:])


def test_a_tensor_of_bfloat16_is_read_as_float32(products: Products) -> None:
    """Stand in for torch, which the tests do not install: NumPy refuses its bfloat16 tensors."""

    class Tensor:
        __module__ = "torch"
        dtype, shape = "torch.bfloat16", products.X.shape

        def detach(self) -> Tensor:
            return self

        cpu = detach

        def float(self) -> Any:
            converted = Tensor()
            converted.numpy = lambda: products.X  # type: ignore[attr-defined]
            return converted

        def numpy(self) -> None:
            raise TypeError("Got unsupported ScalarType BFloat16")

    np.testing.assert_array_equal(open_vectors(Tensor()).X, products.X)
