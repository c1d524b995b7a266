"""Columns of an index follow their rows through every change, and choose rows by conditions."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from everywhere import everywhere, put_somewhere
from products import make_products

from supquant import AdditiveCodec, CodeIndex, FileFormatError, InputError, open_vectors, storage
from supquant.client import Client
from supquant.index.manifest import manifest_bytes


@pytest.fixture
def codec():
    return AdditiveCodec(np.arange(256, dtype=np.float32).reshape(1, 256, 1))


@pytest.fixture
def index(request, codec):
    """Five rows with two columns; with `everywhere`, also behind a client and in shards."""
    metadata = {"price": [5, 50, 7, None, 9], "brand": ["x", "y", "x", "z", None]}
    made = CodeIndex(codec).add_codes(np.arange(5)[:, None], list("abcde"), metadata=metadata)
    return put_somewhere(request, made)


def rows(table):
    return table.to_pylist()


@everywhere
def test_rows_come_back_with_their_columns(index):
    assert index.columns == ["price", "brand"]
    assert rows(index.get(["d", "a"])) == [
        {"id": "d", "price": None, "brand": "z"},
        {"id": "a", "price": 5, "brand": "x"},
    ]
    assert rows(index.get(["b"], ["brand"])) == [{"id": "b", "brand": "y"}]
    assert rows(index.get([])) == []


@everywhere
def test_lists_of_lists_are_no_ids(index):
    with pytest.raises(InputError, match="ids must be all integers or all strings"):
        index.get([[1, 2], [3]])


@everywhere
def test_answers_come_back_as_a_table(index):
    table = index.search_table([[0.2], [4.0]], k=2, columns=["price"])
    scores, ids = index.search([[0.2], [4.0]], k=2)
    assert table["id"].to_pylist() == ids.ravel().tolist() == ["a", "b", "e", "d"]
    assert table["score"].to_pylist() == scores.ravel().tolist()
    assert table["query"].to_pylist() == [0, 0, 1, 1]
    assert table["rank"].to_pylist() == [1, 2, 1, 2]
    assert table["price"].to_pylist() == [5, 50, 9, None]
    assert index.search_table(np.array([4.0]), k=1)["id"].to_pylist() == ["e"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("price < 10", ["a", "c", "e"]),
        ("price < 10 and brand == 'x'", ["a", "c"]),
        ("brand in ('y', 'z') or price = 9", ["b", "d", "e"]),
        ("price is null", ["d"]),
        ("price > 1000", []),
    ],
)
@everywhere
def test_conditions_choose_rows(index, where, found):
    assert sorted(index.search([[0.0]], k=9, where=where)[1][0].tolist()) == found
    chosen = index.filter(where)
    index.remove(["a"]).add_codes([[1]], ["f"], metadata={"price": [1], "brand": ["x"]})
    assert sorted(index.search([[0.0]], k=9, where=chosen)[1][0].tolist()) == [
        id_ for id_ in found if id_ != "a"
    ]


@everywhere
def test_expressions_of_pyarrow_choose_rows(index):
    less, x = pc.field("price") < 10, pc.field("brand") == "x"
    if isinstance(index, Client):
        with pytest.raises(InputError, match="takes conditions as text"):
            index.search([[0.0]], where=less)
        return
    assert sorted(index.search([[0.0]], k=9, where=less)[1][0].tolist()) == ["a", "c", "e"]
    assert sorted(index.search([[0.0]], k=9, where=less & x)[1][0].tolist()) == ["a", "c"]
    with pytest.raises(InputError, match="colour"):
        index.search([[0.0]], where=pc.field("colour") == "red")


@everywhere
def test_a_condition_asks_the_column_of_the_users_name(index):
    metadata = {"price": [1] * 5, "__row__": [9, 8, 7, 6, 5], "supquant_row": [0, 0, 0, 0, 1]}
    index.update_codes(list("abcde"), [[0]] * 5, metadata=metadata)
    assert sorted(index.select("__row__ > 7")) == ["a", "b"]
    assert list(index.select("supquant_row = 1")) == ["e"]
    assert list(index.select('"__ROW__" = 5')) == ["e"]
    with pytest.raises(InputError, match="cannot be evaluated"):
        index.select("supquant_row_ = 1")


@everywhere
def test_a_condition_that_may_mean_two_columns_is_refused(index):
    other = {"PRICE": [0, 0, 0, 0, 50]}
    if isinstance(index, Client):  # the conditions of all clients would be refused
        with pytest.raises(InputError, match="tell a column 'PRICE' from 'price'"):
            index.update_codes(list("abcde"), [[0]] * 5, metadata=other)
        assert index.columns == ["price", "brand"]
        return
    index.update_codes(list("abcde"), [[0]] * 5, metadata=other)
    for where in ("price < 10", "PRICE < 10", '"PRICE" < 10', "columns('brand') = 'x'"):
        with pytest.raises(InputError, match="'price' or 'PRICE', which differ only in case"):
            index.select(where)
    assert sorted(index.select("brand = 'x'")) == ["a", "c"]
    assert list(index.select(pc.field("PRICE") > 10)) == ["e"]
    assert list(index.select(pc.field("price") > 10)) == ["b"]


def test_an_expression_must_be_true_or_false(index):
    assert len(index.select(pc.scalar(True))) == 5
    with pytest.raises(InputError, match="must be true or false for every row, got int64"):
        index.select(pc.field("price") + 1)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("colour = 'red'", "colour"),
        ("price <", "cannot be evaluated"),
        ("brand in (select * from read_csv('/etc/passwd'))", "cannot be evaluated"),
        ("1; drop table items", "cannot be evaluated"),
    ],
)
@everywhere
def test_conditions_that_make_no_sense_are_refused(index, where, said):
    with pytest.raises(InputError, match=said):
        index.search([[0.0]], where=where)


@everywhere
def test_a_condition_reads_no_file(index, tmp_path):
    (tmp_path / "brands.csv").write_text("brand\nx\n")
    with pytest.raises(InputError, match="cannot be evaluated"):
        index.search([[0.0]], where=f"brand in (select brand from read_csv('{tmp_path}/brands.csv'))")


@everywhere
def test_an_array_of_pyarrow_is_ids(index):
    assert index.search([[0.0]], where=pa.array(["c", "b"]))[1].tolist() == [["b", "c"]]


def test_an_index_without_columns_refuses_conditions(codec):
    with pytest.raises(InputError, match="has no columns"):
        CodeIndex(codec).add_codes([[1]]).search([[0.0]], where="price < 10")
    with pytest.raises(InputError, match="has no column 'price': it has none"):
        CodeIndex(codec).add_codes([[1]]).get([0], ["price"])


@everywhere
def test_an_update_keeps_columns_unless_it_brings_others(index):
    index.update_codes(["b"], [[9]])
    assert rows(index.get(["b"])) == [{"id": "b", "price": 50, "brand": "y"}]
    index.update_codes(["b", "d"], [[9], [9]], metadata={"price": [1, 2]})
    assert rows(index.get(["b", "d"])) == [
        {"id": "b", "price": 1, "brand": "y"},
        {"id": "d", "price": 2, "brand": "z"},
    ]
    with pytest.warns(UserWarning, match=r"null there: brand \(given were price, size\)"):
        index.upsert_codes(["d", "f"], [[9], [9]], metadata={"price": [3, 4], "size": ["L", "S"]})
    assert rows(index.get(["a", "d", "f"])) == [
        {"id": "a", "price": 5, "brand": "x", "size": None},
        {"id": "d", "price": 3, "brand": "z", "size": "L"},
        {"id": "f", "price": 4, "brand": None, "size": "S"},
    ]
    assert index.search([[0.0]], where="size = 'L'")[1].tolist() == [["d"]]


@everywhere
def test_new_rows_that_lack_a_column_give_a_warning(index):
    with pytest.warns(UserWarning, match=r"null there: brand \(given were price, colour\)"):
        index.add_codes([[1]], ["f"], metadata={"price": [1], "colour": ["red"]})
    assert index.get(["f"])["brand"].to_pylist() == [None]
    index.update_codes(["f"], [[1]], metadata={"price": [2]})
    index.upsert_codes(["f"], [[1]], metadata={"price": [2]})
    index.add_codes([[1]], ["g"])


def test_rows_without_metadata_have_nulls(codec):
    index = CodeIndex(codec).add_codes([[1]]).add_codes([[2]], metadata={"price": [3]}).add_codes([[4]])
    assert index.get([0, 1, 2])["price"].to_pylist() == [None, 3, None]
    assert index.search([[0.0]], where="price is null")[1].tolist() == [[0, 2]]


@pytest.mark.parametrize("updated", ["a", "c"])
def test_a_column_of_nulls_gets_its_type_from_the_first_value(codec, tmp_path, updated):
    index = CodeIndex(codec)
    index.add_codes([[0], [1]], ["a", "b"], metadata={"price": [None, None]})
    index.add_codes([[0], [1]], ["c", "d"], metadata={"price": [None, None]})
    index.update_codes([updated], [[1]], metadata={"price": [1.5]})
    index.add_codes([[0]], ["e"], metadata={"price": [2]})
    index.save(tmp_path / "index")
    for state in (index, CodeIndex.load(tmp_path / "index")):
        for _ in range(2):
            prices = dict(zip("abcde", state.get(list("abcde"))["price"].to_pylist(), strict=True))
            assert prices == {**dict.fromkeys("abcde"), updated: 1.5, "e": 2.0}
            assert sorted(state.search([[0.0]], 5, where="price > 1")[1][0]) == [updated, "e"]
            state.compact()


@everywhere
def test_a_column_keeps_its_type(index):
    index.add_codes([[1]], ["f"], metadata={"price": np.array([3], dtype=np.int8), "brand": ["x"]})
    assert index.get(["f"]).schema.field("price").type == pa.int64()
    before = rows(index.get(index.ids))
    with pytest.raises(InputError, match="metadata cannot be kept"):
        index.add_codes([[1]], ["g"], metadata={"price": ["dear"]})
    with pytest.raises(InputError, match="2 rows for 1 items"):
        index.add_codes([[1]], ["g"], metadata={"price": [1, 2]})
    assert "g" not in index
    assert rows(index.get(index.ids)) == before


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "categories"])
def test_metadata_may_be_any_table(codec, kind):
    frame = pd.DataFrame({"brand": ["x", "y"]})
    table = {
        "arrow": pa.table({"brand": ["x", "y"]}),
        "pandas": frame,
        "polars": pl.DataFrame({"brand": ["x", "y"]}),
        "categories": frame.astype("category"),
    }[kind]
    index = CodeIndex(codec).add_codes([[1], [2]], metadata=table).add_codes([[3], [4]], metadata=table)
    assert index.get([0, 1, 2, 3])["brand"].to_pylist() == ["x", "y", "x", "y"]


def dictionary(values):
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), values)


HALVES, TEXTS = pa.array([1, 2, 3], pa.float16()), pa.array(list("abc"), pa.string_view())
CHANGED = {
    "float16": (HALVES, pa.float32()),
    "a list of float16": (pa.array([[1.0], [], None], pa.list_(pa.float16())), pa.list_(pa.float32())),
    "a dictionary of float16": (dictionary(HALVES), pa.float32()),
    "decimal256": (pa.array([1, 2, None], pa.decimal256(10, 2)), pa.decimal128(10, 2)),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), pa.string()),
    "views": (TEXTS, pa.large_string()),
    "a struct of views": (pa.StructArray.from_arrays([TEXTS], ["s"]), pa.struct([("s", pa.large_string())])),
    "a list of views": (pa.array([["a"]] * 3, pa.list_(pa.string_view())), pa.list_(pa.large_string())),
}


@pytest.mark.parametrize("case", CHANGED)
def test_values_of_any_type_are_kept_in_one_that_can_be_read(codec, tmp_path, case):
    values, kind = CHANGED[case]
    table = pa.table({"value": values, "price": [1, 2, 3]})
    index = CodeIndex(codec).add_codes([[1], [2], [3]], list("abc"), metadata=table)
    index.update_codes(["b"], [[9]], metadata=table.slice(1, 1))
    index.add_codes([[4]], ["d"], metadata=table.slice(0, 1)).save(tmp_path / "i")
    for each in (index, CodeIndex.load(tmp_path / "i")):
        found = each.get(list("abc"))["value"]
        assert found.type == kind
        assert found.to_pylist() == values.to_pylist()
        assert each.select("price > 2").tolist() == ["c"]
        assert each.select(pc.field("price") > 2).tolist() == ["c"]
        assert "c" in each.select("value is not null or price = 3")


@pytest.mark.parametrize("case", CHANGED)
def test_types_in_older_files_break_no_condition(codec, case):
    values, _ = CHANGED[case]
    index = CodeIndex(codec).add_codes([[1], [2], [3]], metadata={"price": [1, 2, 3]})
    (part,) = index._snapshot.parts
    part.columns.__dict__.pop("_opened", None)
    part.columns._ipc = ipc_of(pa.table({"value": values, "price": [1, 2, 3]}))
    assert index.get([0, 1, 2])["value"].to_pylist() == values.to_pylist()
    assert index.select("price > 2").tolist() == [2]


def test_a_type_that_duckdb_cannot_read_is_in_the_way_of_no_other_column(codec):
    wide = pa.array([10**50, 1], pa.decimal256(60, 0))
    index = CodeIndex(codec).add_codes([[1], [2]], metadata=pa.table({"wide": wide, "price": [1, 2]}))
    assert index.select("price > 1").tolist() == [1]
    with pytest.raises(InputError, match="'wide > 1' cannot be evaluated"):
        index.select("wide > 1")


def raw(kind, *values):
    """Return an array of a type whose values are given as integers, right or wrong."""
    dtype = np.int32 if kind.bit_width == 32 else np.int64
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, dtype))])


UNREADABLE = {
    "a day of half": raw(pa.date64(), 0, 5),
    "a date beyond Python": raw(pa.date32(), 0, 2**31 - 1),
    "a time above a day": raw(pa.time64("us"), 0, 2**62),
    "seconds beyond Python": raw(pa.timestamp("s"), 0, 2**62),
    "microseconds beyond Python": raw(pa.timestamp("us", "UTC"), 0, -(2**62)),
    "in a list": pa.array([[0], [2**62]], pa.list_(pa.timestamp("s"))),
    "in a struct": pa.StructArray.from_arrays([raw(pa.timestamp("ms"), 0, 2**62)], ["s"]),
    "in a map": pa.array([[], [(2**62, "a")]], pa.map_(pa.timestamp("s"), pa.string())),
    "a duration beyond Python": raw(pa.duration("s"), 0, 2**62),
    "an unknown time zone": raw(pa.timestamp("us", "No/Where"), 0, 1),
    "no UTF-8": pa.array([b"a", b"\xff"]).view(pa.string()),
    "runs in a list": pa.ListArray.from_arrays([0, 1, 3], CHANGED["runs"][0]),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_values_that_could_not_be_read_again_are_refused(codec, case):
    index = CodeIndex(codec)
    with pytest.raises(InputError, match="metadata cannot be kept: column 'value' of"):
        index.add_codes([[1], [2]], metadata=pa.table({"value": UNREADABLE[case]}))
    assert len(index) == 0


def test_dates_and_times_that_python_holds_are_kept(codec):
    kinds = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
    kinds += [pa.duration("us"), pa.duration("ns"), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")]
    table = pa.table({str(kind): raw(kind, 0, 0) for kind in kinds} | {"none": pa.nulls(2, pa.date32())})
    index = CodeIndex(codec).add_codes([[1], [2]], metadata=table)
    assert index.get([0, 1]).drop(["id"]).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("mapped", [True, False])
def test_a_folder_holds_the_columns(index, tmp_path, mapped):
    index.remove(["c"]).save(tmp_path / "i")
    assert json.loads((tmp_path / "i" / "manifest.json").read_text())["version"] == 1
    loaded = CodeIndex.load(tmp_path / "i", mapped=mapped)
    assert rows(loaded.get(loaded.ids)) == rows(index.get(index.ids))
    assert loaded.search([[0.0]], where="price < 10")[1].tolist() == [["a", "e"]]
    names = {path.name for path in (tmp_path / "i").iterdir()}
    loaded.save(tmp_path / "i")
    assert {path.name for path in (tmp_path / "i").iterdir()} == names  # nothing is written again
    loaded.update_codes(["a"], [[3]], metadata={"price": [6]}).save(tmp_path / "i")
    assert CodeIndex.load(tmp_path / "i", verify="full").get(["a"])["price"].to_pylist() == [6]
    assert (
        sum(name.startswith("columns-") for name in (path.name for path in (tmp_path / "i").iterdir())) == 1
    )


def test_copies_and_pickles_hold_the_columns(index, tmp_path):
    index.save(tmp_path / "i")
    for each in (copy.copy(index), copy.deepcopy(index), pickle.loads(pickle.dumps(index))):
        assert rows(each.get(each.ids)) == rows(index.get(index.ids))
        each.update_codes(["a"], [[3]], metadata={"price": [1000]})
        assert index.get(["a"])["price"].to_pylist() == [5]
    loaded = CodeIndex.load(tmp_path / "i")
    assert rows(pickle.loads(pickle.dumps(loaded)).get(["b"])) == rows(index.get(["b"]))


def test_a_damaged_file_of_columns_is_refused(index, tmp_path):
    index.save(tmp_path / "i")
    (path,) = (tmp_path / "i").glob("columns-*")
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    loaded = CodeIndex.load(tmp_path / "i")
    assert loaded.search([[0.0]], k=1)[1].tolist() == [["a"]]  # codes are sound
    with pytest.raises(FileFormatError, match="columns-"):
        loaded.get(["a"])


def test_a_source_is_added_with_all_it_has(codec):
    products = make_products(40, 1)
    source = open_vectors(products.table(), ids="sku", metadata=["price", "category"])
    index = CodeIndex(codec).add(source)
    assert index.ids.tolist() == products.ids
    assert index.get(index.ids)["price"].to_pylist() == products.price
    np.testing.assert_array_equal(index.codes(index.ids), codec.encode_items(products.X))


@pytest.mark.parametrize("seed", range(4))
def test_columns_follow_random_changes(codec, tmp_path, seed):
    """Compare with a plain dict of rows, through merges, removals, updates, saves and loads."""
    rng = np.random.default_rng(seed)
    index, model, next_id = CodeIndex(codec), {}, 0
    for _ in range(60):
        action = rng.choice(["add", "bare", "update", "upsert", "remove", "compact", "save"])
        n = int(rng.integers(1, 40))
        prices = rng.integers(0, 20, size=n)
        codes = rng.integers(0, 256, size=(n, 1))
        if action in ("add", "bare"):
            ids = list(range(next_id, next_id + n))
            next_id += n
            index.add_codes(codes, ids, metadata=None if action == "bare" else {"price": prices})
            values = [None] * n if action == "bare" else prices.tolist()
            model |= dict(zip(ids, values, strict=True))
        elif action == "upsert":
            ids = rng.choice(next_id + 20, size=n, replace=False).tolist() if next_id + 20 >= n else []
            index.upsert_codes(ids, codes[: len(ids)], metadata={"price": prices[: len(ids)]})
            model |= dict(zip(ids, prices.tolist(), strict=False))
            next_id = max(next_id, *ids, -1) + 1 if ids else next_id
        elif action in ("update", "remove") and model:
            ids = rng.choice(list(model), size=min(n, len(model)), replace=False).tolist()
            if action == "update":
                index.update_codes(ids, codes[: len(ids)], metadata={"price": prices[: len(ids)]})
                model |= dict(zip(ids, prices.tolist(), strict=False))
            else:
                index.remove(ids)
                model = {id_: price for id_, price in model.items() if id_ not in set(ids)}
        elif action == "compact":
            index.compact()
        elif action == "save":
            index.save(tmp_path / "i", overwrite=True)
            index = CodeIndex.load(tmp_path / "i")
        assert set(index.ids.tolist()) == set(model)
        if index.columns:
            got = index.get(index.ids)
            assert dict(zip(got["id"].to_pylist(), got["price"].to_pylist(), strict=True)) == model
            cheap = index.search([[0.0]], k=10_000, where="price < 10")[1][0].tolist() if model else []
            assert sorted(cheap) == sorted(
                id_ for id_, price in model.items() if price is not None and price < 10
            )


def ipc_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (np.zeros(100, dtype=np.uint8), "holds no Arrow table"),
        (np.arange(100, dtype=np.uint8), "holds no Arrow table"),
        (ipc_of(pa.table({"price": [1, 2]})), "has 2 rows, expected 5"),
        (ipc_of(pa.table([[1] * 5, [2] * 5], names=["a", "a"])), "two columns of the same name"),
        (ipc_of(pa.table({"price": [1] * 5}))[:-90], "holds no Arrow table|has 0 rows"),
    ],
)
def test_forged_columns_with_right_digests_are_refused(index, tmp_path, forged, said):
    folder = tmp_path / "i"
    index.save(folder)
    packed = storage.pack_arrays("columns", {"ipc": forged}, {})
    name = f"columns-{packed.digest[:16]}.safetensors"
    packed.write(folder / name)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["digest"]
    manifest["segments"][0]["columns"] = name
    (folder / "manifest.json").write_bytes(manifest_bytes(manifest))
    with pytest.raises(FileFormatError, match=said):
        CodeIndex.load(folder).get(["a"])
    with pytest.raises(FileFormatError, match=said):
        CodeIndex.load(folder, verify="full")
