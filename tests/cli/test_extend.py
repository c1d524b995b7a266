"""`supquant extend` adds classes to a model or an index."""

import numpy as np
import pandas
import pytest

from supquant import CodeIndex, ProductQuantizer, SupervisedQuantizer, load_model


@pytest.fixture
def few(here):
    with np.load(here / "few.npz") as file:
        return file["X"], file["y"]


def test_a_model_is_extended_in_place(run, here, few):
    before = load_model("base.model")
    result = run("extend", "base.model", "few.npz")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Added 2 classes to base.model: 8 (4 rows), 9 (4 rows).",
        "It knows 10 classes.",
    ]
    model, expected = load_model("base.model"), before.extend(*few)
    assert isinstance(model, SupervisedQuantizer)
    np.testing.assert_array_equal(model.predict_proba(few[0]), expected.predict_proba(few[0]))


def test_an_index_is_extended_in_place_and_finds_its_items_under_the_new_classes(run, here, few):
    before = CodeIndex.load("base.index")
    codes = {path.name: path.read_bytes() for path in here.glob("base.index/codes-*")}
    result = run("extend", "base.index", "few.npz")
    assert result.exit_code == 0, result.output
    assert "Added 2 classes to base.index: 8 (4 rows), 9 (4 rows)." in result.stdout
    index = CodeIndex.load("base.index", verify="full")
    expected = before.with_codec(before.codec.extended(*few))
    for mine, other in zip(index.search(few[0], 20), expected.search(few[0], 20), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert {path.name: path.read_bytes() for path in here.glob("base.index/codes-*")} == codes
    assert len(list(here.glob("base.index/codec-*"))) == 1


@pytest.mark.parametrize("name", ["base.model", "base.index"])
def test_a_copy_is_extended_and_the_original_stays(run, here, name):
    path = here / name
    before = {each: each.read_bytes() for each in [path, *path.rglob("*")] if each.is_file()}
    result = run("extend", name, "few.npz", "-o", f"new-{name}")
    assert result.exit_code == 0, result.output
    assert f"to new-{name}: 8 (4 rows)" in result.stdout
    assert f"{name} is as it was." in result.stdout
    assert {each: each.read_bytes() for each in before} == before
    load = CodeIndex.load if name.endswith("index") else load_model
    made = load(f"new-{name}")
    assert len(made.codec.classes if name.endswith("index") else made.classes_) == 10
    if name.endswith("index"):
        result = run("extend", name, "few.npz", "-o", f"new-{name}")
        assert result.exit_code == 2
        assert "exists already" in result.stderr


@pytest.mark.parametrize("text_ids", [False, True])
def test_a_table_of_ids_and_labels_takes_its_vectors_from_another_file(run, here, digits, text_ids):
    X, y = digits
    new = np.flatnonzero(y[500:600] == 9)[:3] + 500
    ids = new
    if text_ids:
        CodeIndex(load_model("base.model")).add(
            X[500:600], ids=[f"{row:04}" for row in range(500, 600)]
        ).save("base.index", overwrite=True)
        vectors = pandas.read_csv("vectors.csv")
        vectors["id"] = [f"{row:04}" for row in vectors["id"]]
        vectors.to_csv("vectors.csv", index=False)
        ids = [f"{row:04}" for row in new]
    (here / "labels.csv").write_text("\n".join(["id,label", *(f"{each},9" for each in ids)]))
    before = CodeIndex.load("base.index")
    result = run("extend", "base.index", "labels.csv", "--vectors", "vectors.csv")
    assert result.exit_code == 0, result.output
    assert "Added 1 class to base.index: 9 (3 rows)." in result.stdout
    after = CodeIndex.load("base.index").codec
    assert after.pack().digest == before.codec.extended(X[new], [9] * 3).pack().digest
    result = run("extend", "base.model", "labels.csv", "--vectors", "vectors.csv", "--labels", "label")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["id,label", "5,9"], [], "no vectors with these ids: 5"),
        (["id,label", "510,9", "510,9"], [], "510"),
        (["id,label", "x,9"], [], "ids of vectors.csv are integers"),
        (["id,name", "510,9"], [], "no column is known to be the labels"),
        (["id,label", "510,"], [], "no labelled row"),
        (["id,label", "510,3"], [], "which the model knows"),
        (["id,label", "510,nine"], [], "of the kind that the model knows"),
        (["id,label", ",9"], [], "labels.csv, row 0 has no id"),
        (["id,label"], [], "no rows"),
        (["id,label", "510,9"], ["--vectors", "none.csv"], "no such file: none.csv"),
        (["id,label", "510,9"], ["--labels", "kind"], "no column 'kind'"),
    ],
)
def test_labels_that_cannot_be_used_are_refused_in_one_line(run, here, lines, options, message):
    (here / "labels.csv").write_text("".join(f"{line}\n" for line in lines))
    before = (here / "base.index" / "manifest.json").read_bytes()
    result = run("extend", "base.index", "labels.csv", "--vectors", "vectors.csv", *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.rstrip().splitlines()[-1].startswith("Error: ")
    assert (here / "base.index" / "manifest.json").read_bytes() == before


def test_ids_that_the_index_does_not_hold_are_refused(run, here):
    (here / "labels.csv").write_text("id,label\n510,9")
    CodeIndex.load("base.index").remove([510]).save("base.index")
    result = run("extend", "base.index", "labels.csv", "--vectors", "vectors.csv")
    assert result.exit_code == 2
    assert "not in the index: 510" in result.stderr


def test_rows_without_a_label_are_left_out_with_a_note(run, here, few):
    frame = pandas.DataFrame(few[0], columns=[f"x{number}" for number in range(64)])
    frame["kind"] = [*few[1][:-1], None]
    frame["kind"] = frame["kind"].astype("Int64")
    frame.to_parquet("few.parquet")
    result = run("extend", "base.model", "few.parquet", "--labels", "kind", "--vectors", "x*")
    assert result.exit_code == 0, result.output
    assert "8 (4 rows), 9 (3 rows)" in result.stdout
    assert "1 row has no label and add" in result.stderr


def test_other_methods_cannot_be_extended(run, here, digits):
    ProductQuantizer(2, n_codewords=16, max_iter=1).fit(digits[0][:100]).save("other.model")
    CodeIndex(load_model("other.model")).save("other.index")
    for name in ("other.model", "other.index"):
        result = run("extend", name, "few.npz")
        assert result.exit_code == 2
        assert "only a model of SupervisedQuantizer (--method sq) can be extended" in result.stderr
    result = run("extend", "none.model", "few.npz")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["base.model", "named.csv", "--by-id"], "name an index, and no --vectors"),
        (
            ["base.index", "named.csv", "--by-id", "--vectors", "vectors.csv"],
            "name an index, and no --vectors",
        ),
        (["base.index", "missing.csv", "--by-id"], "not in the index: 7"),
    ],
)
def test_codes_are_learned_from_only_if_they_are_in_the_index(run, here, arguments, problem):
    (here / "named.csv").write_text("id,label\n510,9\n511,9\n")
    (here / "missing.csv").write_text("id,label\n7,9\n")
    result = run("extend", *arguments)
    assert result.exit_code == 2, result.output
    assert problem in result.stderr


def test_a_copy_of_an_index_is_extended_by_codes(run, here):
    (here / "named.csv").write_text("id,label\n510,9\n511,9\n512,\n")
    result = run("extend", "base.index", "named.csv", "--by-id", "-o", "wider.index")
    assert result.exit_code == 0, result.output
    assert "Added 1 class to wider.index: 9 (2 rows)." in result.stdout
    assert len(CodeIndex.load("wider.index").codec.classes) == 9
    assert len(CodeIndex.load("base.index").codec.classes) == 8
