"""From anyone's file to searching: the commands on Parquet, CSV and other files."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from products import TABLE_FILES, make_products

from supquant import CodeIndex, SupervisedQuantizer, load_model, open_vectors

COLUMNS = ("--labels", "category", "--ids", "sku")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A shop of 300 products: vectors lie around the means of their kinds, and every fourth product has no kind."""
    products = make_products(300, 8, seed=1)
    kinds = sorted({label for label in products.labels if label})
    means = np.random.default_rng(0).normal(size=(len(kinds), 8)) * 64
    near = np.array([means[kinds.index(label)] if label else 0 * means[0] for label in products.labels])
    products = products._replace(X=(products.X + np.round(near) / 16).astype(np.float32))
    folder = tmp_path_factory.mktemp("shop")
    for name, write in TABLE_FILES.items():
        write(folder / name, products)
    model = SupervisedQuantizer(2, n_jobs=1, random_state=0).fit(products.X, products.labels)
    model.save(folder / "direct.model")
    return folder, products


@pytest.mark.parametrize("name", TABLE_FILES)
def test_the_three_commands_give_the_same_answers_from_every_file(run, shop, tmp_path, name):
    folder, products = shop
    items = folder / name
    if name == "a.parquet":  # the fit of one file stands for all: what they give to it is the same
        fitted = run("fit", items, *COLUMNS, "--bits", 16, "--jobs", 1, "-o", tmp_path / "shop.model")
        assert fitted.exit_code == 0, fitted.output
        assert "the vectors are read from column 'embedding'" in fitted.stderr
        model = tmp_path / "shop.model"
        assert (
            load_model(model).codec_.pack().digest == load_model(folder / "direct.model").codec_.pack().digest
        )
    made = run("index", folder / "direct.model", items, *COLUMNS, "-o", tmp_path / "shop.index")
    assert made.exit_code == 0, made.output
    found = run("search", tmp_path / "shop.index", items, "-k", 5, "-o", tmp_path / "answers.npz")
    assert found.exit_code == 0, found.output
    direct = CodeIndex(load_model(folder / "direct.model")).add(products.X, products.labels, products.ids)
    scores, ids = direct.search(products.X, k=5)
    with np.load(tmp_path / "answers.npz") as answers:
        np.testing.assert_array_equal(answers["ids"], ids.astype(str))
        np.testing.assert_array_equal(answers["scores"], scores)


def test_codes_are_written_to_parquet_with_ids(run, shop, tmp_path):
    folder, products = shop
    result = run(
        "encode", folder / "direct.model", folder / "a.parquet", *COLUMNS, "-o", tmp_path / "codes.parquet"
    )
    assert result.exit_code == 0, result.output
    table = pq.read_table(tmp_path / "codes.parquet")
    assert table.schema.field("code").type == pa.binary(2)
    assert table["id"].to_pylist() == products.ids
    codes = load_model(folder / "direct.model").codec_.encode_items(products.X, products.labels)
    assert table["code"].to_pylist() == [code.tobytes() for code in codes]


def test_items_are_added_updated_and_removed(run, shop, tmp_path):
    folder, products = shop
    table = products.table()
    pq.write_table(table.slice(0, 200), tmp_path / "old.parquet")
    pq.write_table(table.slice(150), tmp_path / "new.parquet")
    run("index", folder / "direct.model", tmp_path / "old.parquet", "--ids", "sku", "-o", tmp_path / "i")
    twice = run("add", tmp_path / "i", tmp_path / "new.parquet", *COLUMNS)
    assert twice.exit_code == 2
    assert "in the index already" in twice.stderr
    assert run("add", tmp_path / "i", tmp_path / "new.parquet", *COLUMNS, "--replace").exit_code == 0
    index = CodeIndex.load(tmp_path / "i")
    assert index.ids.tolist() == products.ids
    codec = index.codec
    expected = np.concatenate(
        [codec.encode_items(products.X[:150]), codec.encode_items(products.X[150:], products.labels[150:])]
    )
    np.testing.assert_array_equal(index.codes(products.ids), expected)
    assert run("update", tmp_path / "i", tmp_path / "old.parquet", *COLUMNS).exit_code == 0
    np.testing.assert_array_equal(
        CodeIndex.load(tmp_path / "i").codes(products.ids), codec.encode_items(products.X, products.labels)
    )
    assert run("remove", tmp_path / "i", "0003", "0004").exit_code == 0
    (tmp_path / "gone.txt").write_text("0000\n0001\n0002\n")
    assert run("remove", tmp_path / "i", "--ids", tmp_path / "gone.txt").exit_code == 0
    assert CodeIndex.load(tmp_path / "i").ids.tolist() == products.ids[5:]
    missing = run("remove", tmp_path / "i", "0000")
    assert missing.exit_code == 2
    assert "these ids are not in the index: '0000'" in missing.stderr
    assert run("remove", tmp_path / "i").exit_code == 2


