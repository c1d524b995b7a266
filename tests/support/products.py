"""A small table of products, and ways to write it down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet


class Products(NamedTuple):
    """What every format must give back."""

    X: Any  # (n, p) float32
    labels: list[str | None]
    ids: list[str]
    price: list[int]

    def frame(self) -> pd.DataFrame:
        """Return a DataFrame with a column of arrays."""
        return pd.DataFrame(
            {"sku": self.ids, "embedding": list(self.X), "category": self.labels, "price": self.price}
        )

    def table(self) -> pa.Table:
        """Return a pyarrow.Table with a column of fixed-size lists."""
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.X.ravel()), self.X.shape[1])
        return pa.table({"sku": self.ids, "embedding": vectors, "category": self.labels, "price": self.price})

    def lists(self) -> pd.DataFrame:
        """Return a DataFrame with a column of plain lists."""
        return self.frame().assign(embedding=[row.tolist() for row in self.X])

    def wide(self) -> pd.DataFrame:
        """Return a DataFrame with a column for every dimension."""
        rest = self.frame().drop(columns="embedding")
        return pd.concat([rest, pd.DataFrame(self.X).add_prefix("x")], axis=1)


def make_products(n: int = 60, p: int = 5, seed: int = 0) -> Products:
    """Return products whose labels have commas, quotes and gaps."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-64, 64, size=(n, p)).astype(np.float32) / 16  # every format holds them exactly
    kinds = ["shoes", "hats, caps", 'the "rest"', None]
    return Products(
        X, [kinds[k] for k in rng.integers(4, size=n)], [f"{k:04d}" for k in range(n)], list(range(n))
    )


def write_json_lines(path: Path, products: Products) -> None:
    """Write a JSON object a line."""
    rows = zip(products.ids, products.X.tolist(), products.labels, products.price, strict=True)
    names = ("sku", "embedding", "category", "price")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))


def write_folder(path: Path, products: Products) -> None:
    """Write three Parquet files, with numbers that do not sort as text."""
    path.mkdir()
    table, cut = products.table(), len(products.ids) // 3
    for number, start in ((9, 0), (10, cut), (11, 2 * cut)):
        pa.parquet.write_table(
            table.slice(start, cut if number < 11 else None), path / f"part-{number}.parquet"
        )
    (path / "_SUCCESS").write_text("")


def write_partitions(path: Path, products: Products) -> None:
    """Write one Parquet file in a folder whose name is a column."""
    (path / "shop=north%20side").mkdir(parents=True)
    pa.parquet.write_table(products.table(), path / "shop=north%20side" / "part-0.parquet")


TABLE_FILES: dict[str, Callable[[Path, Products], object]] = {
    "a.parquet": lambda path, products: pa.parquet.write_table(products.table(), path, row_group_size=7),
    "pandas.parquet": lambda path, products: products.frame().to_parquet(path),
    "folder": write_folder,
    "partitions": write_partitions,
    "a.arrow": lambda path, products: pa.feather.write_feather(products.table(), path),
    "a.jsonl": write_json_lines,
    "lists.csv": lambda path, products: products.lists().to_csv(path, index=False),
    "index.csv": lambda path, products: products.lists().to_csv(path),
    "wide.csv": lambda path, products: products.wide().to_csv(path, index=False, encoding="utf-8-sig"),
    "wide.tsv": lambda path, products: products.wide().to_csv(path, sep="\t"),
    "semicolons.csv": lambda path, products: products.wide().to_csv(path, sep=";", lineterminator="\r\n"),
    "a.csv.gz": lambda path, products: products.wide().to_csv(path),
    "a.jsonl.gz": lambda path, products: products.lists().to_json(path, orient="records", lines=True),
    "wide.parquet": lambda path, products: products.wide().to_parquet(path),
    "named.txt": lambda path, products: products.wide().to_csv(path),
}
"""How a table of products is written to each kind of file."""


def write_hdf5(path: Path, products: Products) -> None:
    """Write arrays with names to an HDF5 file."""
    with h5py.File(path, "w") as file:
        file["group/vectors"] = products.X
        file["labels"] = [label or "" for label in products.labels]


def write_bin(path: Path, products: Products) -> None:
    """Write a .fbin file."""
    path.write_bytes(np.array(products.X.shape, dtype="<u4").tobytes() + products.X.tobytes())


def write_vecs(path: Path, products: Products) -> None:
    """Write an .fvecs file."""
    dims = np.full((len(products.X), 1), products.X.shape[1], dtype="<i4").view("<f4")
    np.hstack([dims, products.X]).astype("<f4").tofile(path)


def write_shards(path: Path, products: Products) -> None:
    """Write two .npy files."""
    path.mkdir()
    np.save(path / "shard-2.npy", products.X[:17])
    np.save(path / "shard-10.npy", products.X[17:])


MATRIX_FILES: dict[str, Callable[[Path, Products], object]] = {
    "a.npy": lambda path, products: np.save(path, products.X),
    "fortran.npy": lambda path, products: np.save(path, np.asfortranarray(products.X)),
    "shards": write_shards,
    "a.npz": lambda path, products: np.savez(path, X=products.X),
    "a.h5": write_hdf5,
    "a.fbin": write_bin,
    "a.fvecs": write_vecs,
    "plain.csv": lambda path, products: np.savetxt(path, products.X, delimiter=","),
    "counted.csv": lambda path, products: pd.DataFrame(products.X).to_csv(path),
}
"""How vectors alone are written to each kind of file."""