def test_ten_lines_of_python(shop, tmp_path):
    folder, products = shop
    items = open_vectors(folder / "a.parquet", labels="category", ids="sku")
    model = SupervisedQuantizer(2, n_jobs=1, random_state=0).fit(items.X, items.labels)
    index = CodeIndex(model).add(items.X, items.labels, items.ids)
    index.save(tmp_path / "shop.index")
    scores, ids = CodeIndex.load(tmp_path / "shop.index").search(products.X[0], k=3)
    assert scores.shape == ids.shape == (3,)
    assert products.ids[0] in index
    assert "nothing" not in index
    assert 7 not in index


def test_metadata_goes_with_the_answers(run, shop, tmp_path):
    folder, products = shop
    kept = ("--metadata", "price", "--metadata", "category")
    made = run("index", folder / "direct.model", folder / "a.parquet", *COLUMNS, *kept, "-o", tmp_path / "i")
    assert made.exit_code == 0, made.output
    asked = (
        "search",
        tmp_path / "i",
        folder / "a.parquet",
        "-k",
        4,
        "--where",
        "price < 100 and category = 'shoes'",
    )
    for name in ("answers.csv", "answers.jsonl", "answers.parquet"):
        assert run(*asked, "-o", tmp_path / name).exit_code == 0
    table = pq.read_table(tmp_path / "answers.parquet")
    assert table.column_names == ["query", "rank", "id", "score", "price", "category"]
    assert set(table["category"].to_pylist()) == {"shoes"}
    assert max(table["price"].to_pylist()) < 100
    number = dict(zip(products.ids, products.price, strict=True))
    assert [number[name] for name in table["id"].to_pylist()] == table["price"].to_pylist()
    lines = pd.read_csv(tmp_path / "answers.csv", dtype={"id": str})
    assert lines["price"].tolist() == table["price"].to_pylist()
    objects = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [price for each in objects for price in each["price"]] == table["price"].to_pylist()
    printed = run(*asked, "--column", "price").output
    assert "price" in printed
    assert "category" not in printed
    unknown = run(*asked, "--column", "colour")
    assert unknown.exit_code == 2
    assert "has no column 'colour': it has price, category" in unknown.stderr
    wrong = run("search", tmp_path / "i", folder / "a.parquet", "--where", "colour = 3")
    assert wrong.exit_code == 2
    assert len(wrong.stderr.strip().splitlines()[-1]) < 400


def test_metadata_is_updated_with_its_item(run, shop, tmp_path):
    folder, products = shop
    run(
        "index",
        folder / "direct.model",
        folder / "a.parquet",
        *COLUMNS,
        "--metadata",
        "*",
        "-o",
        tmp_path / "i",
    )
    assert CodeIndex.load(tmp_path / "i").columns == ["price"]
    cheaper = products.table().slice(0, 2).set_column(3, "price", pa.array([-1, -2]))
    pq.write_table(cheaper, tmp_path / "sale.parquet")
    result = run("update", tmp_path / "i", tmp_path / "sale.parquet", *COLUMNS, "--metadata", "price")
    assert result.exit_code == 0, result.output
    index = CodeIndex.load(tmp_path / "i")
    assert index.get(products.ids[:3])["price"].to_pylist() == [-1, -2, products.price[2]]


def test_an_output_that_cannot_be_written_is_refused_before_the_work(run, shop, tmp_path, monkeypatch):
    folder, _ = shop
    items = folder / "a.parquet"
    commands = {
        "fit": ("fit", items, *COLUMNS, "-o", tmp_path / "new.model"),
        "index": ("index", folder / "direct.model", items, "-o", tmp_path / "new.index"),
        "encode": ("encode", folder / "direct.model", items, "-o", tmp_path / "new.npy"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
        for name, command in commands.items():
            result = run(*command)
            assert result.exit_code == 2, name
            assert f"the folder {tmp_path} is read-only" in result.stderr
    full = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr("supquant.cli.files.shutil.disk_usage", lambda _: full)
    monkeypatch.setattr("supquant.cli.index.encoded", lambda *_: pytest.fail("work was done"))
    for name in ("index", "encode"):
        result = run(*commands[name])
        assert result.exit_code == 2, name
        assert "MB are free" in result.stderr
    assert not list(tmp_path.iterdir())
